"""Bisection by verdict: between which two versions the speed of an engine changed, and by how much.

The first and the last version are measured in turns until they are shown to differ by more than the margin. Then the
version in the middle joins them. It is on the side of the change that the midpoint of the two speeds tells: a test of
the middle against the mean of the logarithms, block by block, so that a drift of the machine affects all three alike.
The part with the change is cut in the same way, until no version is left between its ends. Their difference must
exceed the margin, too, or no version is named.

All statements of a bisection hold together with 99 %: the chance of a false one is divided among its tests. Blocks
are added until a test decides, so each test in turn divides its chance among its looks at the data. The looks become
rarer, as blocks become more.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import NamedTuple

from dyno.contracts.cell import Cell
from dyno.results import Run
from dyno.stats.compare import tables
from dyno.stats.estimate import Center, center_numbers
from dyno.stats.metric import THROUGHPUT, TIME, UNDISTURBED, Metric
from dyno.stats.summary import summarize
from dyno.stats.verdict import CONFIDENCE, blocks_needed

FIRST_LOOK = 5
"""Blocks before the first look."""
GROWTH = 1.25
"""Each look has this many times the blocks of the one before."""
TESTS_OF_STEP = 2
"""The place of the middle, and the difference of the versions that are left."""
NEAR_MIDPOINT = 0.25
"""Share of the whole difference: a middle that is shown to be closer to the midpoint than this has two equal
parts on its sides."""
DIFFERENT = "different"
ALIKE = "alike"
OPEN = "open"
EARLIER, LATER = "earlier", "later"

Logs = Mapping[str, Mapping[int, float]]
"""Logarithms of speeds by block, by version."""


class CannotMeasure(Exception):
    """A version has no number. The message says why."""

    def __init__(self, version: str, why: str) -> None:
        super().__init__(why)
        self.version = version


class Look(NamedTuple):
    number: int
    blocks: int

    def share(self, chance: float) -> float:
        """Returns the look's part of the chance. The parts of all looks add up to the whole."""
        return chance / (self.number * (self.number + 1))


def find_look(blocks: int) -> Look | None:
    """Returns the last look that this number of blocks allows; None before the first."""
    if blocks < FIRST_LOOK:
        return None
    look = Look(1, FIRST_LOOK)
    while (following := math.ceil(look.blocks * GROWTH)) <= blocks:
        look = Look(look.number + 1, following)
    return look


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of the logarithms of two speeds, the later version's less the earlier one's, with an interval."""

    center: Center
    low: float
    high: float
    blocks: int
    confidence: float

    @property
    def shown(self) -> bool:
        return self.low > 0 or self.high < 0

    def exceeds(self, margin: float) -> bool:
        """Returns whether the difference is shown to be larger than the margin."""
        least = math.log1p(margin)
        return self.low > least or self.high < -least

    def is_within(self, margin: float) -> bool:
        """Returns whether the difference is shown to be no larger than the margin."""
        return max(self.high, -self.low) <= math.log1p(margin)

    def forecast(self, clear: Callable[[float], bool]) -> int | None:
        """Returns the number of further blocks after which an interval of half this width is clear."""
        return blocks_needed(self.center, self.blocks, clear, self.confidence)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on two versions, or on the place of one between two others."""

    kind: str
    """For two versions: `different` by more than the margin, `alike`, or `open`. Of a middle version: the change is
    `earlier` or `later`, or `open`; `alike` if no single version has a change above the margin."""
    blocks: int
    difference: Difference | None = None
    """Difference of the two versions; for a middle version, of the part with the change. None before a look."""
    rest: Difference | None = None
    """Difference of the other part, if it is shown to exceed the margin: there are several changes."""
    more: int | None = None
    """If open: the number of further blocks that would decide; None if it is over a thousand."""


def count_tests(versions: int) -> int:
    """Returns the number of tests of a bisection among so many versions."""
    return 1 + TESTS_OF_STEP * math.ceil(math.log2(max(versions - 1, 1)))


def judge_ends(logs: Logs, ends: tuple[str, str], margin: float, chance: float) -> Verdict:
    """Returns the verdict on the first and the last version. `chance`: that of a false verdict."""
    first, last = (logs[name] for name in ends)
    common = sorted(first.keys() & last.keys())
    look = find_look(len(common))
    if look is None:
        return Verdict(OPEN, len(common), more=FIRST_LOOK - len(common))
    difference = _estimate([last[block] - first[block] for block in common[: look.blocks]], look, chance)
    least = math.log1p(margin)
    if difference.exceeds(margin):
        return Verdict(DIFFERENT, look.blocks, difference)
    if difference.is_within(margin):
        return Verdict(ALIKE, look.blocks, difference)
    size = abs(difference.center.log)
    more = difference.forecast(lambda half: size - half > least or size + half <= least)
    return Verdict(OPEN, look.blocks, difference, more=more)


