"""Draws possible states of a record's files after a power cut, and explains what they lost.

docs/explanations/power-cuts.md says what a cut may lose, with sources.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from dyno.crash import images
from dyno.crash.changes import MODELS, PAGE, SECTOR, FileChange, FileChanges, slots
from dyno.crash.images import Files, Images, Torn
from dyno.crash.record import CrashRecord, Create, Flush, Hint, Link, Rename, Resize, Unlink, Write

__all__ = ["MODELS", "Replay", "State", "draws", "explain", "shrink"]
_KINDS = ("drop", "random", "keep", "one lost", "random up", "one kept", "torn")
MOST_REPEATS = 200
"""Drawing stops after this many consecutive draws without a new state."""
MOST_SHRINKS = 200
"""Maximum number of states tried to make a witness smaller."""


@dataclass(frozen=True)
class State:
    """A possible state of the files after a cut."""

    replay: Replay
    point: int
    """Moment of the cut. Calls that ended at this moment or before have happened."""
    kind: str
    """The way it was drawn: 'drop', 'keep', 'random', 'one lost', 'one kept' or 'torn'."""
    kept: frozenset[int]
    """Numbers of the changes that were kept, among those that could have been lost."""
    torn: Torn | None = None

    @property
    def acknowledged(self) -> int:
        """Number of transactions that were acknowledged before the cut."""
        return self.replay.record.acknowledged + bisect_right(self.replay.ends, self.point)

    @property
    def begun(self) -> int:
        """Number of transactions that had begun before the cut."""
        return self.replay.record.begun + bisect_right(self.replay.begins, self.point)

    @cached_property
    def files(self) -> Files:
        kept = [self.replay.changes.all[number] for number in self.kept]
        return self.replay.images.files(self.point, kept, self.torn)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for states with equal files and equal numbers of acknowledged and begun transactions."""
        return self.acknowledged, self.begun, self.replay.images.key(self.files)

    def lost_changes(self) -> list[FileChange]:
        """Returns the changes that had ended and are lost, except those of a torn page."""
        pending = self.replay.changes.pending(self.point)
        return [change for change in pending if change.end <= self.point and change.number not in self.kept]

    def build(self, directory: Path) -> None:
        """Replaces the contents of a directory by the files."""
        images.build(self.files, directory)


class Replay:
    """A record, and the rules of a model to replay it by."""

    def __init__(self, record: CrashRecord, model: str, birth: bool = False) -> None:
        self.record, self.model = record, model
        self.begins = sorted(mark.begin for mark in record.marks if mark.which == "begin")
        self.ends = sorted(mark.begin for mark in record.marks if mark.which == "end")
        if self.begins and not birth:
            self.first = self.begins[0]
        else:
            self.first = 0
        """Earliest possible moment of a cut."""
        self.changes = FileChanges(record, model, self.first)
        self.images = Images(record, self.changes)

    def state(self, point: int, kind: str, kept: Iterable[FileChange], torn: Torn | None = None) -> State:
        return State(self, point, kind, frozenset(change.number for change in kept), torn)

    @cached_property
    def points(self) -> list[int]:
        """Moments at which a cut may have a new result: the beginnings and ends of all calls."""
        points = {self.first}
        for event in self.record.events:
            points.update((event.begin, event.end))
        last = max((event.begin for event in self.record.events), default=0)
        return sorted(point for point in points if self.first <= point <= max(last, self.first))


def draws(record: CrashRecord, model: str, seed: int, count: int, birth: bool = False) -> Iterator[State]:
    """Draws at most `count` distinct states, the same ones for the same seed and record.

    All changes before the first transaction are durable. With `birth` (and for a recovery), only the files from
    before the command are durable. Raises ValueError for an unknown model.
    """
    drawer = _Drawer(Replay(record, model, birth), random.Random(seed))
    seen = set[int]()
    repeats = 0
    while len(seen) < count and repeats < MOST_REPEATS:
        state = drawer.state()
        repeats += 1
        if (key := hash(state.key)) not in seen:
            seen.add(key)
            repeats = 0
            yield state


