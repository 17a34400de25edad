"""Draws the states in which a record's files may be after the power was cut.

docs/power-cuts.md says what may be lost, with its sources.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from dyno.crash import build, explanation
from dyno.crash.changes import MODELS, PAGE, SECTOR, Change, Changes
from dyno.crash.images import File, Images, Torn
from dyno.crash.record import BEGIN, END, Node, Record, Resize

__all__ = ["MODELS", "Replay", "State", "draws", "shrink"]
_KINDS = ("drop", "random", "keep", "one lost", "random up", "one kept", "torn")
_VAIN = 200
"""Draws in a row that found nothing new: then there is hardly more."""
_SHRINKS = 200
"""States that are tried at most to make a witness smaller."""


@dataclass(frozen=True)
class State:
    """What the files hold after a cut."""

    replay: Replay
    point: int
    """The moment of the cut: what ended at it or before has happened."""
    kind: str
    """How it was drawn: 'drop', 'keep', 'random', 'one lost', 'one kept', 'torn'."""
    kept: frozenset[int]
    """Of the changes that could have been lost."""
    torn: Torn | None = None

    @property
    def acknowledged(self) -> int:
        """Transactions that were acknowledged before the power was cut."""
        return self.replay.record.header.acknowledged + bisect_right(self.replay.ends, self.point)

    @property
    def begun(self) -> int:
        """Transactions that had begun."""
        return self.replay.record.header.begun + bisect_right(self.replay.begins, self.point)

    @cached_property
    def files(self) -> dict[str, tuple[Node, File | None]]:
        """By path below the root; below the number of its root where there are several."""
        return self.replay.files(self)

    @property
    def key(self) -> tuple[object, ...]:
        """The same for two states that hold the same, with the same acknowledged and begun."""
        return self.acknowledged, self.begun, self.replay.images.key(self.files)

    def lost(self) -> list[Change]:
        """Changes that had ended, and are not there; those of a torn page are not among them."""
        pending = self.replay.changes.pending(self.point)
        return [change for change in pending if change.end <= self.point and change.number not in self.kept]

    def words(self) -> list[str]:
        """What was lost, and which flush was missing; a line for each."""
        return explanation.words(self)

    def build(self, directory: Path) -> None:
        """Makes the directory hold it: the record's one root, or those of several by number in it. What an earlier
        state left there is used again: only files that differ are written."""
        self.replay.builder(directory).build(self.files)


class Replay:
    """A record under the rules of a model."""

    def __init__(self, record: Record, model: str, birth: bool = False) -> None:
        marks = record.marks
        self.record, self.model = record, model
        self.begins = sorted(mark.begin for mark in marks if mark.which == BEGIN)
        self.ends = sorted(mark.begin for mark in marks if mark.which == END)
        first = self.begins[0] if self.begins and not birth else 0
        self.first = first
        self.changes = Changes(record, model, first)
        self.images = Images(record, self.changes)
        self._builders: dict[Path, build.Builder] = {}

    def builder(self, directory: Path) -> build.Builder:
        """That which knows what an earlier state left there."""
        place = directory.absolute()
        if place not in self._builders:
            self._builders[place] = build.Builder(self.record, place)
        return self._builders[place]

    def files(self, state: State) -> dict[str, tuple[Node, File | None]]:
        """What they hold in it."""
        kept = [self.changes.all[number] for number in state.kept]
        return self.images.files(state.point, kept, state.torn)

    def state(self, point: int, kind: str, kept: Iterable[Change], torn: Torn | None = None) -> State:
        """One in which those changes were kept."""
        return State(self, point, kind, frozenset(change.number for change in kept), torn)

    @cached_property
    def points(self) -> list[int]:
        """The moments at which a cut may find something that it would not have found before."""
        found = {self.first}
        for event in self.record.events:
            found.update((event.begin, event.end))
        last = max((event.begin for event in self.record.events), default=0)
        return sorted(point for point in found if self.first <= point <= max(last, self.first))

    @cached_property
    def acknowledgements(self) -> list[int]:
        """Moments at which a transaction was acknowledged, and something could be lost."""
        return [point for point in self.ends if point >= self.first and self.changes.pending(point)]


def draws(record: Record, model: str, seed: int, count: int, birth: bool = False) -> Iterator[State]:
    """At most `count` distinct states; the same seed and record, the same states.

    What was there when the first transaction began is taken as durable; with `birth` (and for a recovery), only what
    was there before the command was begun. Raises ValueError for a model that is none of MODELS.
    """
    replay = Replay(record, model, birth)
    drawn = _Draws(replay, random.Random(seed))
    return islice(_distinct(drawn), count)


def _distinct(drawn: _Draws) -> Iterator[State]:
    seen: set[int] = set()
    vain = 0
    while vain < _VAIN:
        state = drawn.state()
        key = hash(state.key)
        if key in seen:
            vain += 1
            continue
        seen.add(key)
        vain = 0
        yield state


class _Draws:
    """States one after the other, of all kinds in turn."""

    def __init__(self, replay: Replay, chance: random.Random) -> None:
        self._replay, self._changes, self._random = replay, replay.changes, chance
        self._turn = 0
        self._points = self._shuffled(replay.points)
        self._acknowledged = self._shuffled(replay.acknowledgements)

    def _shuffled(self, points: list[int]) -> Iterator[int]:
        """All of them in a new order, again and again."""
        while points:
            yield from self._random.sample(points, len(points))

    def state(self) -> State:
        kind = _KINDS[self._turn % len(_KINDS)]
        point = None
        # Where nothing else was told so often as an acknowledgement that came too early.
        if self._turn % 4 == 3:
            point = next(self._acknowledged, None)
            kind = _KINDS[self._turn // 4 % 2]
        self._turn += 1
        return self._drawn(kind, next(self._points) if point is None else point)

    def _drawn(self, kind: str, point: int) -> State:
        pending = self._changes.pending(point)
        ended = [change for change in pending if change.end <= point]
        if kind == "drop" or not pending:
            return self._replay.state(point, "drop" if ended else "keep", ())
        if kind == "torn":
            return self._torn(point, pending)
        return self._replay.state(point, kind.removesuffix(" up"), self._kept(kind, point, pending, ended))

    def _kept(self, kind: str, point: int, pending: list[Change], ended: list[Change]) -> set[Change]:
        """A random draw also takes calls that had begun: nobody knows how far they had come."""
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

    def _some(self, pending: list[Change]) -> list[Change]:
        """What is written back first is mostly what was written first."""
        certain = self._random.choice((0, self._random.randrange(len(pending) + 1)))
        share = self._random.choice((0.2, 0.5, 0.8))
        return pending[:certain] + [change for change in pending[certain:] if self._random.random() < share]

    def _torn(self, point: int, pending: list[Change]) -> State:
        """One page has sectors of several versions. What appends is not torn where the size never covers what was not
        written."""
        ext4 = self._replay.model == "ext4"
        able = [change for change in pending if change.page is not None and not (ext4 and change.size is not None)]
        others = self._changes.lowered(self._random.choice(([], pending, self._some(pending))), point)
        if not able:
            return self._replay.state(point, "random", others)
        change = self._random.choice(able)
        assert change.page is not None
        # The others of the page only as far as it is torn.
        later = {
            c for c in others if change.page in c.versions and c.file == change.file and c.number > change.number
        }
        others = self._changes.lowered(others - later, point)
        kept = others | self._changes.raised([change], point)
        low, high = self._least(change, kept, point, ext4), change.versions[change.page]
        sectors = PAGE // SECTOR
        how = self._random.choice(("head", "tail", "each"))
        cut = self._random.randrange(1, sectors)
        if how == "each":
            versions = [self._random.randint(low, high) for _ in range(sectors)]
        else:
            versions = [high if (at < cut) == (how == "head") else low for at in range(sectors)]
        return self._replay.state(point, "torn", kept, (change.file, change.page, tuple(versions)))

    def _least(self, change: Change, kept: set[Change], point: int, ext4: bool) -> int:
        """The version that each of the page's sectors has at least."""
        assert change.page is not None
        low = self._replay.images.page(change.file, change.page).durable(point)
        for other in kept:
            if other.file != change.file or other.size is None or other.number > change.number:
                continue
            if ext4 or isinstance(other.event, Resize):
                low = max(low, other.versions.get(change.page, -1))
        return low


