"""Recorder based on strace, for machines without the native recorder (aarch64, musl, or an installation without
Rust).

It is slower. It sees neither stores into mappings nor data that the kernel copies from file to file. The record notes
such changes as missing.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dyno.crash.record import (
    Create,
    Event,
    Flush,
    Hint,
    Link,
    Mark,
    Node,
    RefusedCall,
    Rename,
    Resize,
    Unlink,
    UnseenChange,
    Write,
)
from dyno.crash.tree import Tree
from dyno.selftest import trace
from dyno.selftest.trace import Call

_REFUSED = ("io_uring_setup", "io_setup")
_OPENS = ("open", "openat", "openat2", "creat")
_READS = ("read", "readv")
_WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2")
_COPIES = ("sendfile", "copy_file_range", "splice")
_SIZES = ("truncate", "ftruncate", "fallocate")
_FLUSHES = ("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range")
_RENAMES = ("rename", "renameat", "renameat2")
_LINKS = ("link", "linkat", "symlink", "symlinkat")
_NAMES = (*_RENAMES, *_LINKS, "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod", "mknodat")
_FORKS = ("clone", "clone3", "fork", "vfork")
_DESCRIPTORS = ("dup", "dup2", "dup3", "fcntl", "close", "lseek", "chdir", "fchdir")
_MARKS = ("access", "faccessat", "faccessat2")
_CALLS = (
    *(*_OPENS, *_READS, *_WRITES, *_COPIES, *_SIZES, *_FLUSHES, *_NAMES),
    *(*_FORKS, *_DESCRIPTORS, *_MARKS, *_REFUSED, "mmap", "mprotect"),
)
MOST_WRITE_BYTES = 1 << 26
"""Maximum number of bytes of a write that strace shows."""
MOST_LINKS = 16
"""Maximum number of symbolic links followed in one path."""
_DESCRIPTOR = re.compile(r"^(-?\d+)(?:<([^>]*)>)?")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BASES = re.compile(r'iov_base="((?:[^"\\]|\\.)*)"')
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_MARK = re.compile(r'"/dyno-mark/(\d+)/(begin|end)"')
_INJECTED = re.compile(r"^\d+ +(\w+)\(.*\(INJECTED\)$")

Place = tuple[int, str]
"""Number of a directory, and a name in that directory."""
Kind = Literal["file", "directory", "symlink"]


def unavailable() -> str | None:
    """Returns why strace can't be used on this machine, or None if it can."""
    return trace.unavailable()


def run(
    command: Sequence[str], environment: Mapping[str, str], identity: tuple[int, int, list[int]] | None, out: str
) -> int:
    """Runs a command under strace, which writes its lines to the file `out`.

    Returns the command's exit status, or the negative number of a signal.
    """
    tracer = shutil.which("strace")
    if tracer is None:
        raise RuntimeError("strace is not installed")
    calls = ",".join("?" + call for call in _CALLS)
    words = [tracer, "-f", "-y", "-qq", "-s", str(MOST_WRITE_BYTES), "--seccomp-bpf"]
    words += ["-e", f"trace={calls}", "-e", "signal=none"]
    for call in _REFUSED:
        words += ["-e", f"inject=?{call}:error=ENOSYS"]
    if identity is not None:
        words += ["-u", pwd.getpwuid(identity[0]).pw_name]
    return subprocess.run([*words, "-o", out, *command], env=dict(environment)).returncode


def events(lines: Iterable[str], roots: Sequence[Path], nodes: Sequence[Node], cwd: Path) -> Iterator[Event]:
    """Yields the events that strace's lines show. `cwd`: working directory of the command at its start."""
    stripped = [line.rstrip("\n") for line in lines]
    for at, line in enumerate(stripped):
        if match := _INJECTED.match(line):
            yield RefusedCall(2 * at + 1, 2 * at + 2, 0, match[1])
    calls = list(trace.calls(stripped))
    follower = _Follower(roots, nodes, cwd, calls)
    for call in calls:
        yield from follower.events(call)