class _Drawer:
    """Draws states of all kinds in turn."""

    def __init__(self, replay: Replay, rng: random.Random) -> None:
        self._replay = replay
        self._changes = replay.changes
        self._random = rng
        self._turn = 0
        self._points = self._repeat_shuffled(replay.points)
        # Moments of acknowledgements at which a cut could lose something.
        ends = [point for point in replay.ends if point >= replay.first and replay.changes.pending(point)]
        self._acknowledgements = self._repeat_shuffled(ends)

    def _repeat_shuffled(self, points: list[int]) -> Iterator[int]:
        """Yields all points in random order, and repeats that without end."""
        while points:
            yield from self._random.sample(points, len(points))

    def state(self) -> State:
        kind = _KINDS[self._turn % len(_KINDS)]
        point = None
        # Early acknowledgement is the most frequent fault, so a quarter of all cuts come right after one.
        if self._turn % 4 == 3:
            point = next(self._acknowledgements, None)
            kind = _KINDS[self._turn // 4 % 2]
        self._turn += 1
        if point is None:
            point = next(self._points)
        pending = self._changes.pending(point)
        ended = [change for change in pending if change.end <= point]
        if kind == "drop" or not pending:
            return self._replay.state(point, "drop" if ended else "keep", ())
        if kind == "torn":
            return self._draw_torn_state(point, pending)
        return self._replay.state(
            point, kind.removesuffix(" up"), self._draw_kept_changes(kind, point, pending, ended)
        )

    def _draw_kept_changes(
        self, kind: str, point: int, pending: list[FileChange], ended: list[FileChange]
    ) -> set[FileChange]:
        """Returns the changes that a draw keeps. Random draws may also keep calls that had begun but not ended."""
        changes = self._changes
        if kind == "random":
            return changes.drop_unmet_changes(self._draw_changes(pending), point)
        if kind == "random up":
            return changes.add_needed_changes(self._draw_changes(pending), point)
        if kind == "one kept":
            return changes.add_needed_changes([self._random.choice(pending)], point)
        if kind == "one lost" and ended:
            lost = self._random.choice(ended)
            return changes.drop_unmet_changes((change for change in ended if change is not lost), point)
        return changes.drop_unmet_changes(ended, point)

    def _draw_changes(self, pending: list[FileChange]) -> list[FileChange]:
        """Returns a prefix of the changes and some of the rest, since they are usually written back in order."""
        certain = self._random.choice((0, self._random.randrange(len(pending) + 1)))
        share = self._random.choice((0.2, 0.5, 0.8))
        return pending[:certain] + [change for change in pending[certain:] if self._random.random() < share]

    def _draw_torn_state(self, point: int, pending: list[FileChange]) -> State:
        """Draws a state in which one page has sectors of several versions.

        In ext4 appended pages aren't torn, since the size never covers unwritten bytes.
        """
        ext4 = self._replay.model == "ext4"
        candidates = [c for c in pending if c.page is not None and not (ext4 and c.size is not None)]
        others = self._changes.drop_unmet_changes(
            self._random.choice(([], pending, self._draw_changes(pending))), point
        )
        if not candidates:
            return self._replay.state(point, "random", others)
        change = self._random.choice(candidates)
        page = change.page
        assert page is not None
        # Drop later changes of the page, which would overwrite the torn sectors.
        later = {c for c in others if page in c.versions and c.file == change.file and c.number > change.number}
        others = self._changes.drop_unmet_changes(others - later, point)
        kept = others | self._changes.add_needed_changes([change], point)
        # Lower bound of each sector's version: the durable version, and versions that a kept size depends on.
        low, high = self._replay.images.page(change.file, page).durable(point), change.versions[page]
        for other in kept:
            if other.file != change.file or other.size is None or other.number > change.number:
                continue
            if ext4 or isinstance(other.event, Resize):
                low = max(low, other.versions.get(page, -1))
        sectors = PAGE // SECTOR
        how = self._random.choice(("head", "tail", "each"))
        cut = self._random.randrange(1, sectors)
        if how == "each":
            versions = [self._random.randint(low, high) for _ in range(sectors)]
        else:
            versions = [high if (at < cut) == (how == "head") else low for at in range(sectors)]
        return self._replay.state(point, "torn", kept, (change.file, page, tuple(versions)))


def shrink(state: State, still_fails: Callable[[State], bool]) -> State:
    """Returns a failing state of the same cut with as few lost changes as MOST_SHRINKS tries can find."""
    changes, tries_left = state.replay.changes, MOST_SHRINKS

    def fails(smaller: State) -> bool:
        nonlocal tries_left
        tries_left -= 1
        return tries_left >= 0 and still_fails(smaller)

    if state.torn is not None and fails(whole := replace(state, torn=None)):
        state = whole
    # Drop the changes that hadn't ended, unless the state then no longer fails.
    ended = {change.number for change in changes.pending(state.point) if change.end <= state.point}
    if state.torn is None and not state.kept <= ended and fails(without := replace(state, kept=state.kept & ended)):
        state = without
    size = len(state.lost_changes())
    while size and tries_left > 0:
        lost, smaller = state.lost_changes(), None
        for at in range(0, len(lost), size):
            kept = changes.add_needed_changes(
                [*lost[at : at + size], *(changes.all[number] for number in state.kept)], state.point
            )
            candidate = replace(state, kept=frozenset(change.number for change in kept))
            if len(candidate.lost_changes()) < len(lost) and fails(candidate):
                smaller = candidate
                break
        if smaller is not None:
            state = smaller
            size = min(size, len(state.lost_changes()))
        else:
            size //= 2
    return state


# -- explanation of a state ---------------------------------------------------------------------------------

MOST_LINES = 12


def explain(state: State) -> list[str]:
    """Returns a line for each lost change. Changes of the same kind share a line, and lines beyond MOST_LINES are
    only counted."""
    paths, lines = Paths(state.replay.record), list[str]()
    if state.torn is not None:
        file, page, versions = state.torn
        newest = [str(sector) for sector, version in enumerate(versions) if version == max(versions)]
        lines.append(
            f"page {page} of {paths.file(file)} (bytes {page * PAGE} to {(page + 1) * PAGE}) is torn: "
            f"sectors {', '.join(newest)} of its 8 are newer than the others"
        )
    groups: dict[tuple[str, str], list[list[FileChange]]] = {}
    for _, group in groupby(state.lost_changes(), key=lambda change: id(change.event)):
        changes = list(group)
        why = _missing_flush(state.replay.record, changes[-1], state.point, paths)
        # Changes of names aren't grouped, since their order matters.
        if isinstance(changes[0].event, Write):
            what = paths.file(changes[0].file)
        else:
            what = str(len(groups))
        groups.setdefault((what, why), []).append(changes)
    for (_, why), events in groups.items():
        lines.append(f"{_describe(events, paths)} {'was' if len(events) == 1 else 'were'} lost: {why}")
    if not lines:
        lines.append("nothing that had ended was lost")
    more = len(lines) - MOST_LINES
    if more > 1:
        return [*lines[:MOST_LINES], f"and {more} more"]
    return lines


class Paths:
    """The first name of each file in a record."""

    def __init__(self, record: CrashRecord) -> None:
        self._names: dict[int | None, tuple[int, str]] = {}
        for node in record.nodes:
            self._names.setdefault(node.number, (node.parent, node.name))
        for event in record.events:
            # A file of O_TMPFILE has no name before it is linked.
            if isinstance(event, Create | Link) and event.parent >= 0:
                self._names.setdefault(event.file, (event.parent, event.name))

    def file(self, number: int | None) -> str:
        """Returns the path of a file below its root; '.' for a root."""
        parent, name = self._names.get(number, (-1, ""))
        if parent < 0:
            return "."
        return self.name(parent, name)

    def name(self, parent: int, name: str) -> str:
        directory = self.file(parent)
        if directory == ".":
            return name
        return f"{directory}/{name}"


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
    size = ""
    if any(change.size is not None for change in changes):
        size = ", with its size,"
    if len(events) == 1:
        return f"a write of {sum(len(change.data) for change in parts)} bytes at {starts[0]} {where}{size}"
    end = max(start + len(change.data) for start, change in zip(starts, parts, strict=True))
    return f"{len(events)} writes between {min(starts)} and {end} {where}{size}"


def _missing_flush(record: CrashRecord, change: FileChange, point: int, paths: Paths) -> str:
    """Returns why the change was not durable: its flush was missing, late or early, or flushed another file."""
    what = paths.file(change.file)
    if change.is_name:
        directories = dict.fromkeys(paths.file(parent) for parent, _ in slots(change.event))
        what = "the directory " + " or ".join("that it is in" if path == "." else path for path in directories)
    after = [event for event in record.events if isinstance(event, Flush | Hint) and event.begin > change.begin]
    own = [event for event in after if isinstance(event, Flush) and _covers(event, change)]
    if early := next((event for event in own if event.begin <= change.end), None):
        return f"{_add_article(early)} of {what} began before it had ended"
    if running := next((event for event in own if event.begin <= point < event.end), None):
        return f"{_add_article(running)} of {what} had begun, but not ended"
    text = f"no flush of {what} came before the cut"
    before = [event for event in after if event.begin <= point]
    if hint := next((event for event in before if isinstance(event, Hint) and event.file == change.file), None):
        text += f" ({hint.call} is none)"
    elif other := next((event for event in before if isinstance(event, Flush) and event not in own), None):
        text += f", but {_add_article(other)} of {paths.file(other.file)}"
    later = next((event for event in own if event.begin > point), None)
    return text + (f"; {_add_article(later)} came later" if later else "; nor did any come later")


def _add_article(event: Flush) -> str:
    return f"{'a' if event.call.startswith('sync') else 'an'} {event.call}"


def _covers(event: Flush, change: FileChange) -> bool:
    if event.file is None:
        return True
    if change.is_name:
        return any(parent == event.file for parent, _ in slots(change.event))
    if change.page is None or event.stop is None:
        return event.file == change.file
    return event.file == change.file and event.start < (change.page + 1) * PAGE <= event.stop + PAGE
