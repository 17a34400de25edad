"""Tests the eviction of real files, and their residency, which must be right even if eviction fails.

No test drops the caches of the whole machine, since others may be measuring on it.
"""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dyno.host import pagecache
from dyno.host.filesystem import filesystem
from dyno.host.pagecache import Residency, evict, residency

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is in its page cache")

SIZE = 8 << 20
NO_DROP = Path("/nothing/here/drop_caches")

OVERLAY = """
set -e
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
head -c {size} /dev/urandom > merged/file
{python} -c 'import sys; from pathlib import Path; from dyno.host.pagecache import *
files = [Path("merged/file")]
print(residency(files).percent, evict(files, drop=Path("missing")), residency(files).percent)'
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Temporary directory on a real disk, not in memory."""
    for parent in (tmp_path, Path(__file__).parent):
        if filesystem(parent)["ram_backed"] is not True and os.access(parent, os.W_OK):
            with tempfile.TemporaryDirectory(dir=parent, prefix=".pagecache-") as directory:
                yield Path(directory)
            return
    pytest.skip("only RAM-backed directories here")


@pytest.fixture
def file(disk: Path) -> Path:
    """File just written, which is entirely in the page cache and perhaps not yet on the disk."""
    path = disk / "file"
    path.write_bytes(os.urandom(SIZE))
    return path


def percent(*files: Path) -> float:
    told = residency(files).percent
    assert told is not None
    return told


@pytest.mark.claim("Residency is that of the data; unknown is not cold")
def test_residency_drops_on_eviction_and_returns_on_read(file: Path) -> None:
    assert evict([file], drop=NO_DROP) == "files"
    assert percent(file) <= 1
    file.read_bytes()
    assert percent(file) > 99
    evict([file], drop=NO_DROP)
    assert percent(file) <= 1


def test_unwritten_data_is_flushed_and_then_evicted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        evict([file], drop=NO_DROP)
    if percent(file) <= 1:
        pytest.skip("this file system had written it by itself")
    evict([file], drop=NO_DROP)
    assert percent(file) <= 1


