"""Leagues of a site, one for each suite: on how many machines one engine is faster than another, in words.

The sentences of every choice of machine and year are computed when the site is built, and the page only looks them
up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from dyno.contracts.model import TIERS
from dyno.report.site.data import Entry
from dyno.report.tables import display, notes, units
from dyno.results import Run
from dyno.stats.hardware import hardware
from dyno.stats.league import MOST_PAIRS, Pair, Result, Standing, Work, count, verdicts
from dyno.stats.metric import THROUGHPUT
from dyno.stats.summary import group_values
from dyno.stats.verdict import MARGIN

FEWEST_RUNS = 2
"""Minimum number of runs of a league."""
MOST_ROWS = 5_000
"""Maximum number of rows of a page."""
UNKNOWN_YEAR = "unknown"


@dataclass(frozen=True)
class League:
    """The page of a suite."""

    suite: str
    sections: list[tuple[str, str, list[dict[str, object]]]]
    """A table for each tier: the tier's name, which is empty if nothing is stored, its heading, and its rows."""
    choices: dict[str, list[str]]
    """Values of the filters."""
    remarks: list[str]
    """Sentences on what is left out."""
    data: dict[str, object]
    """For each row the numbers of its texts, by the positions of machine and year in their filters (0: all)."""


class Leagues:
    """Collects the verdicts of runs one by one."""

    def __init__(self) -> None:
        self._results: dict[Pair, list[Result]] = {}
        self._runs: dict[str, int] = {}
        self._large: set[str] = set()
        self._marks: set[object] = set()

    def includes(self, run: Run) -> bool:
        """Returns whether this run was added, perhaps from another file: a run file and its bundle have the same
        measurements."""
        return _mark(run) in self._marks

    def add(self, run: Run, entry: Entry) -> None:
        """Adds a run, unless it is there already."""
        if self.includes(run):
            return
        self._marks.add(_mark(run))
        of_run = verdicts(run)
        machine, year = machine_name(run), entry.created[:4] or UNKNOWN_YEAR
        for pair, verdict in of_run.items():
            self._results.setdefault(pair, []).append(Result(machine, year, verdict))
        self._runs[entry.suite] = self._runs.get(entry.suite, 0) + bool(of_run)
        if len(of_run) == MOST_PAIRS:
            self._large.add(entry.suite)

    def leagues(self) -> Iterator[League]:
        """Yields the league of each suite of which several runs compare engines."""
        for suite in sorted(suite for suite, runs in self._runs.items() if runs >= FEWEST_RUNS):
            yield self._league(suite)

    def _league(self, suite: str) -> League:
        of_suite = {pair: of for pair, of in self._results.items() if pair[0].suite == suite}
        place = {work: at for at, work in enumerate(dict.fromkeys(work for work, _, _ in of_suite))}
        phases = {phase: at for at, phase in enumerate(dict.fromkeys(work.phase for work in place))}
        changing = _varying_params(list(place))
        pairs = sorted(
            of_suite,
            key=lambda pair: (TIERS.index(pair[0].tier), phases[pair[0].phase], place[pair[0]], pair[1:]),
        )
        pairs, rest = display.take_first(
            pairs, MOST_ROWS, "comparisons", "build a site of fewer runs to see the others"
        )
        machines, years = (
            sorted({getattr(result, name) for pair in pairs for result in of_suite[pair]})
            for name in ("machine", "year")
        )
        machine_number, year_number = (
            {name: number for number, name in enumerate(["", *values])} for values in (machines, years)
        )
        texts, rows = dict[tuple[str, ...], int](), list[dict[str, int]]()
        sections: dict[str, list[dict[str, object]]] = {}
        for at, pair in enumerate(pairs):
            work, *engines = pair
            by_choice = group_values(
                (f"{machine_number[machine]} {year_number[year]}", result)
                for result in of_suite[pair]
                for machine, year in product(("", result.machine), ("", result.year))
            )
            said = {choice: _texts(engines, count(of)) for choice, of in by_choice.items()}
            rows.append({choice: texts.setdefault(text, len(texts)) for choice, text in said.items()})
            row = {"at": at, "engines": engines, "place": _place(work, changing), "texts": said["0 0"]}
            sections.setdefault(work.tier.value if work.tier else "", []).append(row)
        if suite in self._large:
            left_out = f"Of a run, only the first {MOST_PAIRS:,} comparisons are counted."
        else:
            left_out = ""
        return League(
            suite,
            [(tier, display.tier(tier), of) for tier, of in sections.items()],
            {
                "engine": sorted({engine for _, *engines in pairs for engine in engines}),
                "tier": [tier for tier in sections if tier],
                "machine": machines,
                "year": years,
            },
            [remark for remark in (rest, left_out) if remark],
            {"texts": list(texts), "rows": rows},
        )


