"""Loop devices and small file systems for tests, created if this machine allows it, and removed afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20
SIZE = 32 * MIB
SBIN = "/usr/sbin:/sbin"


def sh(*words: object) -> str:
    """Returns a program's output. Raises subprocess.CalledProcessError."""
    path = f"{os.environ.get('PATH', '')}:{SBIN}"
    environment = {**os.environ, "PATH": path, "LC_ALL": "C"}
    program = shutil.which(str(words[0]), path=path) or str(words[0])
    ended = subprocess.run(
        [program, *map(str, words[1:])], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    return ended.stdout.strip()


def require_loop_devices() -> None:
    """Skips the test without loop devices (in a container, or without root). Other tests check the detection of a
    device's content on plain files.
    """
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("loop devices need root and kernel support")


@contextmanager
def loop_device(file: Path, *flags: str) -> Iterator[str]:
    """Attaches a file to a loop device; yields its path, such as '/dev/loop3'."""
    require_loop_devices()
    try:
        device = sh("losetup", "--find", "--show", *flags, file)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"can't attach a loop device: {error}")
    try:
        yield device
    finally:
        # The device number may be reused for another file, so reset its read-only flag.
        sh("blockdev", "--setrw", device)
        sh("losetup", "--detach", device)


@contextmanager
def mounted(what: object, where: Path, *flags: object) -> Iterator[Path]:
    require_loop_devices()
    where.mkdir(exist_ok=True)
    sh("mount", *flags, what, where)
    try:
        yield where
    finally:
        sh("umount", where)


def image(file: Path, size: int = SIZE) -> Path:
    """A sparse file without any block."""
    with file.open("wb") as sparse:
        sparse.truncate(size)
    return file


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# -- contents of devices ------------------------------------------------------------------------------------------


def ext4(file: Path) -> None:
    sh("mke2fs", "-q", "-F", "-t", "ext4", file)


def swap(file: Path) -> None:
    file.chmod(0o600)
    sh("mkswap", file)


def dos(file: Path) -> None:
    """A partition table with one partition: MBR."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\xff\xff\xff", 2048, 8192)
    _write(file, 446, entry + bytes(48) + b"\x55\xaa")


def gpt(file: Path) -> None:
    """The header of a GPT at sector 1, with its protective MBR."""
    last = file.stat().st_size // 512 - 1
    entries = bytes(128 * 128)
    head = struct.pack(
        "<8sIIIIQQQQ16sQIII",
        b"EFI PART",
        0x10000,
        92,
        0,
        0,
        1,
        last,
        34,
        last - 33,
        bytes(16),
        2,
        128,
        128,
        zlib.crc32(entries),
    )
    head = head[:16] + struct.pack("<I", zlib.crc32(head)) + head[20:]
    guard = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, last)
    _write(file, 446, guard + bytes(48) + b"\x55\xaa")
    _write(file, 512, head)


def lvm(file: Path) -> None:
    """The label of a physical volume, in sector 1."""
    rest = struct.pack("<I8s32sQ", 32, b"LVM2 001", b"a" * 32, file.stat().st_size).ljust(512 - 20, b"\0")
    checksum = zlib.crc32(rest, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    _write(file, 512, struct.pack("<8sQI", b"LABELONE", 1, checksum) + rest)


def raid(file: Path) -> None:
    """The superblock of a member of an md array, version 1.2."""
    block = bytearray(256)
    struct.pack_into("<IIII", block, 0, 0xA92B4EFC, 1, 0, 0)
    block[16:32] = b"u" * 16
    struct.pack_into("<Q", block, 144, 8)
    words = sum(struct.unpack("<64I", bytes(block)))
    struct.pack_into("<I", block, 216, ((words & 0xFFFFFFFF) + (words >> 32)) & 0xFFFFFFFF)
    _write(file, 4096, bytes(block))


def luks(file: Path) -> None:
    head = struct.pack(">6sH32s32s32sII", b"LUKS\xba\xbe", 1, b"aes", b"xts-plain64", b"sha256", 4096, 64)
    _write(file, 0, head.ljust(168, b"\0") + b"11111111-1111-1111-1111-111111111111".ljust(40, b"\0"))


def _write(file: Path, offset: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(data)


CONTENTS = {
    "ext4": ext4,
    "swap": swap,
    "dos": dos,
    "gpt": gpt,
    "LVM2_member": lvm,
    "linux_raid_member": raid,
    "crypto_LUKS": luks,
}
"""Functions that write each kind of content, by its name in util-linux."""
