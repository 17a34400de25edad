"""Tells a state in words: what was lost, and which flush was missing."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from dyno.crash.changes import PAGE, Change
from dyno.crash.record import Create, Event, Flush, Hint, Link, Node, Record, Rename, Resize, Unlink, Write

if TYPE_CHECKING:
    from dyno.crash.model import State

LINES = 12
"""At most; the others are counted."""


def words(state: State) -> list[str]:
    """A line for each change, those that belong together in one."""
    replay, paths = state.replay, Paths(state.replay.record)
    lines = []
    if state.torn is not None:
        file, page, versions = state.torn
        lines.append(
            f"page {page} of {paths.file(file)} (bytes {page * PAGE} to {(page + 1) * PAGE}) is torn: "
            f"{_sectors(versions)}"
        )
    groups: dict[tuple[str, str], list[list[Change]]] = {}
    for _, group in groupby(state.lost(), key=lambda change: id(change.event)):
        changes = list(group)
        why = _missing(replay.record, changes[-1], state.point, paths)
        # Each name by itself: their order says much.
        what = paths.file(changes[0].file) if isinstance(changes[0].event, Write) else str(len(groups))
        groups.setdefault((what, why), []).append(changes)
    lines += [f"{_told(events, paths)} {_was(events)} lost: {why}" for (_, why), events in groups.items()]
    if not lines:
        lines.append("nothing that had ended was lost")
    more = len(lines) - LINES
    return [*lines[:LINES], f"and {more} more"] if more > 1 else lines


class Paths:
    """The first name that each file had."""

    def __init__(self, record: Record) -> None:
        self._nodes: dict[int, Node | Create] = {node.number: node for node in reversed(record.header.nodes)}
        self._links: dict[int, Link] = {}
        for event in record.events:
            if isinstance(event, Create):
                self._nodes[event.file] = event
            elif isinstance(event, Link):
                self._links.setdefault(event.file, event)

    def file(self, number: int | None) -> str:
        """Below its root; '.' of a root."""
        node: Node | Create | Link | None = self._nodes.get(number) if number is not None else None
        if node is not None and node.parent < 0 and number in self._links:
            node = self._links[number]
        if node is None or node.parent < 0:
            return "."
        return self.name(node.parent, node.name)

    def name(self, parent: int, name: str) -> str:
        above = self.file(parent)
        return name if above == "." else f"{above}/{name}"


def _was(events: list[list[Change]]) -> str:
    return "was" if len(events) == 1 else "were"


def _told(events: list[list[Change]], paths: Paths) -> str:
    """Changes of one event; or writes to one file, of several."""
    event = events[0][0].event
    if not isinstance(event, Write):
        return _change(event, paths)
    every = [change for changes in events for change in changes]
    file, call, parts = paths.file(event.file), event.call, [c for c in every if c.page is not None]
    if not parts:
        return f"the size {max(change.size or 0 for change in every)} of {file} ({call})"
    starts = [(change.page or 0) * PAGE + change.start for change in parts]
    size = ", with its size," if any(change.size is not None for change in every) else ""
    if len(events) == 1:
        count = sum(len(change.data) for change in parts)
        return f"a write of {count} bytes at {starts[0]} of {file} ({call}){size}"
    stop = max(start + len(change.data) for start, change in zip(starts, parts, strict=True))
    return f"{len(events)} writes between {min(starts)} and {stop} of {file} ({call}){size}"


def _change(event: Event, paths: Paths) -> str:
    if isinstance(event, Resize):
        return f"the size {event.size} of {paths.file(event.file)} ({event.call})"
    if isinstance(event, Create):
        return f"the name {paths.name(event.parent, event.name)} of a new {event.kind}"
    if isinstance(event, Rename):
        old, new = paths.name(event.parent, event.name), paths.name(event.new_parent, event.new_name)
        return f"the renaming of {old} to {new}"
    assert isinstance(event, Link | Unlink)
    return f"the {'link' if isinstance(event, Link) else 'removal of'} {paths.name(event.parent, event.name)}"


def _missing(record: Record, change: Change, point: int, paths: Paths) -> str:
    """Why it was not durable: which flush came too late, too early or to another file."""
    what = _directories(change, paths) if change.is_name else paths.file(change.file)
    after = [event for event in record.events if isinstance(event, Flush | Hint) and event.begin > change.begin]
    own = [event for event in after if isinstance(event, Flush) and _is_of(event, change)]
    if early := next((event for event in own if event.begin <= change.end), None):
        return f"{_a(early)} of {what} began before it had ended"
    if under := next((event for event in own if event.begin <= point < event.end), None):
        return f"{_a(under)} of {what} had begun, but not ended"
    said = f"no flush of {what} came before the cut"
    before = [event for event in after if event.begin <= point]
    if hint := next((event for event in before if isinstance(event, Hint) and event.file == change.file), None):
        said += f" ({hint.call} is none)"
    elif other := next((event for event in before if isinstance(event, Flush) and event not in own), None):
        said += f", but {_a(other)} of {paths.file(other.file)}"
    later = next((event for event in own if event.begin > point), None)
    return said + (f"; {_a(later)} came later" if later else "; nor did any come later")


def _a(event: Flush) -> str:
    return f"{'a' if event.call.startswith('sync') else 'an'} {event.call}"


def _is_of(event: Flush, change: Change) -> bool:
    if event.file is None:
        return True
    if not change.is_name:
        inside = (
            change.page is None or event.stop is None or event.start < (change.page + 1) * PAGE <= event.stop + PAGE
        )
        return event.file == change.file and inside
    return event.file in _parents(change.event)


def _parents(event: Event) -> list[int]:
    if isinstance(event, Rename):
        return [event.parent, event.new_parent]
    return [event.parent] if isinstance(event, Create | Link | Unlink) else []


def _directories(change: Change, paths: Paths) -> str:
    found = dict.fromkeys(paths.file(parent) for parent in _parents(change.event))
    return "the directory " + " or ".join("that it is in" if path == "." else path for path in found)


def _sectors(versions: tuple[int, ...]) -> str:
    """'bytes 0 to 1024 are newer than the rest'."""
    newest = max(versions)
    new = [number for number, version in enumerate(versions) if version == newest]
    return f"sectors {', '.join(map(str, new))} of its 8 are newer than the others"
