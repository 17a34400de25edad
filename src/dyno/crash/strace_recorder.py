"""Records by strace, where the native recorder can't be had: slower, and it can't see stores into a mapping, nor data
that the kernel copies from file to file; where there are any, the record says so."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dyno.crash.record import (
    Create,
    Event,
    Flush,
    Hint,
    Link,
    Mark,
    Node,
    Refused,
    Rename,
    Resize,
    Unlink,
    Unseen,
    Write,
)
from dyno.crash.tracked_files import Paths, Place
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
_TABLES = ("dup", "dup2", "dup3", "fcntl", "close", "lseek", "chdir", "fchdir")
_ASKS = ("access", "faccessat", "faccessat2")
_CALLS = (
    *(*_OPENS, *_READS, *_WRITES, *_COPIES, *_SIZES, *_FLUSHES, *_NAMES),
    *(*_FORKS, *_TABLES, *_ASKS, *_REFUSED, "mmap", "mprotect"),
)
_LONGEST = 1 << 26
"""Bytes of a write that are shown at most."""
_DESCRIPTOR = re.compile(r"^(-?\d+)(?:<([^>]*)>)?")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BASES = re.compile(r'iov_base="((?:[^"\\]|\\.)*)"')
_MARK = re.compile(r'"/dyno-mark/(\d+)/(begin|end)"')
_INJECTED = re.compile(r"^\d+ +(\w+)\(.*\(INJECTED\)$")


def unavailable() -> str | None:
    """Why strace can't be used here; None where it can."""
    return trace.unavailable()


def run(
    command: Sequence[str], environment: Mapping[str, str], identity: tuple[int, int, list[int]] | None, out: str
) -> int:
    """Has strace write to `out` what the command does. Returns its status, or its signal's number below 0."""
    tracer = shutil.which("strace")
    if tracer is None:
        raise RuntimeError("strace is not installed")
    calls = ",".join("?" + call for call in _CALLS)
    words = [
        tracer,
        "-f",
        "-y",
        "-qq",
        "-s",
        str(_LONGEST),
        "--seccomp-bpf",
        "-e",
        f"trace={calls}",
        "-e",
        "signal=none",
    ]
    for call in _REFUSED:
        words += ["-e", f"inject=?{call}:error=ENOSYS"]
    if identity is not None:
        words += ["-u", pwd.getpwuid(identity[0]).pw_name]
    return subprocess.run([*words, "-o", out, *command], env=dict(environment)).returncode


def events(lines: Iterable[str], roots: Sequence[Path], nodes: Sequence[Node], cwd: Path) -> Iterator[Event]:
    """What strace's lines say. `cwd`: that of the command when it was begun."""
    kept = [line.rstrip("\n") for line in lines]
    refused = [(at, found[1]) for at, line in enumerate(kept) if (found := _INJECTED.match(line))]
    watch = _Watch(roots, nodes, cwd)
    for at, name in refused:
        yield Refused(2 * at + 1, 2 * at + 2, 0, name)
    every = list(trace.calls(kept))
    watch.families(every)
    for call in every:
        yield from watch.seen(call)


@dataclass
class _Opened:
    """An open file, which several descriptors may share."""

    flags: str
    position: int = 0


@dataclass
class _Process:
    table: dict[int, _Opened] = field(default_factory=dict)
    cwd: str = "/"


