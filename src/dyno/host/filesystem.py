"""File systems and files: facts about the file system of the engines' data, flush times, sizes, and atomic writes.

`dyno.stats.machine` explains what the facts mean for a measurement. No fact may identify a server or a user, so
addresses, exported paths and names are left out.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from dyno.host.pagecache import extents
from dyno.host.procfs import ROOT, Mount, mounts, read_text

BLOCK_BYTES = 512
"""Unit of `st_blocks`, which is independent of the file system's block size."""

_RAM_TYPES = frozenset(("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"))
# fmt: off
_NETWORK_TYPES = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
))
_PRIVATE_OPTIONS = frozenset((
    "addr", "clientaddr", "credentials", "domain", "gid", "group", "group_id", "ip", "mountaddr",
    "mountuser", "name", "pass", "password", "secret", "srcaddr", "uid", "unc", "user", "user_id",
    "username",
))
# fmt: on


class FileSystemFacts(TypedDict):
    """Facts about a file system. None means unknown."""

    mount_point: str | None
    type: str | None
    device: str | None
    options: list[str] | None
    ram_backed: bool | None
    network: bool | None
    rotational: bool | None
    write_cache: str | None
    total_bytes: int | None
    free_bytes: int | None


def filesystem(work: Path, *, root: Path = ROOT) -> FileSystemFacts:
    """Returns facts about the file system of an existing directory. None means unknown. Writes nothing."""
    work = Path(os.path.realpath(work))
    facts: FileSystemFacts = {
        "mount_point": None,
        "type": None,
        "device": None,
        "options": None,
        "ram_backed": None,
        "network": None,
        "rotational": None,
        "write_cache": None,
        "total_bytes": None,
        "free_bytes": None,
    }
    with suppress(OSError):
        space = os.statvfs(work)
        facts["total_bytes"] = space.f_blocks * space.f_frsize
        facts["free_bytes"] = space.f_bavail * space.f_frsize
    if (mount := _mount_of(work, root)) is None:
        return facts
    facts["mount_point"] = mount.point
    facts["type"] = mount.type
    # Leave out a source that identifies a server or a user: host:/export, //host/share, user@host.
    if mount.source.startswith("/dev/") or not re.search(r"[:@]|^//", mount.source):
        facts["device"] = mount.source
    pairs = [(option, *option.partition("=")[::2]) for option in mount.options]
    facts["options"] = [option for option, name, value in pairs if name not in _PRIVATE_OPTIONS and "/" not in value]
    block = _block_device(mount, root)
    facts["ram_backed"] = _ram_backed(mount, block, root)
    facts["network"] = mount.type in _NETWORK_TYPES
    if block is not None:
        facts["write_cache"] = read_text(block / "queue/write_cache")
        if (rotational := read_text(block / "queue/rotational")) is not None:
            facts["rotational"] = rotational == "1"
    return facts


def fsync_ns(work: Path, *, times: int = 20, limit_ns: int = 1_000_000_000) -> int | None:
    """Returns the median time of a 4 KiB write in place with its fdatasync; None if `work` is not writable.

    Stops after `limit_ns`, so that a slow device takes a second rather than a minute.
    """
    from statistics import median

    times_ns = flushes_ns(work, times=times, limit_ns=limit_ns)
    if times_ns:
        return round(median(times_ns))
    return None


def flushes_ns(work: Path, *, limit_ns: int, times: int | None = None) -> list[int] | None:
    """Times 4 KiB writes in place, each with its fdatasync, one after the other until `limit_ns` is over.

    Returns None if `work` is not writable. Removes its file at the end.
    """
    from tempfile import NamedTemporaryFile

    times_ns: list[int] = []
    spent = 0
    try:
        # Use a named file: Btrfs flushes nothing for a file without a name.
        with NamedTemporaryFile(dir=work, prefix=".dyno-fsync-", buffering=0) as file:
            descriptor = file.fileno()
            # Allocate and journal the space first, so that only writes in place are timed.
            os.pwrite(descriptor, os.urandom(4096), 0)
            os.fsync(descriptor)
            while spent < limit_ns and (times is None or len(times_ns) < times):
                block = os.urandom(4096)
                start = time.perf_counter_ns()
                os.pwrite(descriptor, block, 0)
                os.fdatasync(descriptor)
                times_ns.append(time.perf_counter_ns() - start)
                spent += times_ns[-1]
    except OSError:
        return None
    return times_ns


def nearest_existing(path: Path) -> Path:
    """Returns the absolute path without symbolic links; if it doesn't exist, its nearest parent that exists."""
    path = Path(os.path.realpath(path))
    for candidate in (path, *path.parents):
        with suppress(OSError):
            candidate.stat()
            return candidate
    return ROOT


def _mount_of(path: Path, root: Path) -> Mount | None:
    above = [mount for mount in mounts(root) if path.is_relative_to(mount.point)]
    # Choose the longest mount point, and the last mount there: a later mount hides an earlier one at the same point.
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def block_directories(number: str, source: str | None, root: Path) -> list[Path]:
    """Returns possible directories of a block device under /sys, by the device's number and by the mounted source.

    Btrfs reports a number that belongs to no device, and /dev/mapper holds links to dm-N.
    """
    candidates = [root / "sys/dev/block" / number]
    if source is not None and source.startswith("/dev/"):
        candidates.append(root / "sys/class/block" / Path(os.path.realpath(root / source.lstrip("/"))).name)
    return candidates


