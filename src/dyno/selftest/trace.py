"""Reads what strace wrote: which writes and flushes lie between the marks of each commit.

Nothing here knows an engine, a tier, or what would be right: `flushes` judges.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

BEGIN, END = "begin", "end"
_FLUSHES = ("fsync", "fdatasync", "sync", "syncfs", "msync")
_WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "io_submit", "sendfile", "copy_file_range", "splice")
# What they write to comes after what they read from.
_COPIES = ("copy_file_range", "splice")
_CUTS = ("ftruncate",)
# Those that take a path take it after the descriptor of a directory, or whole.
_NAMES = ("unlink", "unlinkat", "rename", "renameat", "renameat2")
_OPENS = ("open", "openat", "openat2")
_FORKS = ("clone", "clone3", "fork", "vfork")
_ASKS = ("access", "faccessat", "faccessat2")
# sync_file_range is no flush: it leaves out metadata and the drive's cache, as its manual page warns.
_CALLS = (*_FLUSHES, *_WRITES, *_CUTS, *_NAMES, *_OPENS, *_FORKS, *_ASKS, "close", "mmap", "io_uring_setup")

_LINE = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>0x[0-9a-f]+|-?\d+)")
_UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<begun>.*?) *<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")
_MARK = re.compile(rf'"/dyno-mark/(\d+)/({BEGIN}|{END})"')
OVERTAKEN = 0.05
"""Of the commits, the share in which another thread may go on writing to what was flushed."""
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"(\d+)<([^>]*)>")


def mark(number: int, which: str) -> None:
    """A call that does nothing, and that a trace shows: commit `number` is about to begin, or was acknowledged."""
    os.access(f"/dyno-mark/{number}/{which}", os.F_OK)


# -- making one --------------------------------------------------------------------------------------------


def command(output: Path | str, words: Iterable[str]) -> list[str]:
    """`words` under strace, with all that they start. Raises FileNotFoundError where there is no strace."""
    tracer = shutil.which("strace")
    if tracer is None:
        raise FileNotFoundError("strace")
    # A question mark: a call that this architecture may not have. Only these calls stop a process; of what is written
    # nothing is shown, so that nothing in it is taken for a path.
    calls = ",".join("?" + call for call in _CALLS)
    options = ["-f", "-y", "-qq", "-s", "0", "--seccomp-bpf", "-e", f"trace={calls}", "-e", "signal=none"]
    return [tracer, *options, "-o", str(output), *words]


def unavailable() -> str | None:
    """Why no trace can be made here; None where one can."""
    try:
        done = subprocess.run(command(os.devnull, ["true"]), capture_output=True, text=True)
    except FileNotFoundError:
        return "strace is not installed: apt-get install strace"
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        return f"strace may not trace here: {said[-1].removeprefix('strace: ')}"
    return None


# -- reading its lines -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A call that succeeded, or asked for a file that is not there. `began` and `ended` are lines of the trace."""

    pid: int
    name: str
    arguments: str
    result: int
    began: int
    ended: int


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """In the order in which they ended. Those that another thread's cut in two are put together."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        first, whole = number, line.rstrip("\n")
        if cut := _UNFINISHED.match(whole):
            begun[cut["pid"]] = number, cut["begun"]
            continue
        if rest := _RESUMED.match(whole):
            first, start = begun.pop(rest["pid"], (number, ""))
            whole = f"{rest['pid']} {start}{rest['rest']}"
        if (found := _LINE.match(whole)) and (found["result"] != "-1" or found["name"] in _ASKS):
            yield Call(int(found["pid"]), found["name"], found["arguments"], int(found["result"], 0), first, number)


def _descriptors(arguments: str) -> list[tuple[int, str]]:
    """Every descriptor among them, with the path of its file as -y shows it."""
    return [(int(number), _unescaped(path)) for number, path in _DESCRIPTOR.findall(arguments)]


def _written(call: Call) -> list[tuple[int, str]]:
    """Those that it writes to: of one that copies, one of the two."""
    found = _descriptors(call.arguments)
    return found[1:] if call.name in _COPIES else found[:1] if call.name == "sendfile" else found


def _named(arguments: str) -> list[Path]:
    """Every name among them, below the directory that it is relative to, where that is told."""
    return [Path(_unescaped(above), _unescaped(name)) for above, name in _NAME.findall(arguments)]


def _unescaped(path: str) -> str:
    return os.fsdecode(path.encode("ascii", "backslashreplace").decode("unicode_escape").encode("latin-1", "replace"))


# -- what it shows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Act:
    """A write to a file of the engine's, or a flush; a write that is synchronous is both.

    What is neither changes a file otherwise: a truncation, or, of a directory, the name of a file in it.
    """

    kind: str
    """The call's name, and what made it synchronous: 'fdatasync', 'pwrite64 O_DSYNC'."""
    path: str | None
    """None for what flushes every file."""
    writes: bool
    flushes: bool
    pid: int
    """Of the thread."""
    began: int
    ended: int


