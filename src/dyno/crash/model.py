"""Draws possible states of a record's files after a power cut.

docs/explanations/power-cuts.md says what a cut may lose, with sources.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from dyno.crash import images
from dyno.crash.changes import MODELS, PAGE, SECTOR, FileChange, FileChanges
from dyno.crash.images import Files, Images, Torn
from dyno.crash.record import Record, Resize

__all__ = ["MODELS", "Replay", "State", "draws", "shrink"]
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

    def lost(self) -> list[FileChange]:
        """Returns the changes that had ended and are lost, except those of a torn page."""
        pending = self.replay.changes.pending(self.point)
        return [change for change in pending if change.end <= self.point and change.number not in self.kept]

    def build(self, directory: Path) -> None:
        """Replaces the contents of a directory by the files."""
        images.build(self.files, directory)


class Replay:
    """A record, and the rules of a model to replay it by."""

    def __init__(self, record: Record, model: str, birth: bool = False) -> None:
        self.record, self.model = record, model
        self.begins = sorted(mark.begin for mark in record.marks if mark.which == "begin")
        self.ends = sorted(mark.begin for mark in record.marks if mark.which == "end")
        self.first = self.begins[0] if self.begins and not birth else 0
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

    @cached_property
    def acknowledgements(self) -> list[int]:
        """Moments of acknowledgements at which a cut could lose something."""
        return [point for point in self.ends if point >= self.first and self.changes.pending(point)]


def draws(record: Record, model: str, seed: int, count: int, birth: bool = False) -> Iterator[State]:
    """Draws at most `count` distinct states, the same ones for the same seed and record.

    All changes before the first transaction are durable. With `birth` (and for a recovery), only the files from
    before the command are durable. Raises ValueError for an unknown model.
    """
    drawer, seen, repeats = _Drawer(Replay(record, model, birth), random.Random(seed)), set[int](), 0
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
        self._replay, self._changes, self._random = replay, replay.changes, rng
        self._turn = 0
        self._points = self._shuffled(replay.points)
        self._acknowledgements = self._shuffled(replay.acknowledgements)

    def _shuffled(self, points: list[int]) -> Iterator[int]:
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
            return self._torn(point, pending)
        return self._replay.state(point, kind.removesuffix(" up"), self._kept(kind, point, pending, ended))

    def _kept(self, kind: str, point: int, pending: list[FileChange], ended: list[FileChange]) -> set[FileChange]:
        """Returns the changes that a draw keeps. Random draws may also keep calls that had begun but not ended."""
        changes = self._changes
        if kind == "random":
            return changes.lowered(self._some(pending), point)
        if kind == "random up":
            return changes.raised(self._some(pending), point)
        if kind == "one kept":
            return changes.raised([self._random.choice(pending)], point)
        if kind == "one lost" and ended:
            lost = self._random.choice(ended)
            return changes.lowered((change for change in ended if change is not lost), point)
        return changes.lowered(ended, point)

    def _some(self, pending: list[FileChange]) -> list[FileChange]:
        """Returns a prefix of the changes and some of the rest: what was written first is usually
        written back first.
        """
        certain = self._random.choice((0, self._random.randrange(len(pending) + 1)))
        share = self._random.choice((0.2, 0.5, 0.8))
        return pending[:certain] + [change for change in pending[certain:] if self._random.random() < share]

    def _torn(self, point: int, pending: list[FileChange]) -> State:
        """Draws a state in which one page has sectors of several versions.

        In ext4 appended pages aren't torn, since the size never covers unwritten bytes.
        """
        ext4 = self._replay.model == "ext4"
        candidates = [c for c in pending if c.page is not None and not (ext4 and c.size is not None)]
        others = self._changes.lowered(self._random.choice(([], pending, self._some(pending))), point)
        if not candidates:
            return self._replay.state(point, "random", others)
        change = self._random.choice(candidates)
        page = change.page
        assert page is not None
        # Drop later changes of the page, which would overwrite the torn sectors.
        later = {c for c in others if page in c.versions and c.file == change.file and c.number > change.number}
        others = self._changes.lowered(others - later, point)
        kept = others | self._changes.raised([change], point)
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
    size = len(state.lost())
    while size and tries_left > 0:
        lost, smaller = state.lost(), None
        for at in range(0, len(lost), size):
            kept = changes.raised(
                [*lost[at : at + size], *(changes.all[number] for number in state.kept)], state.point
            )
            candidate = replace(state, kept=frozenset(change.number for change in kept))
            if len(candidate.lost()) < len(lost) and fails(candidate):
                smaller = candidate
                break
        if smaller is not None:
            state = smaller
            size = min(size, len(state.lost()))
        else:
            size //= 2
    return state
