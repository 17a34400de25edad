"""Toy stores, each with one planted defect. Run as a program, `toys.py NAME DIRECTORY` makes the commits of one
store.

A commit is a number. A sound store has the numbers 0, 1, ... up to the last acknowledged one, or to one that had
begun.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import queue
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

COMMITS = 60
PAGE = 4096


def mark(number: int, which: str) -> None:
    os.access(f"/dyno-mark/{number}/{which}", os.F_OK)


class Wrong(Exception):
    """The files are in no valid state of the store."""


def flush(path: Path | str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class Held:
    """Base class that closes its file when the object is freed, even if opening failed: tests open thousands of
    files.
    """

    file = -1

    def __del__(self) -> None:
        if self.file >= 0:
            os.close(self.file)


class Log(Held):
    """Appends each commit: length, checksum, number, and padding to fill pages."""

    def __init__(self, home: Path, checksum: bool = True, cut: bool = True, size: int = 0) -> None:
        self._path, self._checksum = home / "log", checksum
        new = not self._path.exists()
        self.file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        if new:
            os.pwrite(self.file, bytes(size), 0)
            os.fsync(self.file)
            flush(home)
        self.commits, end = self._read()
        if cut and not size:
            os.ftruncate(self.file, end)
        os.lseek(self.file, end if cut else 0, os.SEEK_SET if cut else os.SEEK_END)

    def _read(self) -> tuple[list[int], int]:
        data, at, found = self._path.read_bytes(), 0, []
        while at + 8 <= len(data):
            length = int.from_bytes(data[at : at + 4], "little")
            body = data[at + 8 : at + 8 + length]
            whole = len(body) == length and length > 0
            if not whole or (self._checksum and zlib.crc32(body) != int.from_bytes(data[at + 4 : at + 8], "little")):
                break
            try:
                found.append(int(body[:8]))
            except ValueError:
                raise Wrong(f"a commit of {body[:8]!r}") from None
            if body[8:] != bytes([found[-1] % 250 + 1]) * (length - 8):
                raise Wrong("a commit is torn")
            at += 8 + length
        return found, at

    def write(self, number: int) -> None:
        body = b"%8d" % number + bytes([number % 250 + 1]) * (200 + number * 971 % 9000)
        os.write(self.file, len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + body)
        self.commits.append(number)

    def commit(self, number: int) -> None:
        self.write(number)
        os.fsync(self.file)


class Late(Log):
    def commit(self, number: int) -> None:
        os.fsync(self.file)
        self.write(number)


class Nth(Log):
    """Leaves every n-th commit unflushed."""

    nth = 2

    def commit(self, number: int) -> None:
        self.write(number)
        if number % self.nth != self.nth - 1:
            os.fsync(self.file)


class Twentieth(Nth):
    nth = 20


class WrongFile(Log):
    def commit(self, number: int) -> None:
        self.write(number)
        with self._path.with_name("other").open("w") as other:
            other.write("x")
            os.fsync(other.fileno())


class RangeOnly(Log):
    """Flushes by sync_file_range, which does not flush the device's cache."""

    def commit(self, number: int) -> None:
        self.write(number)
        ctypes.CDLL(None).sync_file_range(self.file, ctypes.c_int64(0), ctypes.c_int64(0), 7)


class Threaded(Log):
    """Flushes in a thread, after the acknowledgement."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._wanted: queue.Queue[int] = queue.Queue()
        threading.Thread(target=self._flush, daemon=True).start()

    def _flush(self) -> None:
        while True:
            os.fsync(self._wanted.get())
            self._wanted.task_done()

    def begin(self) -> None:
        self._wanted.join()

    def commit(self, number: int) -> None:
        self.write(number)

    def acknowledged(self) -> None:
        self._wanted.put(self.file)


class Unchecked(Log):
    """Writes into a file of constant size, like a recycled log."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, checksum=False, size=COMMITS * 10_000)


class Uncut(Log):
    """Appends behind a torn tail instead of removing it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, cut=False)


class Renamed:
    """Keeps all commits in a file that each commit replaces by a new one."""

    flushes_file, flushes_directory = True, True

    def __init__(self, home: Path) -> None:
        self._home = home
        path = home / "state"
        try:
            self.commits = json.loads(path.read_text()) if path.exists() else []
        except ValueError as error:
            raise Wrong(str(error)) from None

    def commit(self, number: int) -> None:
        self.commits.append(number)
        new = self._home / "state.new"
        with new.open("w") as file:
            file.write(json.dumps(self.commits))
            file.flush()
            if self.flushes_file:
                os.fsync(file.fileno())
        new.rename(self._home / "state")
        if self.flushes_directory:
            flush(self._home)


class RenamedUnflushed(Renamed):
    flushes_file = False


class RenamedOnly(Renamed):
    flushes_directory = False


class InPlace(Held):
    """Fills three pages with the last commit's number, each with its own checksum, without a log."""

    def __init__(self, home: Path) -> None:
        path = home / "pages"
        if not path.exists():
            path.write_bytes(_page(-1) * 3)
            flush(path)
            flush(home)
        self.file = os.open(path, os.O_RDWR)
        found = {_number(os.pread(self.file, PAGE, at * PAGE)) for at in range(3)}
        if len(found) != 1:
            raise Wrong(f"pages of commits {sorted(found)}")
        self.commits = list(range(found.pop() + 1))

    def commit(self, number: int) -> None:
        os.pwrite(self.file, _page(number) * 3, 0)
        os.fsync(self.file)
        self.commits.append(number)