class _Files(Tree):
    """Files below the roots, with their sizes."""

    def __init__(self, roots: Sequence[Path], nodes: Sequence[Node]) -> None:
        super().__init__(nodes)
        self._roots = {str(root): number for number, root in enumerate(roots)}
        self.sizes = {node.number: node.size for node in self.nodes.values()}
        self.next_number = max(self.nodes, default=-1) + 1

    def apply(self, event: Event) -> None:
        super().apply(event)
        if isinstance(event, Create):
            self.sizes[event.file] = 0
            self.next_number = event.file + 1
        elif isinstance(event, Resize):
            self.sizes[event.file] = event.size
        elif isinstance(event, Write):
            self.sizes[event.file] = max(self.sizes[event.file], event.offset + len(event.data))

    def number(self, path: str, follow: bool = True) -> int | None:
        """Returns the number of a file, directory or root; None for a path outside the roots."""
        path = os.path.normpath(path)
        if path in self._roots:
            return self._roots[path]
        place = self.place(path, follow)
        return self.names.get(place) if place is not None else None

    def place(self, path: str, follow: bool = False, links: int = MOST_LINKS) -> Place | None:
        """Returns directory number and name of a path below a root. `follow`: resolve a symbolic link at the end."""
        parent_path, name = os.path.split(os.path.normpath(path))
        if not parent_path or parent_path == path or not links:
            return None
        parent = self._directory(parent_path, links)
        if parent is None:
            return None
        node = self.nodes.get(self.names.get((parent, name), -1))
        if follow and node is not None and node.kind == "symlink":
            return self.place(os.path.join(parent_path, node.target), True, links - 1)  # noqa: PTH118
        return parent, name

    def _directory(self, path: str, links: int) -> int | None:
        if path in self._roots:
            return self._roots[path]
        place = self.place(path, True, links - 1)
        if place is not None:
            number = self.names.get(place)
            return number if number is not None and self.nodes[number].kind == "directory" else None
        # A symbolic link outside the roots may lead into one.
        real = os.path.realpath(path)
        return self._directory(real, links - 1) if real != path and links else None


@dataclass
class _OpenFile:
    """An open file. Several descriptors may share it."""

    flags: str
    position: int = 0


@dataclass
class _Process:
    files: dict[int, _OpenFile] = field(default_factory=dict)
    cwd: str = "/"


