"""Reads strace's lines: the writes and flushes between the marks of each commit, which `flushes` judges."""

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
# Calls whose last descriptor is the target.
_COPIES = ("copy_file_range", "splice")
_TRUNCATES = ("ftruncate",)
# Calls with paths among their arguments, each after the descriptor of a directory, or absolute.
_NAMES = ("unlink", "unlinkat", "rename", "renameat", "renameat2")
_OPENS = ("open", "openat", "openat2")
_FORKS = ("clone", "clone3", "fork", "vfork")
_ACCESSES = ("access", "faccessat", "faccessat2")
# sync_file_range is not a flush: its manual page warns that it skips metadata and the drive's cache.
_CALLS = (*_FLUSHES, *_WRITES, *_TRUNCATES, *_NAMES, *_OPENS, *_FORKS, *_ACCESSES, "close", "mmap", "io_uring_setup")

_LINE = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>0x[0-9a-f]+|-?\d+)")
_UNFINISHED = re.compile(r"^(?P<pid>\d+) +(?P<begun>.*?) *<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")
_MARK = re.compile(rf'"/dyno-mark/(\d+)/({BEGIN}|{END})"')
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"(\d+)<([^>]*)>")
MOST_OVERTAKEN = 0.05
"""Maximum share of the commits in which a background thread may write to a file after its flush."""


def mark(number: int, which: str) -> None:
    """Makes a system call without effect that traces show: commit `number` is about to begin, or was acknowledged."""
    os.access(f"/dyno-mark/{number}/{which}", os.F_OK)


def command(output: Path | str, words: Iterable[str]) -> list[str]:
    """Returns the command that runs `words` and their children under strace. Raises FileNotFoundError without it."""
    tracer = shutil.which("strace")
    if tracer is None:
        raise FileNotFoundError("strace")
    # A question mark allows calls that this architecture lacks. With --seccomp-bpf only the listed calls stop a
    # process. Written bytes are left out (-s 0), so that they can't be mistaken for paths.
    calls = ",".join("?" + call for call in _CALLS)
    options = ["-f", "-y", "-qq", "-s", "0", "--seccomp-bpf", "-e", f"trace={calls}", "-e", "signal=none"]
    return [tracer, *options, "-o", str(output), *words]


def explain_unavailability() -> str | None:
    """Returns why this machine can't trace processes, or None if it can."""
    try:
        done = subprocess.run(command(os.devnull, ["true"]), capture_output=True, text=True)
    except FileNotFoundError:
        return "strace is not installed: apt-get install strace"
    if done.returncode:
        errors = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        return f"strace may not trace here: {errors[-1].removeprefix('strace: ')}"
    return None


@dataclass(frozen=True)
class Call:
    """A system call that succeeded, or an access to a missing file. `began` and `ended` are lines of the trace."""

    pid: int
    name: str
    arguments: str
    result: int
    began: int
    ended: int


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Yields the calls in the order of their ends. strace splits a call into two lines if another thread's call comes
    between; these are joined."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        first, whole = number, line.rstrip("\n")
        if match := _UNFINISHED.match(whole):
            begun[match["pid"]] = number, match["begun"]
            continue
        if match := _RESUMED.match(whole):
            first, start = begun.pop(match["pid"], (number, ""))
            whole = f"{match['pid']} {start}{match['rest']}"
        if (match := _LINE.match(whole)) and (match["result"] != "-1" or match["name"] in _ACCESSES):
            yield Call(int(match["pid"]), match["name"], match["arguments"], int(match["result"], 0), first, number)


def _unescape_path(path: str) -> str:
    return os.fsdecode(path.encode("ascii", "backslashreplace").decode("unicode_escape").encode("latin-1", "replace"))


@dataclass(frozen=True)
class Act:
    """A write to one of the engine's files, a flush, or both (a synchronous write). An act that is neither is another
    change: a truncation of a file, or a change of names in a directory."""

    kind: str
    """Name of the call, with the flag of a synchronous write: 'fdatasync', 'pwrite64 O_DSYNC'."""
    path: str | None
    """Path of the file or directory; None for a flush of all files."""
    writes: bool
    flushes: bool
    pid: int
    """Id of the thread that made the call."""
    began: int
    ended: int