class Rooted(Held):
    """Copies on write: commits write alternating pages, and a root names the valid one."""

    barrier = True

    def __init__(self, home: Path) -> None:
        path = home / "tree"
        if not path.exists():
            path.write_bytes(_page(1, 512).ljust(PAGE) + _page(-1) * 2)
            flush(path)
            flush(home)
        self.file = os.open(path, os.O_RDWR)
        root = _number(os.pread(self.file, 512, 0), 512)
        number = _number(os.pread(self.file, PAGE, root * PAGE))
        if root != (number + 1) % 2 + 1:
            raise Wrong(f"the root is {root}, and its page that of commit {number}")
        self.commits = list(range(number + 1))

    def commit(self, number: int) -> None:
        place = (number + 1) % 2 + 1
        os.pwrite(self.file, _page(number), place * PAGE)
        if self.barrier:
            os.fsync(self.file)
        os.pwrite(self.file, _page(place, 512), 0)
        os.fsync(self.file)
        self.commits.append(number)


class Unbarred(Rooted):
    barrier = False


class Mapped(Held):
    """Copies on write, by stores into mappings of two files."""

    barrier = True

    def __init__(self, home: Path) -> None:
        for name, first in (("root", _page(0, 512).ljust(PAGE)), ("pages", _page(-1) * 2)):
            if not (home / name).exists():
                (home / name).write_bytes(first)
                flush(home / name)
                flush(home)
        self._root, self._pages = _mapping(home / "root"), _mapping(home / "pages")
        root = _number(self._root[:512], 512)
        number = _number(self._pages[root * PAGE :][:PAGE])
        if root != (number + 1) % 2:
            raise Wrong(f"the root is {root}, and its page that of commit {number}")
        self.commits = list(range(number + 1))

    def commit(self, number: int) -> None:
        place = (number + 1) % 2
        self._pages[place * PAGE : (place + 1) * PAGE] = _page(number)
        if self.barrier:
            self._pages.flush()
        self._root[:512] = _page(place, 512)
        self._root.flush()
        self._pages.flush()
        self.commits.append(number)


class MappedUnbarred(Mapped):
    barrier = False


def _mapping(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _page(number: int, size: int = PAGE) -> bytes:
    body = b"%8d" % number * (size // 8 - 1)
    return body + b"%08x" % zlib.crc32(body)


def _number(page: bytes, size: int = PAGE) -> int:
    number = int(page[:8])
    if page != _page(number, size):
        raise Wrong("a page is torn")
    return number


STORES: dict[str, Callable[[Path], Log | Renamed | InPlace | Rooted | Mapped]] = {
    "log": Log,
    "renamed": Renamed,
    "rooted": Rooted,
    "mapped": Mapped,
    "flushes a commit late": Late,
    "every 2nd unflushed": Nth,
    "every 20th unflushed": Twentieth,
    "flushes another file": WrongFile,
    "sync_file_range only": RangeOnly,
    "flushes in a thread": Threaded,
    "no checksum": Unchecked,
    "torn tail not cut": Uncut,
    "rename without fsync": RenamedUnflushed,
    "no directory fsync": RenamedOnly,
    "in place without a log": InPlace,
    "no barrier before the root": Unbarred,
    "no barrier before a mapped root": MappedUnbarred,
}
SOUND = ("log", "renamed", "rooted", "mapped")


def judged(name: str, home: Path, acknowledged: int, begun: int) -> str | None:
    """Describes what is wrong with the store in a directory; None if it is sound."""
    try:
        store = STORES[name](home)
        count = len(store.commits)
        if store.commits != list(range(count)):
            return f"torn: {store.commits}"
        if not acknowledged <= count <= begun:
            return f"lost: {count} of {acknowledged} to {begun}"
        # The store must accept and return further commits.
        getattr(store, "begin", lambda: None)()
        store.commit(count)
        if (again := STORES[name](home).commits) != list(range(count + 1)):
            return f"lost after the recovery: {again[-3:]}"
    except Wrong as error:
        return f"corrupt: {error}"
    return None


def main(name: str, home: Path) -> None:
    store = STORES[name](home)
    for number in range(COMMITS):
        getattr(store, "begin", lambda: None)()
        mark(number, "begin")
        store.commit(number)
        mark(number, "end")
        getattr(store, "acknowledged", lambda: None)()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
