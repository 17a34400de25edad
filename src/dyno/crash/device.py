"""The same on a real file system: on a disk that tells what was written to it (disk.py), under a loop device. The
states are the disk's, between two of its flushes; the file system is mounted on each, recovers it, and the store is
taken from there.

Needs root. All is mounted in a namespace of this process: when it is gone, so are mounts and loop devices.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

from dyno.contracts.model import UsageError
from dyno.crash.cuts import COMMITS, RECORD_SECONDS, WHEN_MOUNTED, Bench, Cut, Recorded, Unreadable, judgements
from dyno.crash.disk import NAME
from dyno.crash.kills import Failed
from dyno.crash.model import State, draws
from dyno.crash.processes import numbers
from dyno.crash.record import VERSION, Event, Header, Mark, Node, Record, read
from dyno.crash.store import Target
from dyno.crash.time_budget import Allowed
from dyno.host import installation, interpreters
from dyno.host.force_remove import remove, unmount
from dyno.host.process import die_with_parent, environment

SYSTEMS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}
"""File systems, and what makes one on a file."""
MIB = 1 << 20
LEAST_BYTES = {"ext4": 64 * MIB, "xfs": 320 * MIB, "btrfs": 128 * MIB}
SERVER_BYTES = 448 * MIB
"""More, for an engine with a server: its logs are made in advance."""
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs"}
_NEWNS, _REC, _PRIVATE = 0x20000, 0x4000, 1 << 18
START_SECONDS = 30.0


def unavailable(system: str) -> str | None:
    """Why there can be no such device here; None where there can."""
    program = SYSTEMS[system][0]
    if sys.platform != "linux" or os.geteuid() != 0:
        return "--device mounts a file system, which needs Linux and root"
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        return "--device needs FUSE and loop devices, which this kernel or container has not"
    if find_spec("mfusepy") is None or not _libfuse():
        return f"--device needs libfuse and mfusepy: {installation.extra('device')}, and the package libfuse3-3"
    if shutil.which(program) is None:
        return f"--device {system} needs {program}: install {PACKAGES[program]}"
    return None


def _libfuse() -> bool:
    from ctypes.util import find_library

    return bool(find_library("fuse3") or find_library("fuse") or os.environ.get("FUSE_LIBRARY_PATH"))


def isolate() -> None:
    """Has this process, and all that it starts, mount where nobody else sees it, and where nothing is left of it.
    Raises UsageError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_NEWNS) or library.mount(b"none", b"/", None, _REC | _PRIVATE, None):
        raise UsageError(f"--device can't have mounts of its own: {os.strerror(ctypes.get_errno())}")


class Device(Bench):
    """A bench whose store is on such a file system."""

    def __init__(self, target: Target, place: Path, fast: Path, system: str) -> None:
        self._mount, self._fuse, self._built = place / "mount", place / "fuse", fast / "built"
        # The store is below the mount's root, where nothing of the file system's own is.
        super().__init__(target, self._mount, fast)
        self._place, self._system, self._mounted = place, system, fast / "mounted"
        self._image = fast / "image"
        for directory in (self._mount, self._fuse, self._built, self._mounted):
            directory.mkdir()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for mounted in (self._mounted, self._mount, self._fuse):
            unmount(mounted)

    def workload(self) -> Recorded:
        """Records so many commits, as writes and flushes of the disk, of a store that was made before. Raises
        Failed."""
        self._format()
        with self._on(self._image, self._mount):
            self._recorded.mkdir()
            self._made()
        base = self._place / "base"
        base.mkdir()
        _run("cp", "--sparse=always", str(self._image), str(base / "1"))
        events = self._place / "events"
        with self._disk(events) as disk, self._on(disk, self._mount):
            told = self._committed(COMMITS)
        record = Record(self._header(), sorted([*_events(events), *_marks(told)], key=lambda event: event.end), base)
        return Recorded(record, len(numbers(told, "seldom")), told)

    def _format(self) -> None:
        size = LEAST_BYTES[self._system] + (0 if self.born else SERVER_BYTES)
        with self._image.open("wb") as file:
            file.truncate(size)
        _run(*SYSTEMS[self._system], str(self._image))

    def _header(self) -> Header:
        """Of a record of one file, which is the disk."""
        nodes = [
            Node(0, -1, "", "directory", 0o700, 0, 0, 0, ""),
            Node(1, 0, NAME, "file", 0o600, 0, 0, self._image.stat().st_size, ""),
        ]
        return Header(VERSION, [str(self._fuse)], nodes, "fuse", [], 0)

    @contextmanager
    def _on(self, image: Path, where: Path) -> Iterator[None]:
        """The image's file system, mounted; the loop device goes with it."""
        _run("mount", "-t", self._system, "-o", "loop", str(image), str(where))
        try:
            yield
        finally:
            with suppress(Failed):
                _run("umount", str(where))
            unmount(where)

    @contextmanager
    def _disk(self, events: Path) -> Iterator[Path]:
        parent = os.getpid()
        words = interpreters.words(sys.executable, "dyno.crash.disk")
        disk = self._fuse / NAME
        process = subprocess.Popen(
            [*words, str(self._image), str(self._fuse), str(events)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not disk.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    said = process.communicate()[1].decode(errors="replace").strip().splitlines()
                    raise Failed(f"no disk could be made by FUSE: {said[-1] if said else 'it did not start'}")
                time.sleep(0.01)
            yield disk
        finally:
            unmount(self._fuse)
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def build(self, state: State) -> None:
        """The disk as it is in that state; what its file system makes of it is copied to `home`."""
        state.build(self._built)
        self.home.mkdir(parents=True, exist_ok=True)
        remove(self.home)
        try:
            with self._on(self._built / NAME, self._mounted):
                _run("cp", "-a", "--sparse=always", str(self._mounted / self._recorded.name), str(self.home))
        except Failed as error:
            raise Unreadable(f"the file system: {error}") from None

    def words(self, state: State) -> list[str]:
        """Blocks of the disk, whose files are not known; or none of them."""
        if state.lost() or state.torn is not None:
            return state.words()
        return [f"all that {self._system} had written was there: the rest was in the kernel's memory, with no flush"]


def cuts(bench: Device, made: Recorded, count: int, seed: int, allowed: Allowed) -> Iterator[Cut]:
    """Cuts of the disk's power at `count` states. A page of a disk is lost or kept whatever the file system's name:
    each model says the same of it."""
    return judgements(bench, made.record, WHEN_MOUNTED, draws(made.record, "ext4", seed, count), allowed)


def _events(path: Path) -> list[Event]:
    try:
        return read(path)
    except (OSError, msgspec.MsgspecError) as error:
        raise Failed(f"the disk has not told what was written to it: {error}") from None


def _marks(told: list[str]) -> Iterator[Mark]:
    """By the clock that the disk's events have, too."""
    for line in told:
        word, *numbers_ = line.split()
        if word in ("begun", "done"):
            number, at = map(int, numbers_)
            yield Mark(at, at, 0, number + 1, "begin" if word == "begun" else "end")


def _run(*words: str) -> None:
    """Raises Failed, with what it said."""
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=RECORD_SECONDS)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Failed(f"{words[0]}: {said[-1] if said else f'exit status {done.returncode}'}")