def judge_middle(
    logs: Logs, names: tuple[str, str, str], margin: float, chance: float, last_step: tuple[bool, bool]
) -> Verdict:
    """Returns whether the change is between the first and the middle version, or between the middle and the last.
    `last_step`: for either part, whether no version is left within it, so that its difference must exceed the
    margin."""
    first, middle, last = (logs[name] for name in names)
    common = sorted(first.keys() & middle.keys() & last.keys())
    look = find_look(len(common))
    if look is None:
        return Verdict(OPEN, len(common), more=FIRST_LOOK - len(common))
    blocks = common[: look.blocks]
    earlier = _estimate([middle[block] - first[block] for block in blocks], look, chance)
    later = _estimate([last[block] - middle[block] for block in blocks], look, chance)
    off_midpoint = _estimate([middle[b] - (first[b] + last[b]) / 2 for b in blocks], look, chance)
    whole = _estimate([last[block] - first[block] for block in blocks], look, chance)
    kind = EARLIER if off_midpoint.center.log * whole.center.log > 0 else LATER
    part, rest = (earlier, later) if kind == EARLIER else (later, earlier)
    final = last_step[kind == LATER]
    near = NEAR_MIDPOINT * abs(whole.center.log)
    halves = earlier.shown and later.shown and max(off_midpoint.high, -off_midpoint.low) < near
    placed = whole.shown and (off_midpoint.shown or halves)
    other = rest if rest.exceeds(margin) else None
    if placed and final and part.is_within(margin):
        return Verdict(ALIKE, look.blocks, part, other)
    if placed and (part.exceeds(margin) if final else part.shown):
        return Verdict(kind, look.blocks, part, other)
    needed = list[int | None]()
    if not placed:
        size = abs(off_midpoint.center.log)
        needed.append(off_midpoint.forecast(lambda half: half < size or size + half < near))
    size, least = abs(part.center.log), math.log1p(margin) if final else 0.0
    needed.append(part.forecast(lambda half: size - half > least or (final and size + half <= least)))
    known = [each for each in needed if each is not None]
    return Verdict(OPEN, look.blocks, part, more=max(known) if len(known) == len(needed) else None)


def _estimate(values: Sequence[float], look: Look, chance: float) -> Difference:
    confidence = 1 - look.share(chance)
    center = center_numbers(values)
    half = center.half(confidence)
    return Difference(center, center.log - half, center.log + half, look.blocks, confidence)


# -- the search ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """Versions in the order of their releases, and the part of them that has the change."""

    versions: tuple[str, ...]
    first: int
    last: int
    left_out: frozenset[str] = frozenset()

    @property
    def ends(self) -> tuple[str, str]:
        return self.versions[self.first], self.versions[self.last]

    @property
    def middle(self) -> str | None:
        """The version nearest to the centre of the part; None if none is left between its ends."""
        within = [at for at in range(self.first + 1, self.last) if self.versions[at] not in self.left_out]
        if not within:
            return None
        return self.versions[min(within, key=lambda at: abs(2 * at - self.first - self.last))]

    def narrow(self, middle: str, kind: str) -> "Span":
        """Returns the part before the middle version, or the one after it."""
        at = self.versions.index(middle)
        if kind == EARLIER:
            return replace(self, last=at)
        return replace(self, first=at)

    def without(self, version: str) -> "Span":
        return replace(self, left_out=self.left_out | {version})


