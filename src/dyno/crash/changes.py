"""A record split into the changes that a power cut keeps or loses: what each change depends on, and when it becomes
durable.

docs/explanations/power-cuts.md has the rules and their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from dyno.crash.record import NEVER, CrashRecord, Create, Event, Flush, Link, Rename, Resize, Unlink, Write

PAGE = 4096
SECTOR = 512
MODELS = ("ext4", "ordered", "posix")
NAMES = (Create, Link, Rename, Unlink)
Changing: TypeAlias = Write | Resize | Create | Link | Rename | Unlink


@dataclass(eq=False)
class FileChange:
    """A change of the bytes within one page of a file, of the file's size, or of both; or a change of a name.

    A write becomes several changes, one for each page.
    """

    number: int
    event: Changing
    begin: int
    end: int
    file: int
    page: int | None = None
    """Number of the page; None for a change of the size alone, or of a name."""
    start: int = 0
    """Offset of the bytes in the page."""
    data: bytes = b""
    versions: dict[int, int] = field(default_factory=dict)
    """Position of this change among all changes of a page's bytes, by page."""
    size: int | None = None
    """New size of the file, if this change alters it."""
    durable_at: int = NEVER
    """Moment from which no cut can lose this change."""
    needs: list[FileChange] = field(default_factory=list)
    """Changes without which this one can't be kept."""

    @property
    def is_name(self) -> bool:
        return isinstance(self.event, NAMES)


