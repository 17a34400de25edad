"""Explains a state in words: what was lost, and which flush was missing."""

from itertools import groupby

from dyno.crash.changes import PAGE, FileChange
from dyno.crash.model import State
from dyno.crash.record import Create, Event, Flush, Hint, Link, Node, Record, Rename, Resize, Unlink, Write

MOST_LINES = 12


def explain(state: State) -> list[str]:
    """Returns a line for each lost change. Changes of the same kind share a line, and lines beyond MOST_LINES are
    only counted.
    """
    paths, lines = Paths(state.replay.record), list[str]()
    if state.torn is not None:
        file, page, versions = state.torn
        newest = [str(sector) for sector, version in enumerate(versions) if version == max(versions)]
        lines.append(
            f"page {page} of {paths.file(file)} (bytes {page * PAGE} to {(page + 1) * PAGE}) is torn: "
            f"sectors {', '.join(newest)} of its 8 are newer than the others"
        )
    groups: dict[tuple[str, str], list[list[FileChange]]] = {}
    for _, group in groupby(state.lost(), key=lambda change: id(change.event)):
        changes = list(group)
        why = _missing_flush(state.replay.record, changes[-1], state.point, paths)
        # Changes of names aren't grouped, since their order matters.
        what = paths.file(changes[0].file) if isinstance(changes[0].event, Write) else str(len(groups))
        groups.setdefault((what, why), []).append(changes)
    for (_, why), events in groups.items():
        lines.append(f"{_describe(events, paths)} {'was' if len(events) == 1 else 'were'} lost: {why}")
    if not lines:
        lines.append("nothing that had ended was lost")
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {more} more"] if more > 1 else lines


class Paths:
    """The first name of each file in a record."""

    def __init__(self, record: Record) -> None:
        self._nodes: dict[int, Node | Create] = {node.number: node for node in reversed(record.nodes)}
        self._links: dict[int, Link] = {}
        for event in record.events:
            if isinstance(event, Create):
                self._nodes[event.file] = event
            elif isinstance(event, Link):
                self._links.setdefault(event.file, event)

    def file(self, number: int | None) -> str:
        """Returns the path of a file below its root; '.' for a root."""
        node: Node | Create | Link | None = self._nodes.get(number) if number is not None else None
        if node is not None and node.parent < 0 and number in self._links:
            node = self._links[number]
        return "." if node is None or node.parent < 0 else self.name(node.parent, node.name)

    def name(self, parent: int, name: str) -> str:
        directory = self.file(parent)
        return name if directory == "." else f"{directory}/{name}"


def _describe(events: list[list[FileChange]], paths: Paths) -> str:
    """Describes the changes of one event, or of several writes to one file."""
    event = events[0][0].event
    match event:
        case Resize():
            return f"the size {event.size} of {paths.file(event.file)} ({event.call})"
        case Create():
            return f"the name {paths.name(event.parent, event.name)} of a new {event.kind}"
        case Rename():
            old, new = paths.name(event.parent, event.name), paths.name(event.new_parent, event.new_name)
            return f"the renaming of {old} to {new}"
        case Link():
            return f"the link {paths.name(event.parent, event.name)}"
        case Unlink():
            return f"the removal of {paths.name(event.parent, event.name)}"
    changes = [change for group in events for change in group]
    where, parts = f"of {paths.file(event.file)} ({event.call})", [c for c in changes if c.page is not None]
    if not parts:
        return f"the size {max(change.size or 0 for change in changes)} {where}"
    starts = [(change.page or 0) * PAGE + change.start for change in parts]
    size = ", with its size," if any(change.size is not None for change in changes) else ""
    if len(events) == 1:
        return f"a write of {sum(len(change.data) for change in parts)} bytes at {starts[0]} {where}{size}"
    end = max(start + len(change.data) for start, change in zip(starts, parts, strict=True))
    return f"{len(events)} writes between {min(starts)} and {end} {where}{size}"


def _missing_flush(record: Record, change: FileChange, point: int, paths: Paths) -> str:
    """Returns why the change was not durable: its flush was missing, late or early, or flushed another file."""
    what = paths.file(change.file)
    if change.is_name:
        directories = dict.fromkeys(paths.file(parent) for parent in _parents(change.event))
        what = "the directory " + " or ".join("that it is in" if path == "." else path for path in directories)
    after = [event for event in record.events if isinstance(event, Flush | Hint) and event.begin > change.begin]
    own = [event for event in after if isinstance(event, Flush) and _covers(event, change)]
    if early := next((event for event in own if event.begin <= change.end), None):
        return f"{_a(early)} of {what} began before it had ended"
    if running := next((event for event in own if event.begin <= point < event.end), None):
        return f"{_a(running)} of {what} had begun, but not ended"
    text = f"no flush of {what} came before the cut"
    before = [event for event in after if event.begin <= point]
    if hint := next((event for event in before if isinstance(event, Hint) and event.file == change.file), None):
        text += f" ({hint.call} is none)"
    elif other := next((event for event in before if isinstance(event, Flush) and event not in own), None):
        text += f", but {_a(other)} of {paths.file(other.file)}"
    later = next((event for event in own if event.begin > point), None)
    return text + (f"; {_a(later)} came later" if later else "; nor did any come later")


def _a(event: Flush) -> str:
    return f"{'a' if event.call.startswith('sync') else 'an'} {event.call}"


def _covers(event: Flush, change: FileChange) -> bool:
    if event.file is None:
        return True
    if change.is_name:
        return event.file in _parents(change.event)
    if change.page is None or event.stop is None:
        return event.file == change.file
    return event.file == change.file and event.start < (change.page + 1) * PAGE <= event.stop + PAGE


def _parents(event: Event) -> list[int]:
    if isinstance(event, Rename):
        return [event.parent, event.new_parent]
    return [event.parent] if isinstance(event, Create | Link | Unlink) else []
