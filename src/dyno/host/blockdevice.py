"""Exclusive access to a block device that is about to be overwritten.

The device is opened once, and checked and written through that descriptor, so that no other device can take its
place. While it is open with O_EXCL, the kernel refuses to mount it, to use it as swap, or to add it to LVM or RAID.
If it is already in such use, the kernel refuses the open.
"""

import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from dyno.host.procfs import ROOT, mounts, read_lines, read_text

# Request numbers of ioctl(2), from <linux/fs.h>.
BLKROGET = 0x125E
BLKDISCARD = 0x1277
BLKGETSIZE64 = 0x80081272
PROBE = "wipefs"
PROBE_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
PROBE_SECONDS = 60


class DeviceBusy(Exception):
    """The device may not be overwritten. The message continues a sentence that begins with the device's name."""


class OpenDevice(NamedTuple):
    """An open block device."""

    descriptor: int
    size_bytes: int


@contextmanager
def hold_device(path: str, writable: bool = False) -> Iterator[OpenDevice]:
    """Opens a block device exclusively if nothing on it is in use or recognised by util-linux.

    Follows a symbolic link. Writes nothing. Raises DeviceBusy.
    """
    descriptor = _open(path, writable)
    try:
        _check(descriptor)
        yield OpenDevice(descriptor, size_bytes(descriptor))
    finally:
        os.close(descriptor)


def _open(path: str, writable: bool) -> int:
    number = 0
    try:
        # Check before opening: an open would rewind a tape, or wait for the other end of a pipe.
        status = Path(path).stat()
        if not stat.S_ISBLK(status.st_mode):
            raise DeviceBusy("is not a block device")
        number = status.st_rdev
        descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise DeviceBusy(f"is in use: {_user(number) or 'by the kernel, or by another program'}") from None
        raise DeviceBusy(f"can't be opened: {os.strerror(error.errno or 0)}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISBLK(status.st_mode) or status.st_rdev != number:
        os.close(descriptor)
        raise DeviceBusy("was replaced by another device meanwhile")
    return descriptor


def size_bytes(descriptor: int) -> int:
    """Returns the size of an open block device."""
    (size,) = struct.unpack("Q", fcntl.ioctl(descriptor, BLKGETSIZE64, bytes(8)))
    return int(size)


def discard(descriptor: int, length: int) -> bool:
    """Discards the device's first bytes, as if they had never been written.

    Returns False if the device doesn't support that.
    """
    try:
        fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("QQ", 0, length))
    except OSError:
        return False
    return True


def _check(descriptor: int) -> None:
    number = os.fstat(descriptor).st_rdev
    if user := _user(number):
        raise DeviceBusy(f"is in use: {user}")
    (read_only,) = struct.unpack("i", fcntl.ioctl(descriptor, BLKROGET, bytes(4)))
    if read_only:
        raise DeviceBusy("is read-only")
    if not size_bytes(descriptor):
        raise DeviceBusy("has size 0: it has no medium or no backing file")
    block = _block(number)
    if (block / "partition").exists():
        raise DeviceBusy("is a partition of a larger disk; name a whole device")
    if partitions := sorted(part.name for part in block.glob("*") if (part / "partition").exists()):
        raise DeviceBusy(f"has partitions: {', '.join(partitions)}")
    if found := signatures(descriptor):
        raise DeviceBusy(f"has {' and '.join(found)} on it: if that is disposable, remove it by wipefs --all")


def signatures(descriptor: int) -> list[str]:
    """Returns the kinds of data that util-linux recognises on a device or in a file: file systems, partition tables,
    members of LVM and RAID, swap, encrypted volumes. Raises DeviceBusy if it can't be probed."""
    program = shutil.which(PROBE) or shutil.which(PROBE, path=PROBE_PATH)
    if program is None:
        raise DeviceBusy(f"can't be probed without {PROBE}; on Debian, install the package util-linux")
    words = [program, "--no-act", "--noheadings", "--output", "TYPE", f"/proc/self/fd/{descriptor}"]
    try:
        probe = subprocess.run(
            words, pass_fds=(descriptor,), capture_output=True, text=True, check=True, timeout=PROBE_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip()
        raise DeviceBusy(f"can't be probed by {PROBE}: {why}") from None
    return list(dict.fromkeys(probe.stdout.split()))


def _block(number: int) -> Path:
    return ROOT / "sys/dev/block" / f"{os.major(number)}:{os.minor(number)}"


def _user(number: int) -> str | None:
    """Describes the user of a device: a mount, swap, or a device built from it. None if this process sees none."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for mount in mounts(ROOT):
        if mount.number == wanted:
            return f"it is mounted on {mount.point}"
    for line in read_lines(ROOT / "proc/swaps")[1:]:
        with suppress(OSError, IndexError):
            swap = Path(line.split()[0]).stat()
            if stat.S_ISBLK(swap.st_mode) and swap.st_rdev == number:
                return "it is swap"
    block = _block(number)
    with suppress(OSError):
        if holders := sorted(holder.name for holder in (block / "holders").iterdir()):
            name = (read_text(block / "holders" / holders[0] / "dm/name") or holders[0]).strip()
            return f"{name} is made of it"
    return None
