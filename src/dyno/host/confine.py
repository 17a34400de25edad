"""Control groups that limit the memory of processes, including page cache, by version 2 or 1 of the kernel's
interface.

Under both versions the kernel reclaims page cache before it kills a process, so a group may read files larger than
its limit but may not allocate more memory. Pages that other processes brought into the page cache don't count.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dyno.host import trust
from dyno.host.procfs import mounts, read_lines, read_text

# An unusual prefix, since groups with this prefix are removed after a killed run.
PREFIX = "dyno-"
PATIENCE_SECONDS = 5.0
_PROCESSES = "cgroup.procs"
_REMEDY = "run as root, or in a group that is yours: systemd-run --user --scope -p Delegate=yes dyno ..."
_FILES = {
    1: {
        "limit": "memory.limit_in_bytes",
        "swap": "memory.memsw.limit_in_bytes",
        "peak": "memory.max_usage_in_bytes",
        "events": "memory.oom_control",
    },
    2: {
        "limit": "memory.max",
        "swap": "memory.swap.max",
        "peak": "memory.peak",
        "events": "memory.events",
    },
}
"""Names of the kernel's files for each version."""


class CannotConfine(Exception):
    """No control group is available. The message says why and what to do, in one line."""


@dataclass(frozen=True)
class ControlGroup:
    """A control group that Dyno created. Children of its processes belong to it too."""

    path: Path
    version: int

    def add(self, pid: int) -> None:
        """Moves a process into the group. Memory that it already uses remains counted in its old group."""
        try:
            (self.path / _PROCESSES).write_text(str(pid))
        except OSError as error:
            raise CannotConfine(f"can't move a process into {self.path}: {error.strerror}; {_REMEDY}") from None

    @property
    def limit_bytes(self) -> int | None:
        return self._number("limit")

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that the group has used; None if the kernel doesn't report it."""
        return self._number("peak")

    @property
    def weighed(self) -> bool:
        """Whether the kernel weighs the group's CPU time as a whole against other groups, even against groups of idle
        priority."""
        return (self.path / "cpu.weight").exists()

    @property
    def killed(self) -> bool:
        """Whether the kernel killed a process of the group for exceeding the limit."""
        lines = read_lines(self.path / _FILES[self.version]["events"])
        events = dict(line.split()[:2] for line in lines if " " in line)
        return int(events.get("oom_kill", 0)) > 0

    def _number(self, file: str) -> int | None:
        text = (read_text(self.path / _FILES[self.version][file]) or "").strip()
        if text.isdigit():
            return int(text)
        return None


@contextmanager
def create_group(limit_bytes: int, record: Path) -> Iterator[ControlGroup]:
    """Creates a group with that limit, and removes it at the end.

    Meanwhile the file `record` holds the group's path, so that `clear` can remove the group of a killed run. Raises
    CannotConfine.
    """
    group = _create(limit_bytes, record)
    try:
        yield group
    finally:
        _remove(group.path)
        record.unlink(missing_ok=True)


def clear(place: Path) -> None:
    """Kills the processes of the groups recorded in the directory of a dead run, and removes the groups."""
    for record in place.glob("*.group"):
        path = Path((trust.read(record) or "").strip())
        if path.name.startswith(PREFIX) and (path / _PROCESSES).exists():
            _remove(path)


def _create(limit_bytes: int, record: Path) -> ControlGroup:
    why = "this kernel has no memory controller for a group of processes"
    for parent, version in _parents():
        path = parent / f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            trust.write(record, f"{path}\n")
            path.mkdir()
        except OSError as error:
            why = f"can't create a control group in {parent}: {error.strerror}"
            continue
        group, files = ControlGroup(path, version), _FILES[version]
        limit: int | None = None
        try:
            (path / files["limit"]).write_text(str(limit_bytes))
            with suppress(OSError):
                # Prevent swapping, if the kernel accounts for swap.
                (path / files["swap"]).write_text(str(limit_bytes if version == 1 else 0))
            limit = group.limit_bytes
        except OSError as error:
            why = f"can't set {path / files['limit']}: {error.strerror}"
        if limit is not None and limit <= limit_bytes:
            return group
        _remove(path)
    record.unlink(missing_ok=True)
    raise CannotConfine(f"{why}; {_REMEDY}")


def _parents() -> Iterator[tuple[Path, int]]:
    """Yields directories that may accept a new group, the most likely first, each with its version."""
    own = [line.split(":", 2) for line in read_lines(Path("/proc/self/cgroup"))]
    for mount in mounts():
        point = Path(mount.point)
        if mount.type == "cgroup2":
            for group in (_group_directory(point, path) for _, controllers, path in own if not controllers):
                # A group with processes, such as Dyno's own, can't pass the controller on to a child group unless it
                # is the root.
                for parent in (group, group.parent):
                    controllers = (read_text(parent / "cgroup.subtree_control") or "").split()
                    if parent.is_relative_to(point) and "memory" in controllers:
                        yield parent, 2
        elif mount.type == "cgroup" and "memory" in mount.options:
            yield from ((_group_directory(point, path), 1) for _, names, path in own if "memory" in names.split(","))


def _group_directory(mount: Path, path: str) -> Path:
    """Returns the directory of a group; the mount itself if a container's mount starts at its own group."""
    directory = mount / path.strip("/")
    if ".." not in directory.parts and directory.is_dir():
        return directory
    return mount


def _remove(path: Path) -> None:
    """Kills the group's processes and removes it. The kernel doesn't remove a group with processes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while path.is_dir() and time.monotonic() < deadline:
        for pid in read_lines(path / _PROCESSES):
            with suppress(OSError, ValueError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            path.rmdir()
        except OSError:
            time.sleep(0.01)
