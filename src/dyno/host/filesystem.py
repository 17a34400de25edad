"""Facts about the file system that the engines' data will live on.

What they mean for a measurement is said in `dyno.stats.machine`, and may not be said here. Nothing that names
a server or a user may be told: no address, no exported path, no name.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dyno.host.procfs import read_lines, read_text

ROOT = Path("/")
BLOCK_BYTES = 512
"""Of `st_blocks`, whatever the file system's own blocks are."""

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


class _Mount(NamedTuple):
    point: str
    number: str
    """Major and minor number of its device: '254:0'; major 0 where it has none of its own."""
    type: str
    source: str
    options: tuple[str, ...]


def filesystem(work: Path, *, root: Path = ROOT) -> dict[str, Any]:
    """The file system that holds `work`, an existing directory; None is unknown. Writes nothing."""
    work = Path(os.path.realpath(work))
    mount = _mount_of(work, root)
    block = _block_device(mount, root) if mount else None
    total = free = None
    try:
        space = os.statvfs(work)
        total, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    except OSError:
        pass
    rotational = read_text(block / "queue/rotational") if block else None
    return {
        "mount_point": mount.point if mount else None,
        "type": mount.type if mount else None,
        "device": _device_name(mount.source) if mount else None,
        "options": [o for o in mount.options if _public(o)] if mount else None,
        "ram_backed": _ram_backed(mount, block, root) if mount else None,
        "network": mount.type in _NETWORK_TYPES if mount else None,
        "rotational": None if rotational is None else rotational == "1",
        "write_cache": read_text(block / "queue/write_cache") if block else None,
        "total_bytes": total,
        "free_bytes": free,
    }


def fsync_ns(work: Path, *, times: int = 20, limit_ns: int = 1_000_000_000) -> int | None:
    """Median time of a 4 kB write in place with its fdatasync, in `work`; None where it can't be written.

    Stops early after `limit_ns`, so that a slow device costs a second and not a minute. Its file is removed.
    """
    from statistics import median

    taken = flushes_ns(work, times=times, limit_ns=limit_ns)
    return round(median(taken)) if taken else None


def flushes_ns(work: Path, *, limit_ns: int, times: int | None = None) -> list[int] | None:
    """How long each 4 kB write in place took with its fdatasync, in `work`, one after the other for so long at most;
    None where it can't be written. Its file is removed."""
    from tempfile import NamedTemporaryFile

    sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
    taken: list[int] = []
    spent = 0
    try:
        # A named file: Btrfs does nothing to flush a file that has no name.
        with NamedTemporaryFile(dir=work, prefix=".dyno-fsync-", buffering=0) as file:
            descriptor = file.fileno()
            # Space is allocated and journalled before the clock starts: what is left to time is the flush.
            os.pwrite(descriptor, os.urandom(4096), 0)
            os.fsync(descriptor)
            while spent < limit_ns and (times is None or len(taken) < times):
                block = os.urandom(4096)
                start = time.perf_counter_ns()
                os.pwrite(descriptor, block, 0)
                sync(descriptor)
                taken.append(time.perf_counter_ns() - start)
                spent += taken[-1]
    except OSError:
        return None
    return taken


def nearest_existing(path: Path) -> Path:
    """`path`, absolute and without symbolic links, or the nearest of its parents that exists."""
    path = Path(os.path.realpath(path))
    for candidate in (path, *path.parents):
        try:
            candidate.stat()
        except OSError:
            continue
        return candidate
    return ROOT


def _mount_of(path: Path, root: Path) -> _Mount | None:
    """The mount with the longest point above `path`; of two at one point, the later hides the earlier."""
    best: _Mount | None = None
    for line in read_lines(root / "proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        about, what = left.split(), right.split()
        if len(about) < 6 or len(what) < 2:
            continue
        point = _unescaped(about[4])
        if path.is_relative_to(point) and (best is None or len(point) >= len(best.point)):
            options = dict.fromkeys(",".join([about[5], *what[2:3]]).split(","))
            best = _Mount(point, about[2], what[0], _unescaped(what[1]), tuple(options))
    return best


def _block_device(mount: _Mount, root: Path) -> Path | None:
    """Its disk's directory under /sys, the one with the `queue`; a partition's is found in its disk's."""
    candidates = [root / "sys/dev/block" / mount.number]
    if mount.source.startswith("/dev/"):
        # Btrfs has a number that is no device's, and /dev/mapper holds links to dm-N.
        name = Path(os.path.realpath(root / mount.source.lstrip("/"))).name
        candidates.append(root / "sys/class/block" / name)
    for candidate in candidates:
        device = Path(os.path.realpath(candidate))
        for directory in (device, device.parent):
            if (directory / "queue").is_dir():
                return directory
    return None


def _ram_backed(mount: _Mount, block: Path | None, root: Path) -> bool | None:
    """None where it can't be told: an overlay's or a user-space file system's store is not seen from here."""
    if mount.type in _RAM_TYPES:
        return True
    if block is None:
        return False if mount.source.startswith("/dev/") or mount.type == "zfs" else None
    backing = read_text(block / "loop/backing_file")
    below = _mount_of(Path(backing), root) if backing else None
    if below and below.type in _RAM_TYPES:
        return True
    return block.name.startswith(("ram", "zram"))


def _device_name(source: str) -> str | None:
    """What is mounted, unless that would name a server or a user: host:/export, //host/share, user@host."""
    return None if re.search(r"[:@]|^//", source) and not source.startswith("/dev/") else source


def _public(option: str) -> bool:
    name, _, value = option.partition("=")
    return name not in _PRIVATE_OPTIONS and "/" not in value


def _unescaped(text: str) -> str:
    """mountinfo writes a blank in a name as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)


def size_on_disk(files: Iterable[Path]) -> int | None:
    """Allocated blocks, in bytes: what a sparse or preallocated file takes, not its length. None without files."""
    total = None
    for path in files:
        try:
            total = (total or 0) + path.stat().st_blocks * BLOCK_BYTES
        except FileNotFoundError:
            # A file that the engine's compaction removed in between.
            continue
    return total