@dataclass(frozen=True)
class Commit:
    """What one commit had done when it was acknowledged."""

    written: bool
    """A write to a file of the engine's had ended."""
    flushed: bool
    """So had a flush of such a file, and nothing that was flushed was changed afterwards: but, in a few commits, by
    what a thread in the background did next."""


@dataclass(frozen=True)
class Seen:
    """What a trace shows of an engine whose files are in one directory."""

    commits: tuple[Commit, ...] = ()
    flushes: Mapping[str, int] = field(default_factory=dict)
    """By kind, from the first mark to the last, in and between commits."""
    writes: Mapping[str, int] = field(default_factory=dict)
    mapped: tuple[str, ...] = ()
    """Files that are mapped to be written through memory: no call tells of a store into them."""
    unseen: tuple[str, ...] = ()
    """Ways of writing and flushing that were set up, and whose calls no trace shows."""

    @property
    def flushed(self) -> int:
        """Commits that flushed what they wrote."""
        return sum(commit.flushed for commit in self.commits)

    @property
    def written(self) -> int:
        """Commits that wrote."""
        return sum(commit.written for commit in self.commits)


class _Process:
    """What the threads of one process share: descriptors that write synchronously, and writable mappings."""

    def __init__(self, synchronous: Mapping[int, str], mappings: Iterable[tuple[int, int, str]]) -> None:
        self.synchronous, self.mappings = dict(synchronous), list(mappings)

    def opened(self, call: Call) -> None:
        # After the name, which may be that of a flag.
        found = re.search(r"\bO_D?SYNC\b", call.arguments.rpartition('", ')[2])
        if found:
            self.synchronous[call.result] = found[0]
        else:
            self.synchronous.pop(call.result, None)

    def mapped_at(self, address: int) -> str | None:
        return next((path for low, high, path in reversed(self.mappings) if low <= address < high), None)


