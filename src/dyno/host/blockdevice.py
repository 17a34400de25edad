"""A block device that is to be overwritten: held open for oneself alone, and judged through what is held.

Everything is looked at through the one descriptor that is opened first and written through last, so that no device
can take its place in between. With O_EXCL the kernel gives it to nobody else who asks so: it can't be mounted, made
swap or taken into LVM or RAID while it is held, and can't be held while it is any of these. What to do with it may
not be put here.
"""

from __future__ import annotations

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

from dyno.host.filesystem import ROOT
from dyno.host.procfs import read_lines, read_text

# <linux/fs.h>
BLKROGET, BLKDISCARD, BLKGETSIZE64 = 0x125E, 0x1277, 0x80081272
PROBE, PROBE_PLACES, PROBE_SECONDS = "wipefs", "/usr/sbin:/sbin:/usr/bin:/bin", 60


class DeviceBusy(Exception):
    """The device may not be written to; why, in words that follow its name."""


class Device(NamedTuple):
    """A block device that is held."""

    descriptor: int
    size_bytes: int


@contextmanager
def held(path: str, writable: bool = False) -> Iterator[Device]:
    """The device, held for this process alone until the block is left, with nothing on it that anybody is known to
    want. A symbolic link is followed, and what it leads to is judged. Raises Taken; nothing is written in any
    case."""
    descriptor = _opened(path, writable)
    try:
        _judge(descriptor)
        yield Device(descriptor, size_bytes(descriptor))
    finally:
        os.close(descriptor)


def _opened(path: str, writable: bool) -> int:
    number = 0
    try:
        # Before it is opened: a tape would be wound back by that, and a pipe waits.
        seen = Path(path).stat()
        if not stat.S_ISBLK(seen.st_mode):
            raise DeviceBusy("is no block device")
        number = seen.st_rdev
        descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise DeviceBusy(f"is in use: {_user(number) or 'by the kernel, or by another program'}") from None
        raise DeviceBusy(f"can't be opened: {os.strerror(error.errno or 0)}") from None
    opened = os.fstat(descriptor)
    if not stat.S_ISBLK(opened.st_mode) or opened.st_rdev != number:
        os.close(descriptor)
        raise DeviceBusy("was another device when it was looked at")
    return descriptor


def size_bytes(descriptor: int) -> int:
    """Of a block device, by its descriptor."""
    (size,) = struct.unpack("Q", fcntl.ioctl(descriptor, BLKGETSIZE64, bytes(8)))
    return int(size)


def discard(descriptor: int, length: int) -> bool:
    """Gives the device's first bytes up, so that it is as if they had never been written. False where it can't."""
    try:
        fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("QQ", 0, length))
    except OSError:
        return False
    return True


def _judge(descriptor: int) -> None:
    number = os.fstat(descriptor).st_rdev
    if user := _user(number):
        raise DeviceBusy(f"is in use: {user}")
    (read_only,) = struct.unpack("i", fcntl.ioctl(descriptor, BLKROGET, bytes(4)))
    if read_only:
        raise DeviceBusy("is read-only")
    if not size_bytes(descriptor):
        raise DeviceBusy("has no size: there is nothing in it, or behind it")
    block = _block(number)
    if (block / "partition").exists():
        raise DeviceBusy("is a partition, of a disk that holds more than it: a whole device is wanted")
    if parts := sorted(part.name for part in block.glob("*") if (part / "partition").exists()):
        raise DeviceBusy(f"has partitions: {', '.join(parts)}")
    if found := signatures(descriptor):
        raise DeviceBusy(f"holds {' and '.join(found)}: whoever wants it no more removes that by wipefs --all")


def signatures(descriptor: int) -> list[str]:
    """What is on a device, or in a file, by the signatures that util-linux knows: file systems, partition tables,
    members of LVM and RAID, swap, encrypted volumes. Raises Taken where that can't be found out."""
    program = shutil.which(PROBE) or shutil.which(PROBE, path=PROBE_PLACES)
    if program is None:
        raise DeviceBusy(f"can't be looked at without {PROBE}, which Debian has in util-linux")
    words = [program, "--no-act", "--noheadings", "--output", "TYPE", f"/proc/self/fd/{descriptor}"]
    try:
        told = subprocess.run(
            words, pass_fds=(descriptor,), capture_output=True, text=True, check=True, timeout=PROBE_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise DeviceBusy(f"can't be looked at by {PROBE}: {said}") from None
    return list(dict.fromkeys(told.stdout.split()))


def _block(number: int) -> Path:
    return ROOT / "sys/dev/block" / f"{os.major(number)}:{os.minor(number)}"


def _user(number: int) -> str | None:
    """Who has the device, as far as that can be seen from here."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in read_lines(ROOT / "proc/self/mountinfo"):
        words = line.split()
        if len(words) > 4 and words[2] == wanted:
            return f"it is mounted on {words[4]}"
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