@dataclass(frozen=True, slots=True)
class Step:
    """Versions that were measured together, and the verdict: on both of two, or on the middle one of three."""

    versions: tuple[str, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Bisection:
    """The result of a bisection so far."""

    span: Span
    margin: float
    steps: tuple[Step, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Versions that can't be measured, each with the reason."""

    @property
    def kind(self) -> str:
        """`different` if the change is between the ends of the part, without a version between them that could be
        measured. `alike` if there is no change above the margin, or no single one. Else `open`."""
        kind = self.steps[-1].verdict.kind if self.steps else OPEN
        if kind in (EARLIER, LATER):
            kind = DIFFERENT
        if kind == DIFFERENT and self.span.middle is not None:
            return OPEN
        return kind

    @property
    def several(self) -> bool:
        """Whether there are several changes: both parts of a step have one, or the whole difference is shown to be
        another than that of the last step."""
        if any(step.verdict.rest is not None for step in self.steps):
            return True
        whole, found = (step.verdict.difference for step in (self.steps[0], self.steps[-1]))
        if self.kind != DIFFERENT or whole is None or found is None:
            return False
        return max(found.low - whole.high, whole.low - found.high) > math.log1p(self.margin)


Measure = Callable[[tuple[str, ...], Callable[[Logs], Verdict]], Logs]
"""Measures versions together until the verdict on the speeds isn't open, or until the time is up. Returns the speeds.
Raises CannotMeasure."""


def find_change(
    versions: Sequence[str], measure: Measure, margin: float, report: Callable[[Bisection], object] = lambda _: None
) -> Bisection:
    """Returns where the speed changed among versions in the order of their releases. `report` receives the result
    after each step. Raises CannotMeasure for the first and the last version."""
    chance = (1 - CONFIDENCE) / count_tests(len(versions))
    span = Span(tuple(versions), 0, len(versions) - 1)
    ends = span.ends

    def decide_ends(logs: Logs) -> Verdict:
        return judge_ends(logs, ends, margin, chance)

    result = Bisection(span, margin, (Step(ends, decide_ends(measure(ends, decide_ends))),))
    report(result)
    while result.steps[-1].verdict.kind not in (OPEN, ALIKE) and (middle := result.span.middle) is not None:
        result = _cut(result, middle, measure, chance)
        report(result)
    return result


def _cut(result: Bisection, middle: str, measure: Measure, chance: float) -> Bisection:
    """Returns the result after a step with this version in the middle, or without the version if it can't be
    measured."""
    span = result.span
    names = (span.ends[0], middle, span.ends[1])
    last_step = (span.narrow(middle, EARLIER).middle is None, span.narrow(middle, LATER).middle is None)

    def decide(logs: Logs) -> Verdict:
        return judge_middle(logs, names, result.margin, chance, last_step)

    try:
        verdict = decide(measure(names, decide))
    except CannotMeasure as error:
        if error.version != middle:
            raise
        return replace(result, span=span.without(middle), left_out={**result.left_out, middle: str(error)})
    if verdict.kind in (EARLIER, LATER):
        span = span.narrow(middle, verdict.kind)
    return replace(result, span=span, steps=(*result.steps, Step(names, verdict)))


# -- from run files -----------------------------------------------------------------------------------------------


def choose_metric(run: Run) -> Metric | None:
    """Returns the time of an item without waiting for a core, if all rows have it and no figure is of another kind
    than throughput or time: what other processes take is then no noise. Returns None for the phases' own metrics."""
    timed = (THROUGHPUT, TIME)
    rows = [row for row in summarize(run) if row.valid and not row.cell.floor]
    own = all(table.metric in timed for table in tables(run))
    if own and rows and all(UNDISTURBED.speed(sample) for row in rows for sample in row.samples):
        return UNDISTURBED
    return None


def read_logs(run: Run, names: Mapping[str, str], option: str, by: Metric | None = None) -> Logs:
    """Returns the logarithms of the versions' speeds by block: means over all places (phases, tiers, parameters and
    variants) where all of them have a number. `names`: the versions, by the value of the option that names them.
    `by`: the metric, or None for `choose_metric`. Raises CannotMeasure for a version without a number."""
    places = list[dict[str, Mapping[int, float]]]()
    for table in tables(run, by or choose_metric(run)):
        variants = dict[str, dict[str, Mapping[int, float]]]()
        for row, speeds in table.rows:
            others = {name: value for name, value in row.cell.options.items() if name != option}
            variants.setdefault(repr(sorted(others.items())), {})[_name(row.cell, names, option)] = speeds
        places += variants.values()
    complete = [place for place in places if place.keys() == set(names.values())]
    if not complete and run.attempts:
        _raise_missing(run, names, option)
    logs = dict[str, dict[int, float]]()
    for version in names.values():
        measured = [place[version] for place in complete]
        blocks = set.intersection(*(set(speeds) for speeds in measured)) if measured else set()
        logs[version] = {block: fmean(math.log(speeds[block]) for speeds in measured) for block in blocks}
    return logs


def _name(cell: Cell, names: Mapping[str, str], option: str) -> str:
    return names[str(cell.options[option])]


def _raise_missing(run: Run, names: Mapping[str, str], option: str) -> None:
    """Raises CannotMeasure for the first version whose rows have no number."""
    rows = [row for row in summarize(run) if not row.cell.floor]
    for version in names.values():
        own = [row for row in rows if _name(row.cell, names, option) == version]
        if not any(row.valid for row in own):
            why = next((row.why for row in own if row.why), "it has no number")
            raise CannotMeasure(version, why)
    versions = list(names.values())
    raise CannotMeasure(versions[len(versions) // 2], "it has a number in no place where the others have one")