class _Follower:
    """Turns system calls, in the order of their ends, into events."""

    def __init__(self, roots: Sequence[Path], nodes: Sequence[Node], cwd: Path, calls: Iterable[Call]) -> None:
        self._files = _Files(roots, nodes)
        self._cwd = str(cwd)
        self._parents = {c.result: (c.pid, "CLONE_FILES" in c.arguments) for c in calls if c.name in _FORKS}
        self._processes: dict[int, _Process] = {}

    def _process(self, pid: int) -> _Process:
        if pid not in self._processes:
            if pid not in self._parents:
                self._processes[pid] = _Process({}, self._cwd)
            else:
                parent_pid, shares = self._parents[pid]
                parent = self._process(parent_pid)
                self._processes[pid] = parent if shares else _Process(dict(parent.files), parent.cwd)
        return self._processes[pid]

    def events(self, call: Call) -> Iterator[Event]:
        for event in self._events(call):
            self._files.apply(event)
            yield event

    def _events(self, call: Call) -> Iterator[Event]:
        moments = 2 * call.began + 1, 2 * call.ended + 2, call.pid
        if call.name in _FORKS:
            # Create the child's process now, so that it gets the parent's descriptors as they are at this moment.
            self._process(call.result)
        elif call.name in _MARKS:
            if match := _MARK.search(call.arguments):
                yield Mark(*moments, int(match[1]), "begin" if match[2] == "begin" else "end")
        elif call.name in _OPENS:
            yield from self._open(call, moments)
        elif call.name in (*_READS, *_DESCRIPTORS):
            self._change_descriptor(call)
        elif call.name in _WRITES:
            yield from self._write(call, moments)
        elif call.name in _NAMES:
            yield from self._name(call, moments)
        elif call.name in _SIZES:
            yield from self._resize(call, moments)
        elif call.name in _FLUSHES:
            yield from self._flush(call, moments)
        elif call.name in (*_COPIES, "mmap"):
            yield from self._unseen(call, moments)

    def _descriptor(self, call: Call) -> tuple[int, int | None]:
        """Returns the call's first descriptor, and the number of its file if that is below a root."""
        match = _DESCRIPTOR.match(call.arguments)
        if match is None:
            return -1, None
        return int(match[1]), self._files.number(_text(match[2])) if match[2] else None

    def _paths(self, call: Call) -> list[str]:
        """Returns the absolute paths among the arguments."""
        paths = []
        for match in _PATH.finditer(call.arguments):
            directory = _text(match[1]) if match[1] else self._process(call.pid).cwd
            paths.append(os.path.join(directory, _text(match[2])))  # noqa: PTH118
        return paths or [""]

    def _change_descriptor(self, call: Call) -> None:
        process = self._process(call.pid)
        number, _ = self._descriptor(call)
        file = process.files.get(number)
        if call.name in ("dup", "dup2", "dup3") or (call.name == "fcntl" and "F_DUPFD" in call.arguments):
            if file is not None:
                process.files[call.result] = file
            else:
                process.files.pop(call.result, None)
        elif call.name == "close":
            process.files.pop(number, None)
        elif call.name == "chdir":
            process.cwd = self._paths(call)[0]
        elif call.name == "fchdir":
            match = _DESCRIPTOR.match(call.arguments)
            process.cwd = _text(match[2]) if match and match[2] else process.cwd
        elif file is not None and call.name == "lseek":
            file.position = call.result
        elif file is not None and call.name in _READS:
            file.position += call.result

    def _open(self, call: Call, moments: tuple[int, int, int]) -> Iterator[Event]:
        flags = "O_CREAT|O_TRUNC" if call.name == "creat" else call.arguments.rpartition('", ')[2]
        self._process(call.pid).files[call.result] = _OpenFile(flags)
        path = self._paths(call)[0]
        if "O_TMPFILE" in flags:
            if self._files.place(path + "/x") is not None:
                yield UnseenChange(*moments, "open", "strace does not show a file without a name")
            return
        number = self._files.number(path)
        place = self._files.place(path, follow=True)
        if number is None and place is not None and "O_CREAT" in flags:
            yield self._create(moments, place, "file", _mode(flags))
        elif number is not None and "O_TRUNC" in flags:
            yield Resize(*moments, number, 0, "open")

    def _create(self, moments: tuple[int, int, int], place: Place, kind: Kind, mode: int, target: str = "") -> Create:
        return Create(*moments, self._files.next_number, *place, kind, mode, os.geteuid(), os.getegid(), target)

    def _write(self, call: Call, moments: tuple[int, int, int]) -> Iterator[Event]:
        descriptor, number = self._descriptor(call)
        if number is None or not call.result:
            return
        file = self._process(call.pid).files.get(descriptor)
        if file is None:
            yield UnseenChange(*moments, call.name, "strace does not show how the file was opened")
            return
        parts = _BASES.findall(call.arguments) if "v" in call.name else _TEXT.findall(call.arguments)[:1]
        data = b"".join(map(_unescaped, parts))[: call.result]
        if len(data) != call.result:
            yield UnseenChange(*moments, call.name, "strace does not show all that it wrote")
        rest = call.arguments.rpartition('"')[2].split(", ")
        flags = rest.pop() if call.name == "pwritev2" else ""
        offset = int(rest[-1]) if call.name.startswith("pwrite") else -1
        moves = offset < 0
        if "O_APPEND" in file.flags or "RWF_APPEND" in flags:
            offset = self._files.sizes[number]
        elif moves:
            offset = file.position
        if moves:
            file.position = offset + len(data)
        durable = bool(re.search(r"\bO_D?SYNC\b", file.flags) or re.search(r"\bRWF_D?SYNC\b", flags))
        yield Write(*moments, number, offset, data, call.name, durable)

    def _resize(self, call: Call, moments: tuple[int, int, int]) -> Iterator[Event]:
        words, sizes = call.arguments.split(", "), self._files.sizes
        is_path = call.name == "truncate"
        number = self._files.number(self._paths(call)[0]) if is_path else self._descriptor(call)[1]
        if number is None:
            return
        if call.name != "fallocate":
            yield Resize(*moments, number, int(words[-1]), call.name)
            return
        mode, start, end = words[-3], int(words[-2]), int(words[-2]) + int(words[-1])
        if "COLLAPSE" in mode or "INSERT" in mode or "UNSHARE" in mode:
            yield UnseenChange(*moments, "fallocate", "it moves the bytes behind")
        if "KEEP_SIZE" not in mode and end > sizes[number]:
            yield Resize(*moments, number, end, "fallocate")
        if ("PUNCH_HOLE" in mode or "ZERO_RANGE" in mode) and start < (end := min(end, sizes[number])):
            yield Write(*moments, number, start, bytes(end - start), "fallocate")

    def _unseen(self, call: Call, moments: tuple[int, int, int]) -> Iterator[Event]:
        why = "strace does not show what it copied"
        if call.name == "mmap":
            if "PROT_WRITE" not in call.arguments or "MAP_SHARED" not in call.arguments:
                return
            why = "strace does not show what is stored in a mapping"
        # sendfile writes to its first descriptor, the other calls to their last one.
        paths = re.findall(r"\d+<([^>]*)>", call.arguments)
        path = paths[0 if call.name == "sendfile" else -1] if paths else ""
        if self._files.number(_text(path)) is not None:
            yield UnseenChange(*moments, call.name, why)

    def _flush(self, call: Call, moments: tuple[int, int, int]) -> Iterator[Event]:
        if call.name in ("sync", "syncfs"):
            yield Flush(*moments, call.name, None)
        # A writable mapping was already reported as unseen; msync has nothing to flush for any other mapping.
        elif call.name != "msync" and (number := self._descriptor(call)[1]) is not None:
            yield (Hint if call.name == "sync_file_range" else Flush)(*moments, call.name, number)

    def _name(self, call: Call, moments: tuple[int, int, int]) -> Iterator[Event]:
        paths, files = self._paths(call), self._files
        if call.name in _RENAMES:
            yield from self._rename(call, moments, paths)
        elif call.name.startswith("link"):
            number, place = files.number(paths[0], follow=False), files.place(paths[1])
            if place is not None and number is None:
                yield UnseenChange(*moments, "link", "strace does not show a file from outside")
            elif place is not None and number is not None:
                yield Link(*moments, number, *place)
        elif call.name.startswith("symlink"):
            place, target = files.place(paths[-1]), _text(_TEXT.findall(call.arguments)[0])
            if place is not None:
                yield self._create(moments, place, "symlink", 0o777, target)
        elif (place := files.place(paths[0])) is None:
            return
        elif call.name.startswith("mkdir"):
            yield self._create(moments, place, "directory", _mode(call.arguments))
        elif call.name.startswith("mknod"):
            if "S_IFREG" in call.arguments or "S_IF" not in call.arguments:
                yield self._create(moments, place, "file", _mode(call.arguments.rpartition("|")[2]))
        elif (number := files.names.get(place)) is not None:
            is_directory = call.name == "rmdir" or "AT_REMOVEDIR" in call.arguments
            yield Unlink(*moments, number, *place, "rmdir" if is_directory else "unlink")

    def _rename(self, call: Call, moments: tuple[int, int, int], paths: list[str]) -> Iterator[Event]:
        names = self._files.names
        old, new = self._files.place(paths[0]), self._files.place(paths[-1])
        number = names.get(old) if old is not None else None
        if "RENAME_EXCHANGE" in call.arguments or "RENAME_WHITEOUT" in call.arguments:
            yield UnseenChange(*moments, "rename", "it exchanges names")
        elif old is not None and number is not None:
            if new is None:
                yield Unlink(*moments, number, *old, "rename")
            elif names.get(new) != number:
                yield Rename(*moments, number, *old, *new)
        elif new is not None:
            yield UnseenChange(*moments, "rename", "strace does not show a file from outside")


def _mode(arguments: str) -> int:
    """Returns the last octal number among the arguments, masked by the usual umask."""
    numbers = re.findall(r"\b0[0-7]{1,4}\b", arguments)
    return (int(numbers[-1], 8) if numbers else 0o644) & ~0o022


def _unescaped(text: str) -> bytes:
    return text.encode("latin-1", "replace").decode("unicode_escape").encode("latin-1")


def _text(text: str) -> str:
    return _unescaped(text).decode(errors="replace")
