"""Cuts the power of a disk with a real file system.

The disk is a file served by FUSE, under a loop device; all its writes and flushes are recorded. A state is the disk
between two flushes: the kernel mounts and recovers its file system, and the store is copied from there.

Needs root. All mounts are in a namespace of this process, so that mounts and loop devices vanish with it.

`python -m dyno.crash.device IMAGE MOUNTPOINT EVENTS` serves the disk until it is unmounted: IMAGE holds the bytes of
the disk, EVENTS receives each write and flush as the events of a record.
"""

import ctypes
import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path

import msgspec

from dyno.contracts.model import UsageError
from dyno.crash.cuts import COMMITS, RECORD_SECONDS, Bench, Unreadable
from dyno.crash.model import State
from dyno.crash.processes import WorkloadFailed
from dyno.crash.record import CrashRecord, Flush, Mark, Node, Write, encode_frame, read
from dyno.crash.store import CrashTarget
from dyno.host import installation, interpreters
from dyno.host.force_remove import remove, unmount
from dyno.host.process import die_with_parent, own_session

SYSTEMS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}
"""Command that creates each file system in a file."""
DISK = "disk"
"""Name of the disk's file below the FUSE mount."""
MIB = 1 << 20
LEAST_BYTES = {"ext4": 64 * MIB, "xfs": 320 * MIB, "btrfs": 128 * MIB}
SERVER_BYTES = 448 * MIB
"""Additional size for an engine with a server, which allocates its logs in advance."""
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs"}
CLONE_NEWNS = 0x20000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
START_SECONDS = 30.0


def explain_unavailability(system: str) -> str | None:
    """Returns why this machine can't serve such a device, or None if it can."""
    program = SYSTEMS[system][0]
    if os.geteuid() != 0:
        return "--device mounts a file system, which needs root"
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        return "--device needs FUSE and loop devices, which this kernel or container doesn't have"
    libfuse = find_library("fuse3") or find_library("fuse") or os.environ.get("FUSE_LIBRARY_PATH")
    if find_spec("mfusepy") is None or not libfuse:
        return (
            f"--device needs libfuse and mfusepy: {installation.extra_command('device')}, and the package libfuse3-3"
        )
    if shutil.which(program) is None:
        return f"--device {system} needs {program}: install {PACKAGES[program]}"
    return None


