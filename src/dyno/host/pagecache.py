"""Drops files from the kernel's page cache, and tells how much of them is left there: cold is proven, not claimed.

No engine and no server may be named here: which files are theirs, and that they are closed by now, the caller knows.
No verdict either: from what residency on a sample is lukewarm is not said here. Never call it inside a timed region.

Sources: mincore(2), posix_fadvise(2), lseek(2); cachestat in the kernel's mm/filemap.c; drop_caches in its
Documentation/admin-guide/sysctl/vm.rst. Only Linux tells; what a file system caches elsewhere (ZFS's ARC, a server,
a hypervisor, the device itself) is seen by none of these calls.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DROP_CACHES = Path("/proc/sys/vm/drop_caches")

_PAGE_BYTES = mmap.PAGESIZE
# Mapped piece by piece: a trial may have a limit on its memory, which counts mappings too.
_PIECE_BYTES = 1 << 26
# mincore leaves all bits of a page's byte but the lowest undefined.
_EVEN = bytes(range(0, 256, 2))
_SYS_CACHESTAT = 451


@dataclass(frozen=True)
class Residency:
    """How much of some files is in the page cache. Both sizes are in whole pages."""

    file_bytes: int
    """All files' data. Holes are left out: a sparse file's length would make any residency look small."""
    resident_bytes: int | None
    """Of which in the page cache; None where that can't be told of one of the files."""

    @property
    def percent(self) -> float | None:
        """0 to 100; None where it is unknown, or where there is no data."""
        if self.resident_bytes is None or not self.file_bytes:
            return None
        return 100 * self.resident_bytes / self.file_bytes


def residency(files: Iterable[Path]) -> Residency:
    """How much of `files` is in the page cache; looking brings nothing in.

    A file named twice, by hard links too, counts once. What has vanished, is empty or is no regular file counts
    nothing. One that can't be opened, or that is neither the user's own nor writable by them, makes it unknown.
    Takes about 20 ms per GB, resident or not. Raises nothing for what the files are.
    """
    file_bytes = 0
    resident: int | None = 0
    for fd, size in _opened(files):
        if fd is None or sys.platform != "linux":
            file_bytes += _in_pages(size)
            resident = None
            continue
        if not (extents := list(_data(fd, size))):
            continue
        file_bytes += sum(_in_pages(length) for _, length in extents)
        found = _by_mincore(fd, extents)
        if found is None:
            # Its zero proves nothing: asked on an overlay (a container's root), it looks where no page ever is.
            found = _by_cachestat(fd, extents) or None
        resident = None if resident is None or found is None else resident + found
    return Residency(file_bytes, resident)


def evict(files: Iterable[Path], *, drop: Path | None = DROP_CACHES) -> str:
    """Flushes `files` and asks the kernel to forget them; tells how: 'files', 'files+drop_caches' or 'none'.

    Where `drop` is given and may be written, the caches of the whole machine go too, for those of directories and of
    file systems' own structures are reached by no call for a file. 'none': not on Linux. Pages that any process has
    mapped stay, and so does all of tmpfs; a file that can't be opened is passed over. Only `residency` says what
    came of it.
    Raises OSError where a flush fails, since data is lost then.
    """
    if sys.platform != "linux":
        return "none"
    for fd, _ in _opened(files):
        if fd is None:
            continue
        try:
            os.fsync(fd)  # A dirty page can't be dropped.
        except OSError as error:
            if error.errno != errno.EINVAL:  # A read-only file system may have no such call.
                raise
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if drop is None:
        return "files"
    try:
        # Not Path.write_text: it would make the file where there is none.
        fd = os.open(drop, os.O_WRONLY)
        try:
            os.write(fd, b"3\n")
        finally:
            os.close(fd)
    except OSError:
        return "files"
    return "files+drop_caches"


def _opened(files: Iterable[Path]) -> Iterator[tuple[int | None, int]]:
    """A descriptor, closed after its turn, and the length of each regular file; None for one that can't be opened."""
    seen = set()
    for file in files:
        size = 0
        try:
            about = file.stat()
            # Looked at before it is opened: opening a pipe waits, and opening a device may do things.
            if not stat.S_ISREG(about.st_mode) or (about.st_dev, about.st_ino) in seen:
                continue
            seen.add((about.st_dev, about.st_ino))
            size = about.st_size
            fd = os.open(file, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield None, size
            continue
        try:
            yield fd, size
        finally:
            os.close(fd)


def _data(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Offset and length of what is no hole, in whole pages but for the file's end, in order and apart."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            hole = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            start, hole = end, size
        # A hole can begin or end within a page, and the file can have grown.
        start, end = start // _PAGE_BYTES * _PAGE_BYTES, min(_in_pages(hole), size)
        if start < end:
            yield start, end - start


def _by_mincore(fd: int, extents: Sequence[tuple[int, int]]) -> int | None:
    """Bytes in the page cache, in whole pages; None where the kernel won't tell.

    It asks the pages that a reader would get, whatever lies between the file and its store.
    """
    # Of others' files, mincore calls every page resident since Linux 5.2.
    owned = os.fstat(fd).st_uid == os.geteuid()
    if not owned and not os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True):
        return None
    mincore = ctypes.CDLL(None).mincore
    pages = 0
    for offset, length in extents:
        for start in range(offset, offset + length, _PIECE_BYTES):
            piece = min(_PIECE_BYTES, offset + length - start)
            answer = ctypes.create_string_buffer(_in_pages(piece) // _PAGE_BYTES)
            try:
                # A private copy in which nothing is touched: ctypes takes the address of writable memory only.
                with mmap.mmap(fd, piece, access=mmap.ACCESS_COPY, offset=start) as mapping:
                    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
                    if mincore(ctypes.c_void_p(address), ctypes.c_size_t(piece), answer) != 0:
                        return None
            except (OSError, ValueError):  # It can't be mapped, or was cut meanwhile.
                return None
            pages += len(answer.raw.translate(None, _EVEN))
    return pages * _PAGE_BYTES


def _by_cachestat(fd: int, extents: Sequence[tuple[int, int]]) -> int | None:
    """As `_by_mincore`, but without a mapping; Linux 6.5 and later have it, and the latest not for others' files."""
    if platform.machine() not in ("x86_64", "aarch64", "riscv64"):
        return None
    syscall = ctypes.CDLL(None).syscall
    pages = 0
    for extent in extents:
        found = (ctypes.c_uint64 * 5)()  # Cached, dirty, in writeback, evicted, recently evicted.
        asked = (ctypes.c_uint64 * 2)(*extent)
        if syscall(ctypes.c_long(_SYS_CACHESTAT), ctypes.c_uint(fd), asked, found, ctypes.c_uint(0)) != 0:
            return None
        pages += found[0]
    return pages * _PAGE_BYTES


def _in_pages(size: int) -> int:
    """`size` in bytes, rounded up to whole pages."""
    return -(-size // _PAGE_BYTES) * _PAGE_BYTES
