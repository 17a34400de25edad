"""Writes a state to a directory: what an earlier one left there is used again, but for what was changed since."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

from dyno.crash.changes import PAGE
from dyno.crash.images import File
from dyno.crash.record import Node, Record
from dyno.host.filesystem import filesystem

Stamp = tuple[int, int, int, int]
_STAMPS = itertools.count()
_STAMPED_NS = 1_000_000_000
"""When files that were written here were changed last, as they say: nobody else writes then."""


class Builder:
    """Of one directory, which it makes. What is in it that no state has is taken away."""

    def __init__(self, record: Record, place: Path) -> None:
        self._record, self._place = record, place
        self._built: dict[str, tuple[File, Stamp]] = {}
        self._links: dict[int, str] = {}
        # Below a directory in memory a store through a mapping leaves no stamp.
        self._stamps = True

    def build(self, files: dict[str, tuple[Node, File | None]]) -> None:
        """`files` as `State.files` has them."""
        self._place.mkdir(parents=True, exist_ok=True)
        if not self._built:
            self._stamps = filesystem(self._place)["ram_backed"] is False
        self._clear(files)
        self._links.clear()
        for path, (node, file) in files.items():
            place = self._place / path
            if node.kind == "directory":
                self._directory(place, node)
            elif node.kind == "symlink":
                if not (place.is_symlink() and str(place.readlink()) == node.target):
                    _remove(place)
                    place.symlink_to(node.target)
            elif file is not None:
                self._file(path, place, node, file)

    def _clear(self, files: dict[str, tuple[Node, File | None]]) -> None:
        waiting = [""]
        while waiting:
            above = waiting.pop()
            for entry in os.scandir(self._place / above):
                path = above + entry.name
                node = files[path][0] if path in files else None
                directory = entry.is_dir(follow_symlinks=False)
                if (
                    node is None
                    or (node.kind == "directory") != directory
                    or (node.kind == "symlink") != entry.is_symlink()
                ):
                    _remove(Path(entry.path))
                    self._built.pop(path, None)
                elif directory:
                    waiting.append(path + "/")

    def _directory(self, place: Path, node: Node) -> None:
        if not place.is_dir():
            place.mkdir()
        _own(place, node)

    def _file(self, path: str, place: Path, node: Node, file: File) -> None:
        if (first := self._links.setdefault(file.number, path)) != path:
            _remove(place)
            os.link(self._place / first, place)
            self._built.pop(path, None)
            return
        before = self._built.pop(path, None)
        untouched = before is not None and self._stamps and _stamp(place) == before[1]
        if before is not None and untouched and before[0].number == file.number:
            self._same(place, before[0], file)
        else:
            self._write(place, file)
            _own(place, node)
        self._built[path] = file, self._stamped(place)

    def _same(self, place: Path, before: File, file: File) -> None:
        """Writes what differs."""
        pages = before.changed.keys() | file.changed.keys()
        differing = {page for page in pages if before.changed.get(page) is not file.changed.get(page)}
        common = min(before.size, file.size)
        if before.size != file.size:
            # Of what is behind, nothing is taken as known.
            differing.update(range(common // PAGE, min(-(-file.size // PAGE), file.last + 1)))
        if not differing and before.size == file.size:
            return
        descriptor = os.open(place, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, common)
            for page in differing:
                self._page(descriptor, file, page)
            os.ftruncate(descriptor, file.size)
        finally:
            os.close(descriptor)

    def _page(self, descriptor: int, file: File, page: int) -> None:
        at = page * PAGE
        if at < file.size:
            image = file.changed.get(page)
            os.pwrite(descriptor, (file.first.page(page) if image is None else image)[: file.size - at], at)

    def _write(self, place: Path, file: File) -> None:
        if place.is_symlink() or (place.exists() and place.stat().st_nlink > 1):
            place.unlink()
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for at, data in file.runs():
                os.pwrite(descriptor, data, at)
            os.ftruncate(descriptor, file.size)
        finally:
            os.close(descriptor)

    def _stamped(self, place: Path) -> Stamp:
        # Of no other builder either, which may have written there in between.
        os.utime(place, ns=(_STAMPED_NS, _STAMPED_NS + next(_STAMPS)))
        return _stamp(place)


def _stamp(place: Path) -> Stamp:
    try:
        facts = place.lstat()
    except FileNotFoundError:
        return (0, 0, 0, 0)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_nlink


def _own(place: Path, node: Node) -> None:
    if os.geteuid() == 0:
        os.chown(place, node.uid, node.gid)
    place.chmod(node.mode)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