class _Watch:
    """Follows the calls in the order in which they ended."""

    def __init__(self, roots: Sequence[Path], nodes: Sequence[Node], cwd: Path) -> None:
        self._paths = Paths(roots, nodes)
        self._cwd = str(cwd)
        self._parents: dict[int, tuple[int, bool]] = {}
        self._processes: dict[int, _Process] = {}

    def families(self, every: Iterable[Call]) -> None:
        """Who has whose descriptors."""
        for call in every:
            if call.name in _FORKS:
                self._parents[call.result] = call.pid, "CLONE_FILES" in call.arguments

    def _process(self, pid: int) -> _Process:
        if pid not in self._processes:
            if pid not in self._parents:
                self._processes[pid] = _Process({}, self._cwd)
            else:
                parent, shares = self._parents[pid]
                above = self._process(parent)
                self._processes[pid] = above if shares else _Process(dict(above.table), above.cwd)
        return self._processes[pid]

    def seen(self, call: Call) -> Iterator[Event]:
        if call.name in _FORKS:
            # From here on the tables are two.
            self._process(call.result)
        elif call.name in _ASKS:
            if found := _MARK.search(call.arguments):
                yield Mark(*self._moments(call), int(found[1]), "begin" if found[2] == "begin" else "end")
        elif call.name in _OPENS:
            yield from self._open(call)
        elif call.name in (*_READS, *_TABLES):
            self._table(call)
        elif call.name in _WRITES:
            yield from self._write(call)
        elif call.name in _NAMES:
            yield from self._name(call)
        elif call.name in _SIZES:
            yield from self._resize(call)
        elif call.name in _FLUSHES:
            yield from self._flush(call)
        elif call.name in (*_COPIES, "mmap"):
            yield from self._unseen(call)

    def _moments(self, call: Call) -> tuple[int, int, int]:
        return 2 * call.began + 1, 2 * call.ended + 2, call.pid

    # -- descriptors -------------------------------------------------------------------------------------------

    def _file(self, call: Call, argument: str | None = None) -> tuple[int, int | None]:
        """The descriptor that comes first, and the number of its file, if it is ours."""
        found = _DESCRIPTOR.match(call.arguments if argument is None else argument)
        if found is None:
            return -1, None
        return int(found[1]), self._paths.number(_unescaped(found[2]).decode(errors="replace")) if found[2] else None

    def _table(self, call: Call) -> None:
        process = self._process(call.pid)
        number, _ = self._file(call)
        opened = process.table.get(number)
        if call.name in ("dup", "dup2", "dup3") or (call.name == "fcntl" and "F_DUPFD" in call.arguments):
            if opened is not None:
                process.table[call.result] = opened
            else:
                process.table.pop(call.result, None)
        elif call.name == "close":
            process.table.pop(number, None)
        elif call.name == "chdir":
            process.cwd = self._named(call)[0]
        elif call.name == "fchdir":
            found = _DESCRIPTOR.match(call.arguments)
            process.cwd = _unescaped(found[2]).decode() if found and found[2] else process.cwd
        elif opened is not None and call.name == "lseek":
            opened.position = call.result
        elif opened is not None and call.name in _READS:
            opened.position += call.result

    def _open(self, call: Call) -> Iterator[Event]:
        flags = "O_CREAT|O_TRUNC" if call.name == "creat" else call.arguments.rpartition('", ')[2]
        self._process(call.pid).table[call.result] = _Opened(flags)
        path = self._named(call)[0]
        if "O_TMPFILE" in flags:
            if self._paths.place(path + "/x") is not None:
                yield Unseen(*self._moments(call), "open", "strace does not tell a file without a name")
            return
        number = self._paths.number(path)
        place = self._paths.place(path, follow=True)
        if number is None and place is not None and "O_CREAT" in flags:
            yield self._create(call, place, "file", _mode(flags))
        elif number is not None and "O_TRUNC" in flags:
            self._paths.sizes[number] = 0
            yield Resize(*self._moments(call), number, 0, "open")

    def _create(self, call: Call, place: Place, kind: str, mode: int, target: str = "") -> Create:
        number = self._paths.add(place, kind, target)
        told = {"file": "file", "directory": "directory", "symlink": "symlink"}[kind]
        return Create(*self._moments(call), number, *place, told, mode, os.geteuid(), os.getegid(), target)  # type: ignore[arg-type]

    # -- bytes -------------------------------------------------------------------------------------------------

    def _write(self, call: Call) -> Iterator[Event]:
        descriptor, number = self._file(call)
        if number is None or not call.result:
            return
        opened = self._process(call.pid).table.get(descriptor)
        if opened is None:
            yield Unseen(*self._moments(call), call.name, "strace does not tell how the file was opened")
            return
        parts = _BASES.findall(call.arguments) if "v" in call.name else _TEXT.findall(call.arguments)[:1]
        data = b"".join(map(_unescaped, parts))[: call.result]
        if len(data) != call.result:
            yield Unseen(*self._moments(call), call.name, "strace does not tell all that it wrote")
        rest = call.arguments.rpartition('"')[2].split(", ")
        flags = rest.pop() if call.name == "pwritev2" else ""
        offset = int(rest[-1]) if call.name.startswith("pwrite") else -1
        moves = offset < 0
        if "O_APPEND" in opened.flags or "RWF_APPEND" in flags:
            offset = self._paths.sizes[number]
        elif moves:
            offset = opened.position
        if moves:
            opened.position = offset + len(data)
        self._paths.sizes[number] = max(self._paths.sizes[number], offset + len(data))
        durable = bool(re.search(r"\bO_D?SYNC\b", opened.flags) or re.search(r"\bRWF_D?SYNC\b", flags))
        yield Write(*self._moments(call), number, offset, data, call.name, durable)

    def _resize(self, call: Call) -> Iterator[Event]:
        words = call.arguments.split(", ")
        number = self._paths.number(self._named(call)[0]) if call.name == "truncate" else self._file(call)[1]
        if number is None:
            return
        before = self._paths.sizes[number]
        if call.name != "fallocate":
            self._paths.sizes[number] = int(words[-1])
            yield Resize(*self._moments(call), number, int(words[-1]), call.name)
            return
        start, stop = int(words[-2]), int(words[-2]) + int(words[-1])
        mode = words[-3]
        if "COLLAPSE" in mode or "INSERT" in mode or "UNSHARE" in mode:
            yield Unseen(*self._moments(call), "fallocate", "it moves what is behind")
        if "KEEP_SIZE" not in mode and stop > before:
            self._paths.sizes[number] = stop
            yield Resize(*self._moments(call), number, stop, "fallocate")
        if ("PUNCH_HOLE" in mode or "ZERO_RANGE" in mode) and start < (end := min(stop, self._paths.sizes[number])):
            yield Write(*self._moments(call), number, start, bytes(end - start), "fallocate")

    def _unseen(self, call: Call) -> Iterator[Event]:
        if call.name == "mmap":
            ours = "PROT_WRITE" in call.arguments and "MAP_SHARED" in call.arguments
            why = "strace does not tell what is stored in a mapping"
        else:
            ours, why = True, "strace does not tell what it copied"
        # The first descriptor of sendfile is written, and the last of the others.
        told = re.findall(r"\d+<([^>]*)>", call.arguments)
        path = told[0 if call.name == "sendfile" else -1] if told else ""
        if ours and self._paths.number(_unescaped(path).decode(errors="replace")) is not None:
            yield Unseen(*self._moments(call), call.name, why)

    def _flush(self, call: Call) -> Iterator[Event]:
        if call.name in ("sync", "syncfs"):
            yield Flush(*self._moments(call), call.name, None)
            return
        # A mapping that is written is told as unseen; one that is not has nothing to flush.
        number = None if call.name == "msync" else self._file(call)[1]
        if number is not None and call.name == "sync_file_range":
            yield Hint(*self._moments(call), call.name, number)
        elif number is not None:
            yield Flush(*self._moments(call), call.name, number)

    # -- names -------------------------------------------------------------------------------------------------

    def _named(self, call: Call) -> list[str]:
        """The paths among the arguments, absolute."""
        found = []
        for match in re.finditer(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"', call.arguments):
            above = _unescaped(match[1]).decode(errors="replace") if match[1] else self._process(call.pid).cwd
            found.append(os.path.join(above, _unescaped(match[2]).decode(errors="replace")))  # noqa: PTH118
        return found or [""]

    def _name(self, call: Call) -> Iterator[Event]:
        paths, moments = self._named(call), self._moments(call)
        if call.name in _RENAMES:
            yield from self._rename(call, paths)
        elif call.name.startswith("link"):
            number, place = self._paths.number(paths[0], follow=False), self._paths.place(paths[1])
            if place is not None and number is None:
                yield Unseen(*moments, "link", "strace does not tell what came from outside")
            elif place is not None and number is not None:
                self._paths.names[place] = number
                yield Link(*moments, number, *place)
        elif call.name.startswith("symlink"):
            place, target = self._paths.place(paths[-1]), _unescaped(_TEXT.findall(call.arguments)[0]).decode()
            if place is not None:
                yield self._create(call, place, "symlink", 0o777, target)
        elif (place := self._paths.place(paths[0])) is None:
            return
        elif call.name.startswith("mkdir"):
            yield self._create(call, place, "directory", _mode(call.arguments))
        elif call.name.startswith("mknod"):
            if "S_IFREG" in call.arguments or "S_IF" not in call.arguments:
                yield self._create(call, place, "file", _mode(call.arguments.rpartition("|")[2]))
        elif (number := self._paths.names.pop(place, None)) is not None:
            directory = call.name == "rmdir" or "AT_REMOVEDIR" in call.arguments
            yield Unlink(*moments, number, *place, "rmdir" if directory else "unlink")

    def _rename(self, call: Call, paths: list[str]) -> Iterator[Event]:
        moments, known = self._moments(call), self._paths
        old, new = known.place(paths[0]), known.place(paths[-1])
        number = known.names.get(old) if old is not None else None
        if "RENAME_EXCHANGE" in call.arguments or "RENAME_WHITEOUT" in call.arguments:
            yield Unseen(*moments, "rename", "it exchanges names")
        elif old is not None and number is not None and new is not None:
            if known.names.get(new) != number:
                del known.names[old]
                known.names[new] = number
                yield Rename(*moments, number, *old, *new)
        elif old is not None and number is not None:
            del known.names[old]
            yield Unlink(*moments, number, *old, "rename")
        elif new is not None:
            yield Unseen(*moments, "rename", "strace does not tell what came from outside")


def _mode(arguments: str) -> int:
    """The last octal number, as a usual mask leaves it."""
    found = re.findall(r"\b0[0-7]{1,4}\b", arguments)
    return (int(found[-1], 8) if found else 0o644) & ~0o022


def _unescaped(text: str) -> bytes:
    return text.encode("latin-1", "replace").decode("unicode_escape").encode("latin-1")
