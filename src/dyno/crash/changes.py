"""A record as changes that a power cut loses or keeps one by one: what each needs to be kept, and since when it is
durable. See docs/power-cuts.md for the rules, with their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from dyno.crash.base import Tree
from dyno.crash.record import NEVER, Create, Event, Flush, Link, Record, Rename, Resize, Unlink, Write

PAGE = 4096
SECTOR = 512
MODELS = ("ext4", "ordered", "posix")
NAMES = (Create, Link, Rename, Unlink)
Naming: TypeAlias = Create | Link | Rename | Unlink
Changing: TypeAlias = Write | Resize | Create | Link | Rename | Unlink


@dataclass(eq=False)
class Change:
    """Bytes in a page of a file, a file's size, or both; or a name. A write is several, one for each page."""

    number: int
    event: Changing
    begin: int
    end: int
    file: int
    page: int | None = None
    """Of the file; None of a size alone, and of a name."""
    start: int = 0
    """Of the bytes in that page."""
    data: bytes = b""
    versions: dict[int, int] = field(default_factory=dict)
    """By page, its place among those that change the page's bytes."""
    size: int | None = None
    """Of the file, where this change alters it."""
    durable_at: int = NEVER
    """The moment from which no cut can lose it."""
    needs: list[Change] = field(default_factory=list)
    """It is kept only where these are."""

    @property
    def is_name(self) -> bool:
        return isinstance(self.event, NAMES)