def isolate() -> None:
    """Moves this process to a mount namespace of its own, which its children share. Raises UsageError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNS) or library.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise UsageError(f"--device can't have mounts of its own: {os.strerror(ctypes.get_errno())}")


class DeviceBench(Bench):
    """Bench with the store on a real file system."""

    def __init__(self, target: CrashTarget, place: Path, fast: Path, system: str) -> None:
        self._mount = place / "mount"
        self._fuse = place / "fuse"
        self._built = fast / "built"
        # The store is a directory below the mount point, so that the file system's lost+found is no part of it.
        super().__init__(target, self._mount, fast)
        self._place = place
        self._system = system
        self._mounted = fast / "mounted"
        self._image = fast / "image"
        for directory in (self._mount, self._fuse, self._built, self._mounted):
            directory.mkdir()

    def close(self) -> None:
        super().close()
        for mountpoint in (self._mounted, self._mount, self._fuse):
            unmount(mountpoint)

    def workload(self) -> tuple[CrashRecord, list[str]]:
        """Records COMMITS commits on an existing store, as writes and flushes of the disk.

        Returns the record, and the lines of the committing process. Raises WorkloadFailed.
        """
        size = LEAST_BYTES[self._system] + (0 if self.born else SERVER_BYTES)
        with self._image.open("wb") as file:
            file.truncate(size)
        _run(*SYSTEMS[self._system], str(self._image))
        with self._mount_image(self._image, self._mount):
            self._recorded.mkdir()
            self._commit(0, stop=True)
        base, path = self._place / "base", self._place / "events"
        base.mkdir()
        _run("cp", "--sparse=always", str(self._image), str(base / "1"))
        with self._disk(path) as disk, self._mount_image(disk, self._mount):
            lines = self._commit(COMMITS)
        try:
            events = read(path)
        except (OSError, msgspec.MsgspecError) as error:
            raise WorkloadFailed(f"the disk has not recorded its writes: {error}") from None
        # The clock of the committing process is also that of the disk's events.
        for word, *rest in map(str.split, lines):
            if word in ("begun", "done"):
                number, at = map(int, rest)
                events.append(Mark(at, at, 0, number + 1, "begin" if word == "begun" else "end"))
        nodes = [
            Node(0, -1, "", "directory", 0o700, 0, 0, 0, ""),
            Node(1, 0, DISK, "file", 0o600, 0, 0, size, ""),
        ]
        return CrashRecord(self._fuse, nodes, sorted(events, key=lambda event: event.end), base=base), lines

    @contextmanager
    def _mount_image(self, image: Path, mountpoint: Path) -> Iterator[None]:
        """Mounts the file system of an image in the block. The loop device vanishes with the mount."""
        _run("mount", "-t", self._system, "-o", "loop", str(image), str(mountpoint))
        try:
            yield
        finally:
            with suppress(WorkloadFailed):
                _run("umount", str(mountpoint))
            unmount(mountpoint)

    @contextmanager
    def _disk(self, events: Path) -> Iterator[Path]:
        """Serves the image as a recorded disk from a separate process. Yields the path of the disk's file."""
        disk = self._fuse / DISK
        words = interpreters.Python().words("dyno.crash.device")
        process = subprocess.Popen(
            [*words, str(self._image), str(self._fuse), str(events)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **own_session(),
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not disk.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    lines = process.communicate()[1].decode(errors="replace").strip().splitlines()
                    raise WorkloadFailed(f"FUSE did not serve the disk: {lines[-1] if lines else 'it did not start'}")
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
        """Builds the disk, mounts its file system, and copies the store to `home`."""
        state.build(self._built)
        self.home.mkdir(parents=True, exist_ok=True)
        remove(self.home)
        try:
            with self._mount_image(self._built / DISK, self._mounted):
                _run("cp", "-a", "--sparse=always", str(self._mounted / self._recorded.name), str(self.home))
        except WorkloadFailed as error:
            raise Unreadable(f"the file system: {error}") from None

    def words(self, state: State) -> list[str]:
        """Describes the lost blocks of the disk. The files that they belong to are unknown."""
        if state.lost_changes() or state.torn is not None:
            return super().words(state)
        return [f"the disk lost nothing that {self._system} wrote; the rest was in the kernel's memory, unflushed"]


def _run(*words: str) -> None:
    """Runs a command. Raises WorkloadFailed with the last line of its errors."""
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=RECORD_SECONDS)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise WorkloadFailed(f"{words[0]}: {lines[-1] if lines else f'exit status {done.returncode}'}")


def serve(image: str, mountpoint: str, events: str) -> None:
    """Serves the disk until its file system is unmounted."""
    import mfusepy

    class Disk(mfusepy.Operations):  # type: ignore[misc, unused-ignore]
        """File system with the disk as its only file. libfuse defines the names and signatures."""

        use_ns = True

        def __init__(self) -> None:
            self._image = os.open(image, os.O_RDWR)
            self._events = Path(events).open("wb")  # noqa: SIM115
            self._size = os.fstat(self._image).st_size

        def getattr(self, path: str, fh: int | None = None) -> dict[str, object]:
            if path == "/":
                return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
            if path == f"/{DISK}":
                return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": self._size}
            raise mfusepy.FuseOSError(errno.ENOENT)

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", DISK]

        def open(self, path: str, flags: int) -> int:
            return 0

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(self._image, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            begin = time.monotonic_ns()
            os.pwrite(self._image, data, offset)
            event = Write(begin, time.monotonic_ns(), 0, 1, offset, bytes(data), "block")
            self._events.write(encode_frame(event))
            return len(data)

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            begin = time.monotonic_ns()
            self._events.write(encode_frame(Flush(begin, time.monotonic_ns(), 0, "flush", 1)))
            return 0

        def destroy(self, path: str) -> None:
            self._events.close()

    # Serve one call at a time, like a disk without a queue, so that the events have an order.
    mfusepy.FUSE(Disk(), mountpoint, foreground=True, nothreads=True)


if __name__ == "__main__":
    die_with_parent(os.getppid())
    serve(*sys.argv[1:])