@dataclass(frozen=True)
class Commit:
    """State of a commit when it was acknowledged."""

    written: bool
    """Whether a write to one of the engine's files had ended."""
    flushed: bool
    """Whether a flush of a written file had ended, with no later change to a flushed file. In a few commits,
    background threads may have made such changes."""


@dataclass(frozen=True)
class TraceSummary:
    """Summary of a trace: writes and flushes of an engine's files."""

    commits: tuple[Commit, ...] = ()
    flushes: Mapping[str, int] = field(default_factory=dict)
    """Number of flushes by kind, from the first mark to the last, including those between commits."""
    writes: Mapping[str, int] = field(default_factory=dict)
    mapped: tuple[str, ...] = ()
    """Files with writable shared mappings. No trace shows stores into mappings."""
    unseen: tuple[str, ...] = ()
    """Interfaces in use whose writes and flushes no trace shows: io_uring."""

    @property
    def flushed(self) -> int:
        """Number of commits that flushed their writes."""
        return sum(commit.flushed for commit in self.commits)

    @property
    def written(self) -> int:
        """Number of commits that wrote to a file."""
        return sum(commit.written for commit in self.commits)


@dataclass
class _Process:
    """State that the threads of a process share."""

    synchronous: dict[int, str] = field(default_factory=dict)
    """Flags of the descriptors that were opened with O_DSYNC or O_SYNC."""
    mappings: list[tuple[int, int, str]] = field(default_factory=list)
    """Start, end and file of the writable mappings."""


def summarize_trace(lines: Iterable[str], home: Path, log: Sequence[str] = ()) -> TraceSummary:
    """Summarises strace's lines: the files below `home`, or only those that match a pattern in `log`."""
    return _Follower(list(calls(lines)), home, log).summarize_calls()