def _block_device(mount: Mount, root: Path) -> Path | None:
    """Returns the directory under /sys that holds the `queue` of the mount's disk, also for a partition."""
    for candidate in block_directories(mount.number, mount.source, root):
        device = Path(os.path.realpath(candidate))
        for directory in (device, device.parent):
            if (directory / "queue").is_dir():
                return directory
    return None


def _ram_backed(mount: Mount, block: Path | None, root: Path) -> bool | None:
    """Returns whether the data is in memory; None if an overlay or a user-space file system hides that."""
    if mount.type in _RAM_TYPES:
        return True
    if block is None:
        if mount.source.startswith("/dev/") or mount.type == "zfs":
            return False
        return None
    backing = read_text(block / "loop/backing_file")
    below = None
    if backing:
        below = _mount_of(Path(backing), root)
    if below and below.type in _RAM_TYPES:
        return True
    return block.name.startswith(("ram", "zram"))


def size_on_disk(files: Iterable[Path]) -> int | None:
    """Returns the allocated bytes of files, which differ from their lengths if they are sparse or preallocated.
    Returns None without files."""
    total = None
    for path in files:
        # An engine's compaction may have removed the file in the meantime.
        with suppress(FileNotFoundError):
            total = (total or 0) + path.stat().st_blocks * BLOCK_BYTES
    return total


def files(*directories: Path) -> list[Path]:
    """Lists the files below directories, which may be missing or change during the call."""
    # Use os.walk, since Path.rglob raises if a directory vanishes.
    return [Path(at, name) for directory in directories for at, _, names in os.walk(directory) for name in names]


def replace(path: Path, content: bytes) -> None:
    """Writes a file atomically: it has either its old or its new content, however the process ends.

    `path` must not be a symbolic link. Raises OSError, and leaves no temporary file then.
    """
    part = path.with_name(f".dyno-{os.getpid()}.part")
    # If a symbolic link of that name exists, remove it: opening it would write to its target.
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# -- copies of sealed directories, which share blocks with the original if possible; holes remain holes ------

_FICLONE = 0x40049409
_CHUNK = 1 << 20
SPARE_BYTES = 1 << 30
"""Free space that must remain after copying."""
WRITABLE = 0o222


def seal(sources: Sequence[Path], target: Path) -> bool:
    """Moves directories to a place from where they are only copied, named 0, 1 and so on, and makes their files
    read-only. They are either all there or none is.

    Returns False and changes nothing if they contain anything but files and directories, if there is no room for
    copies, or if they can't be moved.
    """
    part, moved = target.with_name(f"{target.name}.part"), []
    try:
        paths = [path for source in sources for path in source.rglob("*")]
        is_plain = all(not path.is_symlink() and (path.is_dir() or path.is_file()) for path in paths)
        size = size_on_disk(paths) or 0
        target.parent.mkdir(parents=True, exist_ok=True)
        # Room for twice the size: a trial's copy, and the data that the engine then writes.
        if not is_plain or shutil.disk_usage(target.parent).free < 2 * size + SPARE_BYTES:
            return False
        # An earlier trial may have been killed here.
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for number, source in enumerate(sources):
            moved.append((source.rename(part / str(number)), source))
        part.rename(target)
    except OSError:
        for at, source in moved:
            at.rename(source)
        shutil.rmtree(part, ignore_errors=True)
        return False
    for path in files(target):
        path.chmod(path.stat().st_mode & ~WRITABLE)
    return True


def copy(source: Path, target: Path) -> None:
    """Makes an existing directory a copy of a sealed one, with the same owners and modes, but writable files.

    Files of the same name are overwritten: a server's new data directory has a thousand files, and creating as many
    takes up to a second.
    """
    paths = [source, *sorted(source.rglob("*"))]
    kinds = {path.relative_to(source): path.is_dir() for path in paths}
    for at in sorted(target.rglob("*"), reverse=True):
        is_dir = at.is_dir() and not at.is_symlink()
        is_usable = is_dir or (not at.is_symlink() and os.access(at, os.W_OK))
        if not is_usable or kinds.get(at.relative_to(target)) is not is_dir:
            (at.rmdir if is_dir else at.unlink)()
    for path in paths:
        at, about = target / path.relative_to(source), path.stat()
        if path.is_dir():
            at.mkdir(exist_ok=True)
        else:
            with path.open("rb") as original, at.open("r+b" if at.exists() else "xb") as copied:
                try:
                    fcntl.ioctl(copied, _FICLONE, original.fileno())
                    copied.truncate(about.st_size)
                except OSError:
                    # The file system can't share blocks.
                    _copy_extents(original.fileno(), copied.fileno())
        if (about.st_uid, about.st_gid) != (at.stat().st_uid, at.stat().st_gid):
            os.chown(at, about.st_uid, about.st_gid)
        at.chmod(about.st_mode | 0o200)


def _copy_extents(source: int, target: int) -> None:
    """Copies the data between holes, and the length and the preallocated space of the file."""
    about = os.fstat(source)
    size, spans = about.st_size, list(extents(source, about.st_size))
    if sum(length for _, length in spans) < size:
        # Leave nothing of an earlier content in holes.
        os.ftruncate(target, 0)
        if size <= about.st_blocks * BLOCK_BYTES:
            # Servers preallocate their logs. Space that was never written is reported as a hole.
            os.posix_fallocate(target, 0, size)
    for at, length in spans:
        end = at + length
        while at < end and (done := os.pwrite(target, os.pread(source, min(end - at, _CHUNK), at), at)):
            at += done
    os.ftruncate(target, size)