def test_flush_error_is_raised(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        evict([file], drop=NO_DROP)


def test_unsupported_fsync_is_ignored(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def fail(fd: int) -> None:
        fsync(fd)
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fail)
    evict([file], drop=NO_DROP)
    assert percent(file) <= 1


def test_residency_check_loads_no_pages(file: Path) -> None:
    evict([file], drop=NO_DROP)
    assert residency([file]) == residency([file]) == Residency(SIZE, 0)


def test_mapped_pages_stay_resident_until_unmapped(file: Path) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        sum(mapping[:: mmap.PAGESIZE])
        evict([file], drop=NO_DROP)
        assert percent(file) > 99
    evict([file], drop=NO_DROP)
    assert percent(file) <= 1


def test_residency_counts_only_the_requested_range(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The file has several pieces, of which the last is shorter.
    monkeypatch.setattr(pagecache, "_PIECE_BYTES", 3 << 20)
    evict([file], drop=NO_DROP)
    with file.open("rb", buffering=0) as opened:
        fd = opened.fileno()
        # Prevents readahead.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(fd, SIZE // 2, 0)
        parts = {
            "all": (0, SIZE),
            "first half": (0, SIZE // 2),
            "second half": (SIZE // 2, SIZE // 2),
            "middle": (SIZE // 4, SIZE // 2),
        }
        resident = {name: pagecache._resident(fd, [part]) for name, part in parts.items()}
        assert resident == {"all": SIZE // 2, "first half": SIZE // 2, "second half": 0, "middle": SIZE // 4}


def test_residency_of_unwritable_foreign_file_is_unknown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For such a file, mincore would report all pages as resident."""
    evict([file], drop=NO_DROP)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert residency([file]).resident_bytes == 0, "others' and writable"
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with file.open("rb") as opened:
        assert pagecache._resident(opened.fileno(), [(0, SIZE)]) is None


@pytest.mark.claim("Residency is that of the data; unknown is not cold")
def test_unreadable_file_makes_total_residency_unknown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = file.with_name("other")
    other.write_bytes(b"x" * SIZE)
    really = os.open

    def refuse(path: Path, *rest: int) -> int:
        if path == other:
            raise PermissionError(13, "Permission denied")
        return really(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    assert evict([other, file], drop=NO_DROP) == "files"
    assert percent(file) <= 1
    assert residency([other, file]) == residency([file, other]) == Residency(2 * SIZE, None)


def test_tmpfs_file_stays_resident_after_eviction() -> None:
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or filesystem(shm)["type"] != "tmpfs":
        pytest.skip("no tmpfs at /dev/shm")
    with tempfile.TemporaryDirectory(dir=shm) as directory:
        file = Path(directory) / "file"
        file.write_bytes(os.urandom(SIZE))
        assert evict([file], drop=NO_DROP) == "files"
        assert percent(file) > 99


@pytest.mark.usefixtures("processes")
def test_overlay_file_is_resident_until_evicted(disk: Path) -> None:
    """cachestat reports no page of files on an overlay, such as a container's."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("a mount of our own needs root and unshare")
    script = OVERLAY.format(size=SIZE, python=sys.executable)
    done = subprocess.run([unshare, "-m", "sh", "-c", script], cwd=disk, capture_output=True, text=True)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stderr == ""
    before, how, after = done.stdout.split()
    assert float(before) > 99
    assert how == "files"
    assert float(after) <= 1


@pytest.mark.claim("Residency is that of the data; unknown is not cold")
def test_sparse_file_residency_ignores_holes(disk: Path) -> None:
    sparse = disk / "sparse"
    data = os.urandom(1 << 20)
    with sparse.open("wb") as opened:
        opened.truncate(1 << 30)
        os.pwrite(opened.fileno(), data, 1 << 29)
        os.fsync(opened.fileno())
    if sparse.stat().st_blocks * 512 > 1 << 26:
        pytest.skip("no sparse files on this file system")
    told = residency([sparse])
    assert told.file_bytes == told.resident_bytes == len(data)
    evict([sparse], drop=NO_DROP)
    assert residency([sparse]) == Residency(len(data), 0)


def test_all_hole_file_has_no_residency_percent(disk: Path) -> None:
    hole = disk / "hole"
    with hole.open("wb") as opened:
        opened.truncate(1 << 30)
    if hole.stat().st_blocks:
        pytest.skip("no sparse files on this file system")
    assert residency([hole]) == Residency(0, 0)
    assert residency([hole]).percent is None


def test_residency_sizes_are_in_whole_pages(disk: Path) -> None:
    odd = disk / "odd"
    odd.write_bytes(b"x" * (2 * mmap.PAGESIZE + 1))
    assert residency([odd]) == Residency(3 * mmap.PAGESIZE, 3 * mmap.PAGESIZE)


def test_paths_without_file_data_count_zero_bytes(file: Path, disk: Path) -> None:
    empty, pipe = disk / "empty", disk / "pipe"
    empty.touch()
    os.mkfifo(pipe)  # Opening the pipe would block.
    nothing = [disk / "vanished", file / "below a file", empty, pipe, disk]
    assert residency(nothing) == Residency(0, 0)
    assert residency(nothing).percent is None
    assert residency([*nothing, file]) == Residency(SIZE, SIZE)
    evict([*nothing, file], drop=NO_DROP)
    assert residency([*nothing, file]) == Residency(SIZE, 0)
    assert residency([]) == Residency(0, 0)


def test_file_with_several_names_counts_once(file: Path) -> None:
    link, hard = file.with_name("link"), file.with_name("hard")
    link.symlink_to(file)
    hard.hardlink_to(file)
    assert residency([file, file, link, hard]) == Residency(SIZE, SIZE)


def test_no_descriptor_is_left_open(file: Path) -> None:
    drop = file.with_name("drop_caches")
    drop.touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    residency([file])
    evict([file], drop=drop)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_all_caches_are_dropped_if_permitted(file: Path) -> None:
    drop = file.with_name("drop_caches")
    drop.touch()
    assert evict([file], drop=drop) == "files+drop_caches"
    assert drop.read_text().strip() == "3"


def test_drop_caches_is_written_after_file_eviction(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other order, evicting would bring the file system's structures back into memory."""
    drop = file.with_name("drop_caches")
    drop.touch()
    order: list[str] = []

    def log_calls(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            order.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(os, "posix_fadvise", log_calls("file", os.posix_fadvise))
    monkeypatch.setattr(os, "write", log_calls("drop", os.write))
    evict([file], drop=drop)
    assert order == ["file", "drop"]


def test_missing_drop_caches_is_not_created(file: Path) -> None:
    drop = file.with_name("drop_caches")
    assert evict([file], drop=drop) == "files"
    assert not drop.exists()