def _mark(run: Run) -> object:
    """Returns the exact times of the first trial, by which a run is recognised, also if one of its files has further
    trials."""
    first = next((attempt for attempt in run.attempts if attempt.samples), None)
    times = first and tuple((sample.phase, sample.items, sample.elapsed_ns) for sample in first.samples)
    return run.plan.suite, first and (first.cell, first.duration_ns), times


def machine_name(run: Run) -> str:
    """Returns processor, number of usable cores and memory."""
    machine = hardware(run)
    number = "?"
    if machine.cores:
        number = f"{machine.cores:g}"
    return f"{machine.processor or 'unknown CPU'}, {number} cores, {units.size(machine.memory_bytes)} of memory"


def _varying_params(works: Sequence[Work]) -> list[str]:
    """Returns the parameters that differ between works."""
    values = group_values((name, value) for work in works for name, value in work.params)
    return [name for name, of in values.items() if len(set(of)) > 1 or len(of) < len(works)]


def _place(work: Work, changing: Sequence[str]) -> str:
    """Returns 'get, clients=4, by p99 of the response time'."""
    return display.join_parts(
        work.phase,
        units.params({name: value for name, value in work.params if name in changing}),
        "" if work.metric is THROUGHPUT else f"by {work.metric.title}",
        f"under {', '.join(work.limits)}" if work.limits else "",
        f"as reported by {work.reported_by}" if work.reported_by else "",
        notes.AWAKE if work.awake else "",
        f"definition {work.definition}" if work.definition else "",
    )


def _texts(engines: Sequence[str], of: Standing) -> tuple[str, str, str]:
    """Returns the sentence on a pair, and the texts of the columns `undecided` and `repeated`."""
    machines = f"{of.machines} machine{'s' * (of.machines != 1)}"
    runs = f"{of.runs} run{'s' * (of.runs != 1)} on {machines}"
    return _sentence(engines, of, machines), f"{of.undecided} of {of.machines}", runs


def _sentence(engines: Sequence[str], of: Standing, machines: str) -> str:
    """Returns 'lmdb is faster than leveldb on 7 of 8 machines, 1.213 to 1.604 times'."""
    sides = zip(engines, (of.faster, of.slower), strict=True)
    (one, faster), (other, slower) = sorted(sides, key=lambda side: -len(side[1]))
    alike = f"no difference over {MARGIN * 100:g} % on {of.alike}"
    if not faster:
        names = f"{one} and {other}"
        if of.alike:
            return f"{names}: {alike} of {machines}"
        return f"no clear winner between {names}"
    parts = [f"{one} is faster than {other} on {len(faster)} of {machines}, {_times(faster)}"]
    parts += [f"{other} is faster on {len(slower)}, {_times(slower)}"] if slower else []
    return "; ".join(parts + [alike] * bool(of.alike))


def _times(ratios: Sequence[float]) -> str:
    low, high = units.ratio(min(ratios)), units.ratio(max(ratios))
    if low == high:
        return f"{low} times"
    return f"{low} to {high} times"
