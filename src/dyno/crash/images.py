"""What files hold in a state: which version of each page, of the size, and of the names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from dyno.crash.base import Tree
from dyno.crash.changes import PAGE, SECTOR, Change, Changes
from dyno.crash.record import Node, Record, Resize

Torn = tuple[int, int, tuple[int, ...]]
"""A file, a page of it, and the version of each of its sectors; -1 is what was there at first."""
_PATHS = 64
_KNOWN = 8
_ZEROS = bytes(PAGE)


class _Page:
    """Its versions, each made of the one before; of the few that were asked for last, their bytes."""

    def __init__(self, first: bytes, versions: list[Change], page: int) -> None:
        self._first, self._versions, self._page = first, versions, page
        self._known: dict[int, bytes] = {}
        durable = [change.durable_at for change in versions]
        for at in range(len(durable) - 2, -1, -1):
            durable[at] = min(durable[at], durable[at + 1])
        self._durable = durable

    def durable(self, point: int) -> int:
        """The version that no cut at that moment can take away."""
        return bisect_right(self._durable, point) - 1

    def image(self, version: int) -> bytes:
        """PAGE bytes."""
        if version < 0:
            return self._first
        if version not in self._known:
            at = version - 1
            while at >= 0 and at not in self._known:
                at -= 1
            made = bytearray(self._known.get(at, self._first))
            for change in self._versions[at + 1 : version + 1]:
                if isinstance(change.event, Resize):
                    start = max(change.event.size - self._page * PAGE, 0)
                    made[start:] = bytes(PAGE - start)
                else:
                    made[change.start : change.start + len(change.data)] = change.data
            while len(self._known) >= _KNOWN:
                del self._known[next(iter(self._known))]
            self._known[version] = bytes(made)
        return self._known[version]

    def torn(self, versions: Iterable[int]) -> bytes:
        """Each sector of a version of its own."""
        cuts = [(number * SECTOR, version) for number, version in enumerate(versions)]
        return b"".join(self.image(version)[at : at + SECTOR] for at, version in cuts)


@dataclass(frozen=True)
class File:
    """In one state. Of pages that are not in `changed`, what was there at first; of what is behind, zeros."""

    number: int
    size: int
    changed: dict[int, bytes]
    first: First

    def written(self) -> Iterator[tuple[int, bytes]]:
        """The number and the bytes of those that were changed; the last is cut at the size."""
        for page, image in self.changed.items():
            if page * PAGE < self.size:
                yield page, image if (page + 1) * PAGE <= self.size else image[: self.size - page * PAGE]

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Also those that hold what was there at first; all others are zeros."""
        yield from self.written()
        for page in range(min(-(-self.size // PAGE), self.first.pages)):
            if page not in self.changed:
                yield page, self.first.page(page)[: self.size - page * PAGE]

    @property
    def last(self) -> int:
        """The last page that may hold something."""
        return max([self.first.pages, *self.changed])

    def runs(self) -> Iterator[tuple[int, bytes]]:
        """An offset and bytes for each part that is no hole."""
        at, parts = -1, list[bytes]()
        for page, image in sorted(self.pages()):
            if image == _ZEROS[: len(image)]:
                continue
            if at < 0 or page * PAGE != at + PAGE * len(parts):
                if parts:
                    yield at, b"".join(parts)
                at, parts = page * PAGE, []
            parts.append(image)
        if parts:
            yield at, b"".join(parts)

    @cached_property
    def data(self) -> bytes:
        """All of it."""
        made = bytearray(self.first.data[: self.size])
        made.extend(bytes(self.size - len(made)))
        for page, image in self.changed.items():
            if page * PAGE < self.size:
                at = page * PAGE
                made[at : at + PAGE] = image[: self.size - at]
        return bytes(made)


class First:
    """What a file held before the command was begun."""

    def __init__(self, record: Record, number: int) -> None:
        self._record, self._number = record, number

    @cached_property
    def data(self) -> bytes:
        return self._record.first(self._number)

    @property
    def pages(self) -> int:
        return -(-len(self.data) // PAGE)

    def page(self, number: int) -> bytes:
        """PAGE bytes, with zeros behind the end."""
        part = self.data[number * PAGE : (number + 1) * PAGE]
        return part if len(part) == PAGE else part + bytes(PAGE - len(part))


class Images:
    """Of all files of a record, under the rules of `changes`."""

    def __init__(self, record: Record, changes: Changes) -> None:
        self._record, self._changes = record, changes
        self._sizes = {node.number: node.size for node in record.header.nodes if node.kind == "file"}
        self._first: dict[int, First] = {}
        self._pages: dict[int, dict[int, _Page]] = {}
        self._ends: dict[int, list[int]] = {}
        self._paths: dict[tuple[int, ...], dict[str, Node]] = {}
        self._contents: dict[bytes, int] = {}

    def page(self, file: int, page: int) -> _Page:
        """One that was changed."""
        pages = self._pages.setdefault(file, {})
        if page not in pages:
            pages[page] = _Page(self._of(file).page(page), self._changes.pages[file][page], page)
        return pages[page]

    def _of(self, file: int) -> First:
        return self._first.setdefault(file, First(self._record, file))

    def files(self, point: int, kept: Iterable[Change], torn: Torn | None) -> dict[str, tuple[Node, File | None]]:
        """By path; a directory, or a symbolic link, is no file."""
        versions: dict[tuple[int, int], int] = {}
        sizes: dict[int, Change] = {}
        names: list[Change] = []
        for change in sorted(kept, key=lambda change: change.number):
            versions.update({(change.file, page): version for page, version in change.versions.items()})
            if change.size is not None:
                sizes[change.file] = change
            if change.is_name:
                names.append(change)
        found: dict[str, tuple[Node, File | None]] = {}
        made: dict[int, File] = {}
        for path, node in self._names(point, names).items():
            if node.kind != "file":
                found[path] = node, None
                continue
            if node.number not in made:
                made[node.number] = self._file(node.number, point, versions, sizes.get(node.number), torn)
            found[path] = node, made[node.number]
        return found

    def _file(
        self, number: int, point: int, versions: dict[tuple[int, int], int], size: Change | None, torn: Torn | None
    ) -> File:
        changed: dict[int, bytes] = {}
        for page in self._changes.pages.get(number, ()):
            held = self.page(number, page)
            if torn is not None and torn[:2] == (number, page):
                changed[page] = held.torn(torn[2])
            else:
                version = max(held.durable(point), versions.get((number, page), -1))
                if version >= 0:
                    changed[page] = held.image(version)
        return File(number, self._size(number, point, size), changed, self._of(number))

    def _size(self, number: int, point: int, kept: Change | None) -> int:
        if kept is not None and kept.size is not None:
            return kept.size
        sizes = self._changes.sizes.get(number, [])
        if number not in self._ends:
            self._ends[number] = [change.durable_at for change in sizes]
        at = bisect_right(self._ends[number], point) - 1
        size = sizes[at].size if at >= 0 else self._sizes.get(number, 0)
        assert size is not None
        return size

    # -- names -------------------------------------------------------------------------------------------------

    def _names(self, point: int, kept: list[Change]) -> dict[str, Node]:
        """Those that are durable, and those that were kept, in their order."""
        applied = [change.number for change in self._changes.names if change.durable_at <= point]
        key = tuple(sorted([*applied, *(change.number for change in kept)]))
        if key not in self._paths:
            if len(self._paths) > _PATHS:
                self._paths.clear()
            self._paths[key] = self._replayed(key)
        return self._paths[key]

    def _replayed(self, key: tuple[int, ...]) -> dict[str, Node]:
        tree = Tree(self._record)
        for number in key:
            tree.apply(self._changes.all[number].event)
        # A file without a name that got one later.
        tree.nodes.update(self._unnamed)
        return tree.paths(len(self._record.roots))

    @cached_property
    def _unnamed(self) -> dict[int, Node]:
        tree = Tree(self._record)
        before = set(tree.nodes)
        for event in self._record.events:
            tree.apply(event)
        return {number: node for number, node in tree.nodes.items() if number not in before}

    def key(self, files: dict[str, tuple[Node, File | None]]) -> tuple[object, ...]:
        """The same for two states that hold the same."""
        return tuple(sorted((path, self._told(node, file)) for path, (node, file) in files.items()))

    def _told(self, node: Node, file: File | None) -> tuple[object, ...]:
        if file is None:
            return (node.kind, node.target)
        known = self._contents
        return (
            "file",
            str(file.size),
            *[(page, known.setdefault(image, len(known))) for page, image in file.written()],
        )