class _Watch:
    """Follows the calls of a trace in the order in which they ended."""

    def __init__(self, every: list[Call], home: Path, log: Sequence[str] = ()) -> None:
        self._home = str(home.resolve())
        self._log = [f"{self._home}/{pattern}" for pattern in log]
        self._every = every
        self._parents = {c.result: (c.pid, "CLONE_FILES" in c.arguments) for c in every if c.name in _FORKS}
        self._processes: dict[int, _Process] = {}
        self._mapped: set[str] = set()
        self._unseen: set[str] = set()

    def seen(self) -> Seen:
        commits: list[Commit] = []
        overtaken: list[int] = []
        acts: list[Act] = []
        counted: list[Act] = []
        for call in self._every:
            found = _MARK.search(call.arguments) if call.name in _ASKS else None
            if found is None:
                acts += self._acts(call)
                continue
            # What ended beside the mark itself was not waited for.
            now = [act for act in acts if act.ended < call.began]
            acts = acts[len(now) :]
            if found[2] == END:
                if not (flushed := self._flushed(now)) and self._overtaken(now):
                    overtaken.append(len(commits))
                commits.append(Commit(any(act.writes for act in now), flushed))
            if commits:
                counted += now
        if len(overtaken) <= OVERTAKEN * len(commits):
            for number in overtaken:
                commits[number] = replace(commits[number], flushed=True)
        return Seen(
            tuple(commits),
            Counter(act.kind for act in counted if act.flushes),
            Counter(act.kind for act in counted if act.writes),
            tuple(sorted(os.path.relpath(path, self._home) for path in self._mapped)),
            tuple(sorted(self._unseen)),
        )

    def _process(self, pid: int) -> _Process:
        """A thread's own process; it may be seen before the call that made it has ended."""
        if pid not in self._processes:
            if pid not in self._parents:
                self._processes[pid] = _Process({}, ())
            else:
                parent, shares = self._parents[pid]
                above = self._process(parent)
                self._processes[pid] = above if shares else _Process(above.synchronous, above.mappings)
        return self._processes[pid]

    def _acts(self, call: Call) -> list[Act]:
        """The call, if it wrote or flushed; what others mean for those that follow is remembered."""
        process = self._process(call.pid)
        if call.name in _WRITES:
            return self._write(call, process)
        if call.name in _FLUSHES:
            return self._flush(call, process)
        if call.name in _CUTS or call.name in _NAMES:
            return self._change(call)
        if call.name in _OPENS:
            process.opened(call)
        elif call.name == "close" and (found := _descriptors(call.arguments)):
            process.synchronous.pop(found[0][0], None)
        elif call.name == "mmap":
            self._map(call, process)
        elif call.name == "io_uring_setup":
            self._unseen.add("io_uring")
        return []

    def _map(self, call: Call, process: _Process) -> None:
        if "PROT_WRITE" in call.arguments and re.search(r"\bMAP_SHARED", call.arguments):
            for _, path in filter(self._ours, _descriptors(call.arguments)):
                size = int(call.arguments.split(",")[1], 0)
                process.mappings.append((call.result, call.result + size, path))
                self._mapped.add(path)

    def _write(self, call: Call, process: _Process) -> list[Act]:
        acts = []
        for number, path in filter(self._ours, _written(call)):
            flag = re.search(r"\bRWF_D?SYNC\b", call.arguments)
            how = flag[0] if flag else process.synchronous.get(number)
            acts.append(
                Act(
                    f"{call.name} {how}" if how else call.name,
                    path,
                    True,
                    bool(how),
                    call.pid,
                    call.began,
                    call.ended,
                )
            )
        return acts

    def _flush(self, call: Call, process: _Process) -> list[Act]:
        path: str | None = None
        if call.name == "msync":
            path = process.mapped_at(int(call.arguments.split(",")[0], 0))
            if path is None or not re.search(r"\bMS_SYNC\b", call.arguments):
                return []
        elif call.name != "sync":
            found = list(filter(self._ours, _descriptors(call.arguments)))
            if not found:
                return []
            path = None if call.name == "syncfs" else found[0][1]
        return [Act(call.name, path, False, True, call.pid, call.began, call.ended)]

    def _change(self, call: Call) -> list[Act]:
        found = [path for _, path in filter(self._ours, _descriptors(call.arguments))]
        if call.name in _NAMES:
            found = [str(path.parent) for path in _named(call.arguments) if self._ours((0, str(path)))]
        return [Act(call.name, path, False, False, call.pid, call.began, call.ended) for path in found]

    def _ours(self, descriptor: tuple[int, str]) -> bool:
        path = descriptor[1]
        if self._log:
            return any(fnmatchcase(path, pattern) for pattern in self._log)
        return path == self._home or path.startswith(self._home + os.sep)

    def _flushed(self, acts: list[Act]) -> bool:
        """Whether something that had been written was flushed, and nothing that was flushed was changed afterwards.

        A mapping may be written at any time before.
        """
        dirty: dict[str, int] = {}
        written: set[str] = set()
        flushed: set[str | None] = set()
        found = False
        for act in acts:
            if act.flushes and act.writes:
                # It carries nothing to the device but itself: what else is dirty stays so.
                found = True
                flushed.add(act.path)
            elif act.flushes:
                covered = {path for path in dirty if act.path in (None, path) and dirty[path] < act.began}
                flushed |= {act.path, *covered}
                found = found or bool(covered & written) or act.path in self._mapped
                dirty = {path: changed for path, changed in dirty.items() if path not in covered}
            elif act.path is not None:
                dirty[act.path] = act.ended
                if act.writes:
                    written.add(act.path)
        return found and not flushed & dirty.keys()

    def _overtaken(self, acts: list[Act]) -> bool:
        """Whether one thread's writes had been flushed by it, had the others done nothing."""
        return any(self._flushed([act for act in acts if act.pid == pid]) for pid in {act.pid for act in acts})


def seen(lines: Iterable[str], home: Path, log: Sequence[str] = ()) -> Seen:
    """What strace's lines show of the engine whose files are below `home`; of those that a pattern in `log` matches,
    where there are any."""
    return _Watch(list(calls(lines)), home, log).seen()