class Changes:
    """All of a record, in the order in which they ended; the rules are those of one model.

    `durable`: the moment at which all that had ended before is durable.
    """

    def __init__(self, record: Record, model: str, durable: int = 0) -> None:
        if model not in MODELS:
            raise ValueError(f"there is no model {model}; there are {', '.join(MODELS)}")
        self.model = model
        self.all: list[Change] = []
        self.pages: dict[int, dict[int, list[Change]]] = {}
        """By file and page: what changes its bytes, a cut of the file too."""
        self.sizes: dict[int, list[Change]] = {}
        self.names: list[Change] = []
        self._length: dict[int, int] = {node.number: node.size for node in record.header.nodes}
        self._first = dict(self._length)
        self._cuts: dict[int, Change] = {}
        self._slots: dict[tuple[int, str], Change] = {}
        for event in record.events:
            self._add(event)
        begun = Flush(durable, durable, 0, "", None)
        _flush(self, sorted([*record.events, begun], key=lambda event: event.end), Tree(record))
        self._begins = np.array([change.begin for change in self.all], np.int64)
        self._durable = np.array([change.durable_at for change in self.all], np.int64)

    # -- what there is -----------------------------------------------------------------------------------------

    def _add(self, event: Event) -> None:
        if isinstance(event, Write):
            for offset, data in _paged(event):
                self._write(event, offset, data)
        elif isinstance(event, Resize):
            self._resize(event)
        elif isinstance(event, NAMES):
            if isinstance(event, Create):
                self._length[event.file] = 0
            if not isinstance(event, Create) or event.parent >= 0:
                self._name(event)

    def _change(self, event: Changing, needs: Iterable[Change | None]) -> Change:
        made = Change(len(self.all), event, event.begin, event.end, event.file)
        made.needs = [change for change in needs if change is not None]
        self.all.append(made)
        return made

    def _write(self, event: Write, offset: int, data: bytes) -> None:
        page, start = divmod(offset, PAGE)
        longer = offset + len(data) > self._length.get(event.file, 0)
        versions = self.pages.setdefault(event.file, {}).setdefault(page, [])
        sizes = self.sizes.setdefault(event.file, [])
        # A page has the bytes of its writes up to one of them; and what was cut off can't be there again.
        needs = [versions[-1] if versions else None, self._cuts.get(event.file)]
        if longer and self.model == "ext4":
            # The size never covers what was not written: both are one change.
            needs.append(sizes[-1] if sizes else None)
        made = self._change(event, needs)
        made.page, made.start, made.data = page, start, data
        made.versions[page] = len(versions)
        versions.append(made)
        if not longer:
            return
        if self.model != "ext4":
            made = self._change(event, [sizes[-1] if sizes else None])
        made.size = self._length[event.file] = offset + len(data)
        sizes.append(made)

    def _resize(self, event: Resize) -> None:
        before = self._length.get(event.file, 0)
        if event.size == before:
            return
        sizes = self.sizes.setdefault(event.file, [])
        made = self._change(event, [sizes[-1] if sizes else None])
        made.size = self._length[event.file] = event.size
        sizes.append(made)
        if event.size < before:
            self._cuts[event.file] = made
            self._cut(made, event.size)

    def _cut(self, made: Change, size: int) -> None:
        """Zeroes what is behind, should the file be longer again."""
        pages = self.pages.setdefault(made.file, {})
        for page in range(size // PAGE, -(-self._first.get(made.file, 0) // PAGE)):
            pages.setdefault(page, [])
        for page, versions in pages.items():
            if (page + 1) * PAGE > size:
                if page == size // PAGE and versions:
                    made.needs.append(versions[-1])
                made.versions[page] = len(versions)
                versions.append(made)

    def _name(self, event: Naming) -> None:
        slots = _slots(event)
        if self.model == "posix":
            needs = [self._slots.get(slot) for slot in slots]
        else:
            needs = [self.names[-1] if self.names else None]
        made = self._change(event, needs)
        self.names.append(made)
        self._slots.update(dict.fromkeys(slots, made))

    # -- what may be there -------------------------------------------------------------------------------------

    def pending(self, point: int) -> list[Change]:
        """What had begun at a moment, and was not durable."""
        found = np.flatnonzero((self._begins <= point) & (self._durable > point))
        return [self.all[number] for number in found.tolist()]

    def lowered(self, kept: Iterable[Change], point: int) -> set[Change]:
        """Those of them that have all that they need."""
        left: set[Change] = set()
        for change in sorted(kept, key=lambda change: change.number):
            if all(other in left or other.durable_at <= point for other in change.needs):
                left.add(change)
        return left

    def raised(self, kept: Iterable[Change], point: int) -> set[Change]:
        """They, and all that they need."""
        found: set[Change] = set()
        waiting = list(kept)
        while waiting:
            change = waiting.pop()
            if change not in found and change.durable_at > point:
                found.add(change)
                waiting += change.needs
        return found


def _paged(event: Write) -> Iterator[tuple[int, bytes]]:
    """A write as writes within a page each."""
    done = 0
    while done < len(event.data):
        offset = event.offset + done
        length = PAGE - offset % PAGE
        yield offset, event.data[done : done + length]
        done += length


def _slots(event: Naming) -> list[tuple[int, str]]:
    own = (event.parent, event.name)
    return [own, (event.new_parent, event.new_name)] if isinstance(event, Rename) else [own]


# -- what is durable -------------------------------------------------------------------------------------------


class _Pending:
    """What no flush has covered yet, by what a flush may cover."""

    def __init__(self, changes: Changes) -> None:
        self.data: dict[int, list[Change]] = {}
        self.names: list[Change] = []
        for change in changes.all:
            if change.is_name:
                self.names.append(change)
            else:
                self.data.setdefault(change.file, []).append(change)

    def settle(self, of: list[Change], flush: Flush | Write, covers: Callable[[Change], bool]) -> list[Change]:
        """Those that it covers are durable from its end on; returns the others."""
        left: list[Change] = []
        for position, change in enumerate(of):
            if change.end >= _since(flush):
                # They are by their ends: all others ended later.
                return left + of[position:]
            if covers(change):
                change.durable_at = min(change.durable_at, flush.end)
            else:
                left.append(change)
        return left


def _since(flush: Flush | Write) -> int:
    """What ended before that is covered; a synchronous write covers itself."""
    return flush.begin if isinstance(flush, Flush) else flush.end + 1


def _flush(changes: Changes, events: Iterable[Event], tree: Tree) -> None:
    directories = {number for number, node in tree.nodes.items() if node.kind == "directory"}
    directories |= {event.file for event in events if isinstance(event, Create) and event.kind == "directory"}
    pending = _Pending(changes)
    for event in events:
        if event.end == NEVER or not _flushes(event):
            continue
        assert isinstance(event, Flush | Write | Resize)
        if isinstance(event, Flush) and event.file is None:
            for file, waiting in pending.data.items():
                pending.data[file] = pending.settle(waiting, event, lambda change: True)
            pending.names = pending.settle(pending.names, event, lambda change: True)
        elif event.file in directories:
            assert isinstance(event, Flush)
            pending.names = pending.settle(pending.names, event, _of_directory(changes, event.file))
        else:
            assert isinstance(event, Flush | Write)
            _flush_file(changes, pending, event)
    for change in reversed(changes.all):
        for other in change.needs:
            other.durable_at = min(other.durable_at, change.durable_at)


def _flushes(event: Event) -> bool:
    return isinstance(event, Flush) or (isinstance(event, Write) and event.durable)


def _of_directory(changes: Changes, directory: int | None) -> Callable[[Change], bool]:
    """A journal is written in order: all names go with those of one directory."""
    if changes.model != "posix":
        return lambda change: True
    return lambda change: any(parent == directory for parent, _ in _slots(_named(change)))


def _named(change: Change) -> Naming:
    assert isinstance(change.event, NAMES)
    return change.event


def _flush_file(changes: Changes, pending: _Pending, flush: Flush | Write) -> None:
    assert flush.file is not None
    waiting = pending.data.get(flush.file, [])
    first, last = _range(flush)
    if changes.model != "posix" and _takes_names(pending, waiting, flush):
        pending.names = pending.settle(pending.names, flush, lambda change: True)

    def covers(change: Change) -> bool:
        return change.size is not None or (change.page is not None and first <= change.page < last)

    pending.data[flush.file] = pending.settle(waiting, flush, covers)


def _range(flush: Flush | Write) -> tuple[int, int]:
    """First page, and the one after the last."""
    if isinstance(flush, Write):
        return flush.offset // PAGE, -(-(flush.offset + len(flush.data)) // PAGE)
    return flush.start // PAGE, NEVER if flush.stop is None else -(-flush.stop // PAGE)


def _takes_names(pending: _Pending, waiting: list[Change], flush: Flush | Write) -> bool:
    """Whether the file's own metadata must be written, and so the journal, with all that came before: its size, that
    it was made; for fsync also that it was linked or renamed, which changes no more than a time of it."""
    since = _since(flush)
    if any(change.size is not None and change.end < since for change in waiting):
        return True
    kinds = NAMES if isinstance(flush, Flush) and flush.call == "fsync" else (Create,)
    return any(
        change.end < since and change.file == flush.file and isinstance(change.event, kinds)
        for change in pending.names
    )
