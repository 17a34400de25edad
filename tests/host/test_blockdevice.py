"""Tests that a device in use, or with recognisable data, is refused before a byte is written, and that writes go to
the device that was checked, even if its path leads elsewhere by then.

Signatures are also tested on files. The other tests need root and loop devices.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from loops import CONTENTS, MIB, digest, ext4, image, loop_device, mounted, sh, swap

from dyno.host import blockdevice
from dyno.host.blockdevice import DeviceBusy, hold_device, signatures

pytestmark = pytest.mark.usefixtures("processes")


def refused(path: object) -> str:
    with pytest.raises(DeviceBusy) as told, hold_device(str(path)):
        pass
    return str(told.value)


# -- on files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_signature_is_found(kind: str, tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    CONTENTS[kind](file)
    before = digest(file)
    with file.open("rb") as opened:
        found = signatures(opened.fileno())
    assert kind in found or (kind == "gpt" and "PMBR" in found)
    assert digest(file) == before


def test_unformatted_content_has_no_signature(tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    with file.open("rb") as opened:
        assert signatures(opened.fileno()) == []
    file.write_bytes(b"\xa7" * MIB)
    with file.open("rb") as opened:
        assert signatures(opened.fileno()) == []


def test_device_is_refused_if_wipefs_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with image(tmp_path / "image").open("rb") as opened, pytest.raises(DeviceBusy, match="wipefs"):
        signatures(opened.fileno())


def test_device_is_refused_if_wipefs_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "wipefs"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(blockdevice, "PROBE", str(program))
    with image(tmp_path / "image").open("rb") as opened, pytest.raises(DeviceBusy, match="broken"):
        signatures(opened.fileno())


def test_non_block_device_is_refused_without_opening(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "link").symlink_to("file")
    # Opening a pipe would block.
    for path in ("/dev/zero", tmp_path, tmp_path / "file", tmp_path / "link", tmp_path / "pipe"):
        assert refused(path) == "is not a block device"
    assert "No such file" in refused(tmp_path / "nothing")
    assert (tmp_path / "file").read_bytes() == b"data"


# -- on loop devices ------------------------------------------------------------------------------------------


def test_bare_device_is_held_exclusively(tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    before = digest(file)
    with loop_device(file) as device:
        with hold_device(device) as mine:
            assert mine.size_bytes == file.stat().st_size
            assert refused(device).startswith("is in use")
        with hold_device(device):
            "The device is released at the end of the block."
    assert digest(file) == before


@pytest.mark.claim("A device is overwritten only if an option names it, nobody uses it and nothing is on it")
@pytest.mark.parametrize("kind", CONTENTS)
def test_device_with_content_is_refused(kind: str, tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    CONTENTS[kind](file)
    before = digest(file)
    (tmp_path / "link").unlink(missing_ok=True)
    with loop_device(file) as device:
        (tmp_path / "link").symlink_to(device)
        for path in (device, tmp_path / "link"):
            assert refused(path).startswith("has ")
    assert digest(file) == before


def test_mounted_device_is_refused_with_its_mount_point(tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    ext4(file)
    with loop_device(file) as device, mounted(device, tmp_path / "there", "-o", "ro,noload"):
        assert refused(device) == f"is in use: it is mounted on {tmp_path / 'there'}"


def test_swap_device_is_refused(tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    swap(file)
    with loop_device(file) as device:
        try:
            sh("swapon", device)
        except Exception as error:
            pytest.skip(f"no swap can be added here: {error}")
        try:
            assert refused(device) == "is in use: it is swap"
        finally:
            sh("swapoff", device)


def test_read_only_or_zero_size_device_is_refused(tmp_path: Path) -> None:
    with loop_device(image(tmp_path / "image"), "--read-only") as device:
        assert refused(device) == "is read-only"
    with loop_device(image(tmp_path / "empty", 0)) as device:
        assert refused(device).startswith("has size 0")


def test_partitions_and_partitioned_devices_are_refused(tmp_path: Path) -> None:
    file = image(tmp_path / "image")
    CONTENTS["dos"](file)
    before = digest(file)
    with loop_device(file, "--partscan") as device:
        part = Path(f"{device}p1")
        if not Path(f"/sys/class/block/{part.name}").exists():
            try:
                # Some kernels don't read partition tables.
                sh("addpart", device, 1, 2048, 8192)
            except Exception as error:
                pytest.skip(f"a loop device has no partitions here: {error}")
        assert part.name in refused(device)
        if not part.exists():
            number = Path(f"/sys/class/block/{part.name}/dev").read_text().strip().split(":")
            os.mknod(part, 0o600 | 0o060000, os.makedev(*map(int, number)))
        try:
            assert refused(part).startswith("is a partition")
        finally:
            part.unlink(missing_ok=True)
    assert digest(file) == before


@pytest.mark.claim("A device is overwritten only if an option names it, nobody uses it and nothing is on it")
def test_device_replaced_before_opening_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare, precious = image(tmp_path / "bare"), image(tmp_path / "precious")
    ext4(precious)
    before, link, really = digest(precious), tmp_path / "link", os.open
    with loop_device(bare) as one, loop_device(precious) as other:
        link.symlink_to(one)

        def swapped(path: str, *how: int) -> int:
            link.unlink()
            link.symlink_to(other)
            return really(path, *how)

        monkeypatch.setattr(os, "open", swapped)
        assert refused(link) == "was replaced by another device meanwhile"
    assert digest(precious) == before


@pytest.mark.claim("A device is overwritten only if an option names it, nobody uses it and nothing is on it")
def test_writes_go_to_the_checked_device(tmp_path: Path) -> None:
    """Writes go to the checked device even after its path leads to another one."""
    bare, precious = image(tmp_path / "bare"), image(tmp_path / "precious")
    ext4(precious)
    before, link = digest(precious), tmp_path / "link"
    with loop_device(bare) as one, loop_device(precious) as other:
        link.symlink_to(one)
        with hold_device(str(link), writable=True) as device:
            link.unlink()
            link.symlink_to(other)
            os.pwrite(device.descriptor, b"mine", 0)
            os.fsync(device.descriptor)
    assert bare.read_bytes()[:4] == b"mine"
    assert digest(precious) == before


@pytest.mark.parametrize("length", [MIB, 4 * MIB])
def test_discard_frees_only_the_given_length(length: int, tmp_path: Path) -> None:
    file = tmp_path / "image"
    file.write_bytes(b"x" * 8 * MIB)
    with loop_device(file) as device, hold_device(device, writable=True) as mine:
        if not blockdevice.discard(mine.descriptor, length):
            pytest.skip("no holes can be made in files here")
        assert os.pread(mine.descriptor, 4, 0) == bytes(4)
        assert os.pread(mine.descriptor, 4, length) == b"xxxx"
