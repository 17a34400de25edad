"""Control groups that confine processes to a limit of memory, page cache included, by version 2 or 1 of the kernel's.

In both the kernel takes page cache back before it kills anything: what a group reads from files may be larger than
its limit, what it takes for itself may not. What others have brought into the page cache before is not counted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dyno.host import trust
from dyno.host.procfs import read_lines, read_text

# Not a name that anyone else would give: what a killed run left is removed by it.
PREFIX = "dyno-"
PATIENCE_SECONDS = 5.0
_PROCESSES = "cgroup.procs"
_EXPLAINED = "run as root, or in a group that is yours: systemd-run --user --scope -p Delegate=yes dyno ..."


class CannotConfine(Exception):
    """No control group can be had; says why, and what would be right, in one line."""


@dataclass(frozen=True)
class _Names:
    """Of a version's files."""

    limit: str
    swap: str
    used: str
    peak: str
    events: str


_NAMES = {
    1: _Names(
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.max_usage_in_bytes",
        "memory.oom_control",
    ),
    2: _Names("memory.max", "memory.swap.max", "memory.current", "memory.peak", "memory.events"),
}


@dataclass(frozen=True)
class Group:
    """A control group of ours. What a process in it starts is in it, too."""

    path: Path
    version: int

    def add(self, pid: int) -> None:
        """Moves a process into it. What it has taken so far stays counted where it was."""
        try:
            (self.path / _PROCESSES).write_text(str(pid))
        except OSError as error:
            raise CannotConfine(f"no process can be moved into {self.path}: {error.strerror}; {_EXPLAINED}") from None

    @property
    def limit_bytes(self) -> int | None:
        return self._number(_NAMES[self.version].limit)

    @property
    def used_bytes(self) -> int | None:
        return self._number(_NAMES[self.version].used)

    @property
    def peak_bytes(self) -> int | None:
        """The most that was used; None on a kernel that does not tell."""
        return self._number(_NAMES[self.version].peak)

    @property
    def weighed(self) -> bool:
        """Whether the kernel weighs it as a whole against what is in other groups, be that of idle priority."""
        return (self.path / "cpu.weight").exists()

    @property
    def killed(self) -> bool:
        """Whether the kernel has killed one of its processes for want of memory."""
        told = dict(line.split()[:2] for line in read_lines(self.path / _NAMES[self.version].events) if " " in line)
        return int(told.get("oom_kill", 0)) > 0

    def _number(self, name: str) -> int | None:
        text = (read_text(self.path / name) or "").strip()
        return int(text) if text.isdigit() else None


@contextmanager
def confined(limit_bytes: int, record: Path) -> Iterator[Group]:
    """A group of its own with that limit, removed at the end. Its path stands in the file `record` meanwhile, for
    `clear` to find what a killed run left. Raises Unconfined."""
    group = _made(limit_bytes, record)
    try:
        yield group
    finally:
        _remove(group.path)
        record.unlink(missing_ok=True)


def check(limit_bytes: int, place: Path) -> None:
    """Tries it with a group in which nothing is, recorded in the directory `place`. Raises Unconfined."""
    with confined(limit_bytes, place / "tried.group"):
        pass


def clear(place: Path) -> None:
    """Removes the groups that are recorded in a directory whose run is dead, with what is left in them."""
    for record in place.glob("*.group"):
        path = Path((trust.read(record) or "").strip())
        if path.name.startswith(PREFIX) and (path / _PROCESSES).exists():
            _remove(path)


def _made(limit_bytes: int, record: Path) -> Group:
    why = "this kernel has no memory controller that a group of processes could be given"
    for parent, version in _parents():
        path = parent / f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            trust.write(record, f"{path}\n")
            path.mkdir()
        except OSError as error:
            why = f"no control group can be made in {parent}: {error.strerror}"
            continue
        group, names = Group(path, version), _NAMES[version]
        try:
            (path / names.limit).write_text(str(limit_bytes))
            with suppress(OSError):
                # What it may take for itself does not go into swap instead, where the kernel counts that.
                (path / names.swap).write_text(str(limit_bytes if version == 1 else 0))
            found = group.limit_bytes
        except OSError as error:
            found, why = None, f"{path / names.limit} can't be set: {error.strerror}"
        if found is not None and found <= limit_bytes:
            return group
        _remove(path)
    record.unlink(missing_ok=True)
    raise CannotConfine(f"{why}; {_EXPLAINED}")


def _parents() -> Iterator[tuple[Path, int]]:
    """Where a group may be made, the likeliest first."""
    mounts = [line.split(" - ") for line in read_lines(Path("/proc/self/mountinfo")) if " - " in line]
    own = [line.split(":", 2) for line in read_lines(Path("/proc/self/cgroup"))]
    for mounted, kind in mounts:
        filesystem, _, options = [*kind.split(), "", ""][:3]
        mount = Path(mounted.split()[4])
        if filesystem == "cgroup2":
            for where in (path for _, names, path in own if not names):
                yield from ((parent, 2) for parent in _of_two(mount, _below(mount, where)))
        elif filesystem == "cgroup" and "memory" in options.split(","):
            yield from ((_below(mount, path), 1) for _, names, path in own if "memory" in names.split(","))


def _of_two(mount: Path, own: Path) -> Iterator[Path]:
    """Of version 2: our own group, or the one above it, where that hands the memory controller down. One with
    processes in it, as ours, can't, unless it is the uppermost."""
    for parent in (own, own.parent):
        if parent.is_relative_to(mount) and "memory" in (read_text(parent / "cgroup.subtree_control") or "").split():
            yield parent


def _below(mount: Path, path: str) -> Path:
    """Of a container, whose mount begins at its own group, the mount itself."""
    found = mount / path.strip("/")
    return found if ".." not in found.parts and found.is_dir() else mount


def _remove(path: Path) -> None:
    """With a kill of what is left in it: a group in which something is can't be removed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while path.is_dir() and time.monotonic() < deadline:
        for pid in read_lines(path / _PROCESSES):
            with suppress(OSError, ValueError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            path.rmdir()
        except OSError:
            time.sleep(0.01)