# -- the smallest witness --------------------------------------------------------------------------------------


def shrink(record: Record, state: State, still_fails: Callable[[State], bool]) -> State:
    """A state of the same cut that still fails, and has lost as little as could be found; at most 200 are tried."""
    replay, left = state.replay, _SHRINKS
    assert replay.record is record

    def tried(smaller: State) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and still_fails(smaller)

    if state.torn is not None and tried(whole := replace(state, torn=None)):
        state = whole
    # What had not ended need not be there, if it fails without.
    ended = {change.number for change in replay.changes.pending(state.point) if change.end <= state.point}
    if state.torn is None and not state.kept <= ended and tried(without := replace(state, kept=state.kept & ended)):
        state = without
    size = len(state.lost())
    while size and left > 0:
        lost, smaller = state.lost(), None
        for at in range(0, len(lost), size):
            wanted = _with(state, lost[at : at + size])
            if len(wanted.lost()) < len(lost) and tried(wanted):
                smaller = wanted
                break
        if smaller is not None:
            state = smaller
            size = min(size, len(state.lost()))
        else:
            size //= 2
    return state


def _with(state: State, found: list[Change]) -> State:
    """That in which these are kept too, and what they need."""
    kept = {*found, *(state.replay.changes.all[number] for number in state.kept)}
    raised = state.replay.changes.raised(kept, state.point)
    return replace(state, kept=frozenset(change.number for change in raised))