class FileChanges:
    """All changes of a record, sorted by the end of their calls, under the rules of one model.

    Changes that ended before the moment `durable` are durable.
    """

    def __init__(self, record: CrashRecord, model: str, durable: int = 0) -> None:
        if model not in MODELS:
            raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {model!r}")
        self.model = model
        self.all: list[FileChange] = []
        self.pages: dict[int, dict[int, list[FileChange]]] = {}
        """Changes of each page's bytes, by file and page. Truncations are included."""
        self.sizes: dict[int, list[FileChange]] = {}
        self.names: list[FileChange] = []
        self._length: dict[int, int] = {node.number: node.size for node in record.nodes}
        self._first = dict(self._length)
        self._truncations: dict[int, FileChange] = {}
        self._slots: dict[tuple[int, str], FileChange] = {}
        for event in record.events:
            self._add(event)
        start = Flush(durable, durable, 0, "", None)
        _set_durable(self, record, sorted([*record.events, start], key=lambda event: event.end))
        self._begins = np.array([change.begin for change in self.all], np.int64)
        self._durable = np.array([change.durable_at for change in self.all], np.int64)

    def _add(self, event: Event) -> None:
        if isinstance(event, Write):
            offset, end = event.offset, event.offset + len(event.data)
            while offset < end:
                until = min((offset // PAGE + 1) * PAGE, end)
                self._write(event, offset, event.data[offset - event.offset : until - event.offset])
                offset = until
        elif isinstance(event, Resize):
            self._resize(event)
        elif isinstance(event, NAMES):
            if isinstance(event, Create):
                self._length[event.file] = 0
            if not isinstance(event, Create) or event.parent >= 0:
                named = slots(event)
                needs = [self._slots.get(slot) for slot in named] if self.model == "posix" else self.names[-1:]
                change = self._change(event, needs)
                self.names.append(change)
                self._slots.update(dict.fromkeys(named, change))

    def _change(self, event: Changing, needs: Iterable[FileChange | None]) -> FileChange:
        change = FileChange(len(self.all), event, event.begin, event.end, event.file)
        change.needs = [other for other in needs if other is not None]
        self.all.append(change)
        return change

    def _write(self, event: Write, offset: int, data: bytes) -> None:
        page, start = divmod(offset, PAGE)
        extends = offset + len(data) > self._length.get(event.file, 0)
        versions = self.pages.setdefault(event.file, {}).setdefault(page, [])
        sizes = self.sizes.setdefault(event.file, [])
        # A page that keeps a write also keeps all earlier writes to it. Truncated bytes never come back.
        needs = [*versions[-1:], self._truncations.get(event.file)]
        if extends and self.model == "ext4":
            # The size never covers unwritten bytes: data and size are one change.
            needs += sizes[-1:]
        change = self._change(event, needs)
        change.page = page
        change.start = start
        change.data = data
        change.versions[page] = len(versions)
        versions.append(change)
        if extends:
            if self.model != "ext4":
                change = self._change(event, sizes[-1:])
            change.size = self._length[event.file] = offset + len(data)
            sizes.append(change)

    def _resize(self, event: Resize) -> None:
        before = self._length.get(event.file, 0)
        if event.size == before:
            return
        sizes = self.sizes.setdefault(event.file, [])
        change = self._change(event, sizes[-1:])
        change.size = self._length[event.file] = event.size
        sizes.append(change)
        if event.size > before:
            return
        # If the file grows again, the bytes behind the new size read as zeros.
        self._truncations[event.file] = change
        pages = self.pages.setdefault(event.file, {})
        for page in range(event.size // PAGE, -(-self._first.get(event.file, 0) // PAGE)):
            pages.setdefault(page, [])
        for page, versions in pages.items():
            if (page + 1) * PAGE > event.size:
                if page == event.size // PAGE and versions:
                    change.needs.append(versions[-1])
                change.versions[page] = len(versions)
                versions.append(change)

    def pending(self, point: int) -> list[FileChange]:
        """Returns the changes that had begun at the moment `point` and were not durable."""
        numbers = np.flatnonzero((self._begins <= point) & (self._durable > point))
        return [self.all[number] for number in numbers.tolist()]

    def drop_unmet_changes(self, kept: Iterable[FileChange], point: int) -> set[FileChange]:
        """Returns the changes of `kept` whose needs are all kept too, or durable."""
        remaining = set[FileChange]()
        for change in sorted(kept, key=lambda change: change.number):
            if all(other in remaining or other.durable_at <= point for other in change.needs):
                remaining.add(change)
        return remaining

    def add_needed_changes(self, kept: Iterable[FileChange], point: int) -> set[FileChange]:
        """Returns `kept` with all pending changes that these need."""
        closure, stack = set[FileChange](), list(kept)
        while stack:
            change = stack.pop()
            if change not in closure and change.durable_at > point:
                closure.add(change)
                stack += change.needs
        return closure


def slots(event: Changing) -> list[tuple[int, str]]:
    """Returns the names that an event changes, as pairs of directory number and name."""
    if isinstance(event, Rename):
        return [(event.parent, event.name), (event.new_parent, event.new_name)]
    if isinstance(event, NAMES):
        return [(event.parent, event.name)]
    return []


def _set_durable(changes: FileChanges, record: CrashRecord, events: list[Event]) -> None:
    """Sets the moment from which each change is durable: the end of the first flush or synchronous write that covers
    it. `events` are sorted by their ends."""
    directories = {node.number for node in record.nodes if node.kind == "directory"}
    directories |= {event.file for event in events if isinstance(event, Create) and event.kind == "directory"}
    names = [change for change in changes.all if change.is_name]
    data: dict[int, list[FileChange]] = {}
    for change in changes.all:
        if not change.is_name:
            data.setdefault(change.file, []).append(change)
    for event in events:
        if event.end == NEVER or not (isinstance(event, Flush) or (isinstance(event, Write) and event.durable)):
            continue
        if event.file is None:
            data = {file: _flush_covered(pending, event) for file, pending in data.items()}
            names = _flush_covered(names, event)
        elif event.file not in directories:
            pending = data.get(event.file, [])
            if changes.model != "posix" and _takes_names(names, pending, event):
                names = _flush_covered(names, event)
            data[event.file] = _flush_covered(pending, event, partial(_covers_data, event))
        elif changes.model == "posix":
            directory = event.file
            names = _flush_covered(names, event, lambda change: any(at == directory for at, _ in slots(change.event)))  # noqa: B023
        else:
            # A journal is written in order, so the flush of one directory makes all earlier changes of names durable.
            names = _flush_covered(names, event)
    for change in reversed(changes.all):
        for other in change.needs:
            other.durable_at = min(other.durable_at, change.durable_at)


def _coverage_end(flush: Flush | Write) -> int:
    """Returns the moment before which a change must have ended to be covered. A synchronous write covers itself."""
    if isinstance(flush, Flush):
        return flush.begin
    return flush.end + 1


def _flush_covered(
    pending: list[FileChange], flush: Flush | Write, covers: Callable[[FileChange], bool] = lambda change: True
) -> list[FileChange]:
    """Makes the covered changes durable from the end of the flush on. Returns the others."""
    remaining: list[FileChange] = []
    for position, change in enumerate(pending):
        if change.end >= _coverage_end(flush):
            # The changes are sorted by end, so all further ones ended too late as well.
            return remaining + pending[position:]
        if covers(change):
            change.durable_at = min(change.durable_at, flush.end)
        else:
            remaining.append(change)
    return remaining


def _covers_data(flush: Flush | Write, change: FileChange) -> bool:
    if isinstance(flush, Write):
        start, stop = flush.offset, flush.offset + len(flush.data)
    else:
        start, stop = flush.start, NEVER if flush.stop is None else flush.stop
    return change.size is not None or (change.page is not None and start // PAGE <= change.page < -(-stop // PAGE))


def _takes_names(names: list[FileChange], pending: list[FileChange], flush: Flush | Write) -> bool:
    """Returns whether the flush writes the file's metadata. If so, it writes the journal with all earlier changes of
    names.

    Any flush does so for a new size or a new file. fsync also does so after a link or a rename, which change only the
    file's ctime.
    """
    since = _coverage_end(flush)
    kinds = NAMES if isinstance(flush, Flush) and flush.call == "fsync" else (Create,)
    return any(change.size is not None and change.end < since for change in pending) or any(
        change.end < since and change.file == flush.file and isinstance(change.event, kinds) for change in names
    )
