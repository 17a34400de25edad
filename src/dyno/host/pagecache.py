"""Drops files from the kernel's page cache, and measures how much of them is in it.

Never call its functions inside a timed region. It knows nothing of other caches: ZFS's ARC, or those of a
server, a hypervisor or the device itself.

Sources: mincore(2), posix_fadvise(2), lseek(2); drop_caches in the kernel's Documentation/admin-guide/sysctl/vm.rst.
"""

import ctypes
import errno
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DROP_CACHES = Path("/proc/sys/vm/drop_caches")

_PAGE_BYTES = mmap.PAGESIZE
# Map files in pieces: a trial may have a memory limit, which counts mappings too.
_PIECE_BYTES = 1 << 26
# mincore defines only the lowest bit of each page's byte: 1 for a resident page.
_EVEN = bytes(range(0, 256, 2))


@dataclass(frozen=True)
class Residency:
    """Sizes of files and of their parts in the page cache, in whole pages."""

    file_bytes: int
    """Size of the data without holes, since a sparse file's length would make its residency look small."""
    resident_bytes: int | None
    """Size of the parts in the page cache; None if unknown for one of the files."""

    @property
    def percent(self) -> float | None:
        """Residency from 0 to 100; None if unknown, or without data."""
        if self.resident_bytes is None or not self.file_bytes:
            return None
        return 100 * self.resident_bytes / self.file_bytes


def residency(files: Iterable[Path]) -> Residency:
    """Measures how much of the files is in the page cache, without reading them.

    A file with several names counts once. Files that are missing, empty or not regular don't count. The result is
    unknown if a file can't be opened, or if it is neither the user's own nor writable. Takes about 20 ms per GB.
    """
    file_bytes = 0
    resident: int | None = 0
    for fd, size in _open_each(files):
        if fd is None:
            file_bytes += _in_pages(size)
            resident = None
            continue
        if not (parts := list(extents(fd, size))):
            continue
        file_bytes += sum(_in_pages(length) for _, length in parts)
        cached = _resident(fd, parts)
        if resident is None or cached is None:
            resident = None
        else:
            resident = resident + cached
    return Residency(file_bytes, resident)


def evict(files: Iterable[Path], *, drop: Path | None = DROP_CACHES) -> str:
    """Flushes files and asks the kernel to drop them from the page cache.

    Returns the method: 'files' or 'files+drop_caches'. If `drop` is writable, all caches of the machine are dropped
    too, since no call for a file reaches the caches of directories and of the file system's own structures.

    Pages that a process has mapped stay, as do all pages of tmpfs. Files that can't be opened are skipped. Only
    `residency` shows the effect. Raises OSError if a flush fails, which loses data.
    """
    for fd, _ in _open_each(files):
        if fd is None:
            continue
        try:
            os.fsync(fd)  # Dirty pages can't be dropped.
        except OSError as error:
            if error.errno != errno.EINVAL:  # Some read-only file systems don't support it.
                raise
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if drop is None:
        return "files"
    try:
        # Path.write_text would create a missing file.
        fd = os.open(drop, os.O_WRONLY)
        try:
            os.write(fd, b"3\n")
        finally:
            os.close(fd)
    except OSError:
        return "files"
    return "files+drop_caches"


def _open_each(files: Iterable[Path]) -> Iterator[tuple[int | None, int]]:
    """Yields a descriptor (None if it can't be opened) and the length of each regular file."""
    seen = set()
    for file in files:
        size = 0
        try:
            status = file.stat()
            # Check before opening: a pipe would block, and opening a device may have effects.
            if not stat.S_ISREG(status.st_mode) or (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            size = status.st_size
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


def extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields offset and length of the data between holes, in whole pages except at the file's end."""
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            hole = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            start, hole = end, size
        # A hole may begin or end within a page, and the file may have grown.
        start, end = start // _PAGE_BYTES * _PAGE_BYTES, min(_in_pages(hole), size)
        if start < end:
            yield start, end - start


def _resident(fd: int, extents: Sequence[tuple[int, int]]) -> int | None:
    """Returns the size of the resident pages, even on stacked file systems; None if the kernel refuses."""
    # Since Linux 5.2, mincore reports every page of other users' files as resident.
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
                # Use a private mapping, which is never written: ctypes takes addresses of writable memory only.
                with mmap.mmap(fd, piece, access=mmap.ACCESS_COPY, offset=start) as mapping:
                    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
                    if mincore(ctypes.c_void_p(address), ctypes.c_size_t(piece), answer) != 0:
                        return None
            except (OSError, ValueError):  # Raised if the file can't be mapped, or was truncated in the meantime.
                return None
            pages += len(answer.raw.translate(None, _EVEN))
    return pages * _PAGE_BYTES


def _in_pages(size: int) -> int:
    """Rounds a size in bytes up to whole pages."""
    return -(-size // _PAGE_BYTES) * _PAGE_BYTES