class _Follower:
    """Summarises system calls, in the order of their ends."""

    def __init__(self, calls: list[Call], home: Path, log: Sequence[str]) -> None:
        self._home = str(home.resolve())
        self._log = [f"{self._home}/{pattern}" for pattern in log]
        self._calls = calls
        self._parents = {c.result: (c.pid, "CLONE_FILES" in c.arguments) for c in calls if c.name in _FORKS}
        self._processes: dict[int, _Process] = {}
        self._mapped: set[str] = set()
        self._unseen: set[str] = set()

    def summarize_calls(self) -> TraceSummary:
        commits: list[Commit] = []
        overtaken: list[int] = []
        pending: list[Act] = []
        counted: list[Act] = []
        for call in self._calls:
            match = None
            if call.name in _ACCESSES:
                match = _MARK.search(call.arguments)
            if match is None:
                pending += self._acts(call)
                continue
            # A commit can't have waited for an act that had not ended when the mark began.
            acts = [act for act in pending if act.ended < call.began]
            pending = pending[len(acts) :]
            if match[2] == END:
                flushed = self._is_flushed(acts)
                # Check whether the acts of a single thread would count as flushed.
                alone = ([act for act in acts if act.pid == pid] for pid in {act.pid for act in acts})
                if not flushed and any(map(self._is_flushed, alone)):
                    overtaken.append(len(commits))
                commits.append(Commit(any(act.writes for act in acts), flushed))
            if commits:
                counted += acts
        if len(overtaken) <= MOST_OVERTAKEN * len(commits):
            for number in overtaken:
                commits[number] = replace(commits[number], flushed=True)
        return TraceSummary(
            tuple(commits),
            Counter(act.kind for act in counted if act.flushes),
            Counter(act.kind for act in counted if act.writes),
            tuple(sorted(os.path.relpath(path, self._home) for path in self._mapped)),
            tuple(sorted(self._unseen)),
        )

    def _process(self, pid: int) -> _Process:
        """Returns the process of a thread, which may appear before the call that created it has ended."""
        if pid not in self._processes:
            parent_pid, shares = self._parents.get(pid, (None, False))
            if parent_pid is None:
                parent = _Process()
            else:
                parent = self._process(parent_pid)
            if shares:
                own = parent
            else:
                own = _Process(dict(parent.synchronous), list(parent.mappings))
            self._processes[pid] = own
        return self._processes[pid]

    def _acts(self, call: Call) -> list[Act]:
        """Returns the acts of a call. Updates the state of its process."""
        process = self._process(call.pid)
        name = call.name
        arguments = call.arguments
        moments = call.pid, call.began, call.ended
        # With -y, strace shows the path of each descriptor.
        descriptors = [(int(number), _unescape_path(path)) for number, path in _DESCRIPTOR.findall(arguments)]
        if name in _COPIES:
            descriptors = descriptors[1:]
        elif name == "sendfile":
            descriptors = descriptors[:1]
        ours = [(number, path) for number, path in descriptors if self._is_ours(path)]
        if name in _WRITES:
            flag = re.search(r"\bRWF_D?SYNC\b", arguments)
            modes = [(path, flag[0] if flag else process.synchronous.get(number)) for number, path in ours]
            return [Act(f"{name} {mode}" if mode else name, path, True, bool(mode), *moments) for path, mode in modes]
        if name in _TRUNCATES:
            return [Act(name, path, False, False, *moments) for _, path in ours]
        if name in _NAMES:
            paths = [
                Path(_unescape_path(directory), _unescape_path(entry))
                for directory, entry in _NAME.findall(arguments)
            ]
            return [Act(name, str(path.parent), False, False, *moments) for path in paths if self._is_ours(str(path))]
        if name == "msync":
            address = int(arguments.split(",")[0], 0)
            mapped = [path for low, high, path in process.mappings if low <= address < high]
            is_flush = mapped and re.search(r"\bMS_SYNC\b", arguments)
            if is_flush:
                return [Act(name, mapped[-1], False, True, *moments)]
            return []
        if name in _FLUSHES:
            whole = name in ("sync", "syncfs")
            if ours or name == "sync":
                return [Act(name, None if whole else ours[0][1], False, True, *moments)]
            return []
        if name in _OPENS:
            # Search behind the name, which may look like a flag.
            if match := re.search(r"\bO_D?SYNC\b", arguments.rpartition('", ')[2]):
                process.synchronous[call.result] = match[0]
            else:
                process.synchronous.pop(call.result, None)
        elif name == "close" and descriptors:
            process.synchronous.pop(descriptors[0][0], None)
        elif name == "mmap" and "PROT_WRITE" in arguments and re.search(r"\bMAP_SHARED", arguments):
            size = int(arguments.split(",")[1], 0)
            process.mappings += [(call.result, call.result + size, path) for _, path in ours]
            self._mapped.update(path for _, path in ours)
        elif name == "io_uring_setup":
            self._unseen.add("io_uring")
        return []

    def _is_ours(self, path: str) -> bool:
        if self._log:
            return any(fnmatchcase(path, pattern) for pattern in self._log)
        return path == self._home or path.startswith(self._home + os.sep)

    def _is_flushed(self, acts: list[Act]) -> bool:
        """Returns whether a written file was flushed, with no later change to a flushed file. A mapped file may have
        been written at any time before its flush."""
        dirty: dict[str, int] = {}
        written: set[str] = set()
        flushed: set[str | None] = set()
        any_flushed = False
        for act in acts:
            if act.flushes and act.writes:
                # A synchronous write flushes only its own data: other dirty data stays dirty.
                any_flushed = True
                flushed.add(act.path)
            elif act.flushes:
                covered = {path for path in dirty if act.path in (None, path) and dirty[path] < act.began}
                flushed |= {act.path, *covered}
                any_flushed = any_flushed or bool(covered & written) or act.path in self._mapped
                dirty = {path: ended for path, ended in dirty.items() if path not in covered}
            elif act.path is not None:
                dirty[act.path] = act.ended
                if act.writes:
                    written.add(act.path)
        return any_flushed and not flushed & dirty.keys()
