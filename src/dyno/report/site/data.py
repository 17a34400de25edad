"""Data of a site: the entry of each run in its list, and for the pages that compare runs the figures of each row, the
verdicts on pairs of runs, and the history of each cell.

All data is computed when the site is built, and the pages only look it up. Values that many runs share (places,
facts, remarks, texts) are stored once, and are referred to by number.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from statistics import median
from typing import TypeVar
from urllib.parse import urlencode

from dyno.contracts.value_types import JsonObject
from dyno.report.page import payload
from dyno.report.tables import notes, units, wording
from dyno.report.tables.table import Row, groups, varying_params
from dyno.results import Run
from dyno.stats.drift import SpeedsOfTwoRuns, estimate_drift
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.history import FEWEST_RUNS, judge_changes
from dyno.stats.metric import BANDWIDTH, RESPONSE, THROUGHPUT, TYPICAL_RESPONSE, choose_metric, speeds
from dyno.stats.summary import group_values, summarize
from dyno.stats.two_runs import alternate, block_starts, compare_speeds, facts
from dyno.stats.verdict import MARGIN, Verdict

MOST_VERDICTS = 250_000
"""Maximum number of verdicts of all pairs of runs together, about 15 s of work and 3 MB of data. Pairs of older runs
are left out."""
BYTES = "B"
"""Unit of rows that are compared by their bandwidth."""
H = TypeVar("H", bound=Hashable)
UNCHANGED = "Its speed did not change from one part of the runs to the next, on any machine."
NO_STEP = "No run differs from the one before it on the same machine."


@dataclass(frozen=True)
class Entry:
    """A run in the list."""

    name: str
    page: str
    """Path of the page in the site."""
    suite: str
    created: str
    """Time in UTC, in the format of ISO 8601; empty if unknown."""
    engines: tuple[str, ...]
    tiers: tuple[str, ...]
    trials: str
    machine: str
    """Description of the machine, without facts that an update changes, so that runs of the same machine have the
    same text."""
    system: str
    dyno: str
    answer: str
    """The headline of the run's answer."""
    incomplete: str
    awake: bool
    """Whether the cores were kept awake."""
    commit: str
    """Short hash of the commit; empty if unknown."""

    @property
    def day(self) -> str:
        return self.created.replace("T", " ")[:16] or units.UNKNOWN


def entry(run: Run, name: str, page: str | None = None) -> Entry:
    """Returns the run's entry. `page`: name of its page, if it differs from the run's."""
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    answers = wording.answers(run)
    if answers:
        answer = answers[0].partition(". ")[0].removesuffix(".")
    else:
        answer = ""
    system = run.header.host.system
    parts = (system.kernel and f"kernel {system.kernel}", system.os)
    created = ""
    if run.header.created is not None:
        time = datetime.fromisoformat(run.header.created)
        created = time.astimezone(timezone.utc).isoformat(timespec="seconds")
    return Entry(
        name=name,
        page=f"runs/{page or name}.html",
        suite=run.plan.suite,
        created=created,
        engines=tuple(notes.engines(run)),
        tiers=tuple(dict.fromkeys(cell.tier_name for cell in cells if cell.tier_name)),
        trials=units.count(run.blocks),
        machine=notes.machine(run),
        system=", ".join(filter(None, parts)) or units.UNKNOWN,
        dyno=run.header.dyno or units.UNKNOWN,
        answer=f"{answer or 'No engine has a valid figure: there is no answer'}.",
        incomplete=notes.describe_progress(run),
        awake=run.plan.awake,
        commit=run.commit or "",
    )


@dataclass(frozen=True)
class _Row:
    """A row of a run."""

    place: int
    unit: str
    version: str | None
    trials: int
    paced: bool
    """Whether it was measured by an open loop, and so is compared by its response time."""
    throughput: Mapping[int, float]
    """Items or bytes per second, by block."""
    response: Mapping[int, float]
    """1 / p99 of the response time in ns, by block. Empty unless paced."""
    figure: Estimate | None
    """Estimate of the throughput, or if paced of the response time in ns. None for an invalid row."""
    rate_text: str
    median_text: str
    interval_text: str
    why: str | None
    """Why the row is invalid."""
    remarks: list[int]

    def data(self) -> dict[str, object]:
        return {
            "place": self.place,
            "paced": self.paced,
            "throughput": self.rate_text,
            "response": self.median_text if self.paced else units.UNKNOWN,
            "why": self.why,
            "remarks": self.remarks,
        }


@dataclass(frozen=True)
class _SiteRun:
    entry: Entry
    varying: list[str]
    facts: list[int]
    starts: Mapping[int, datetime]
    """Start of each block."""
    rows: dict[int, _Row]
    """Rows by place."""
    drifts: dict[str, float] = field(default_factory=dict)
    """Drift that this run and an earlier one show together, by the earlier one's name."""


@dataclass
class _Point:
    """A run in the history of a place."""

    run: _SiteRun
    row: _Row
    drawn: bool
    before: _SiteRun | None = None
    """The run before this one on the same machine."""
    verdict: Verdict | None = None
    """Verdict on this run compared with the run before."""
    step: str | None = None
    """'faster' or 'slower' if the speed changed with this run."""
    step_text: str = ""

    def data(self, number: Mapping[str, int]) -> dict[str, object]:
        row, figure = self.row, self.row.figure
        if figure is None:
            numbers = []
        else:
            numbers = [figure.median, figure.low, figure.high]
        return {
            "run": number[self.run.entry.name],
            "drawn": self.drawn,
            "numbers": [None if n is None else float(f"{n:.10g}") for n in numbers] or None,
            "figure": row.median_text,
            "interval": row.interval_text,
            "unit": "time" if row.paced else row.unit,
            "trials": units.count(row.trials),
            "version": row.version or units.UNKNOWN,
            "why": row.why or "no figure",
            "remarks": row.remarks,
            "before": None if self.before is None else number[self.before.entry.name],
            "verdict": None if self.verdict is None else [self.verdict.kind, wording.verdict(self.verdict)],
            "step": self.step,
        }


class Collection:
    """Collects runs one by one. `compare` and `history` return the data of the pages of these names."""

    def __init__(self) -> None:
        self._runs: list[_SiteRun] = []
        """The newest first."""
        self._places: dict[str, int] = {}
        self._facts: dict[tuple[str, str, Hashable], int] = {}
        self._remarks: dict[str, int] = {}

    def add(self, run: Run, entry: Entry) -> None:
        by_summary = {(id(row.summary.cell), row.summary.phase): row for group in groups(run) for row in group.rows}
        of = [by_summary[id(summary.cell), summary.phase] for summary in summarize(run) if not summary.cell.floor]
        rows = {row.place: row for row in (self._row(row, entry) for row in of)}
        # A missing fact is unknown: if only one of two runs has a fact, it is compared with "unknown".
        known = ((where, what, _frozen(v)) for (where, what), v in facts(run).items() if v is not None)
        numbers = [_number(self._facts, fact) for fact in known]
        self._runs.append(_SiteRun(entry, list(varying_params(run)), numbers, block_starts(run), rows))
        self._runs.sort(key=lambda run: run.entry.created, reverse=True)

    def units(self) -> list[str]:
        """Returns the units of all rows."""
        return sorted({row.unit for run in self._runs for row in run.rows.values()})

    def compare(self) -> dict[str, object]:
        runs, fact_texts = (
            self._runs,
            [(where, what, payload.format_by_unit(what, v)) for where, what, v in self._facts],
        )
        counts = Counter(fact_texts)
        verdicts = dict[Hashable, int]()
        texts = dict[str, int]()
        pairs = JsonObject()
        number = {run.entry.name: at for at, run in enumerate(runs)}
        for before, after in self._pairs():
            paired = alternate(before.starts, after.starts)
            drift = _drift(before, after)
            numbers = list[int]()
            for place, old in before.rows.items():
                new = after.rows.get(place)
                if new is None or old.why is not None or new.why is not None:
                    continue
                if (verdict := _verdict(old, new, paired, drift)) is None:
                    numbers += [-1, -1, -1]
                    continue
                numbers.append(_number(verdicts, (verdict.kind, wording.verdict(verdict))))
                numbers += [_number(texts, wording.point(verdict)), _number(texts, wording.interval(verdict))]
            pairs[f"{number[before.entry.name]} {number[after.entry.name]}"] = [paired, numbers]
        return {
            **self._common_data(),
            "varying": [run.varying for run in runs],
            "run_facts": [run.facts for run in runs],
            "level": wording.LEVEL,
            "margin": f"{MARGIN * 100:g} %",
            "response": RESPONSE.title,
            # Different values with the same text are written in full.
            "facts": [
                text if counts[text] == 1 else (text[0], text[1], str(value))
                for text, (_, _, value) in zip(fact_texts, self._facts, strict=True)
            ],
            "rows": [[row.data() for row in run.rows.values()] for run in runs],
            "pairs": pairs,
            "verdicts": list(verdicts),
            "texts": list(texts),
        }

    def history(self) -> dict[str, object]:
        number = {run.entry.name: at for at, run in enumerate(self._runs)}
        histories = {at: _points(self._runs, at) for at in self._places.values()}
        data = []
        for points in histories.values():
            drawn = Counter(point.run.entry.machine for point in points if point.drawn)
            of_place = {
                "points": [point.data(number) for point in points],
                "steps": [[at, point.step_text] for at, point in enumerate(points) if point.step],
                # The sentence of a history without a marked step.
                "unchanged": UNCHANGED if max(drawn.values(), default=0) >= FEWEST_RUNS else NO_STEP,
            }
            data.append(of_place)
        # The page shows the first place of this order, the one that most runs have.
        order = sorted(histories, key=lambda at: -len(histories[at]))
        return {**self._common_data(), "order": order, "histories": data}

    def _common_data(self) -> dict[str, object]:
        """Returns runs, places (with their values as texts and the address of their history), and remarks."""
        places = []
        for place in map(json.loads, self._places):
            params = {name: str(value) for name, value in place["params"].items()}
            words = {name: place[name] or "" for name in ("suite", "phase", "engine", "tier")}
            link = urlencode({**words, **{f"p.{name}": value for name, value in params.items()}})
            places.append({**words, "params": params, "link": f"history.html#{link}"})
        runs = [{**asdict(run.entry), "day": run.entry.day} for run in self._runs]
        return {"runs": runs, "places": places, "remarks": list(self._remarks)}

    def _pairs(self) -> Iterator[tuple[_SiteRun, _SiteRun]]:
        """Yields pairs of runs with rows in common, as before and after. These are all pairs of the newest runs, and
        the pairs to which histories link, each a run and the run before it."""
        left, pairs = MOST_VERDICTS, dict[tuple[str, str], tuple[_SiteRun, _SiteRun]]()
        for at, run in enumerate(self._runs):
            if left <= 0:
                break
            for other in self._runs[: at + 1]:
                common = len(run.rows.keys() & other.rows.keys())
                left -= 2 * common
                for before, after in ((run, other), (other, run)) if common else ():
                    pairs.setdefault((before.entry.name, after.entry.name), (before, after))
        for place in self._places.values():
            for point in _points_by_date(self._runs, place):
                if point.before:
                    pairs.setdefault((point.before.entry.name, point.run.entry.name), (point.before, point.run))
        yield from pairs.values()

    def _row(self, row: Row, entry: Entry) -> _Row:
        summary, cell = row.summary, row.summary.cell
        place = {
            "suite": cell.suite,
            # Neither figures of outside tools nor those of cores kept awake are compared with others.
            "phase": summary.phase + " (reported)" * bool(summary.reported_by) + f" ({notes.AWAKE})" * entry.awake,
            "tier": cell.tier_name,
            "engine": cell.asked,
            "params": dict(cell.params),
        }
        metric = choose_metric([summary])
        moved = metric is BANDWIDTH
        paced = metric in (RESPONSE, TYPICAL_RESPONSE)
        if paced:
            # An open loop with too few operations for a p99 has no figure.
            metric = RESPONSE
        elif not moved:
            # Rows of a closed loop that are compared by a latency show their throughput instead.
            metric = THROUGHPUT
        values = list(speeds(summary, metric).values()) if summary.valid else []
        figure = estimate([1 / value if metric.inverse else value for value in values]) if values else None
        rate = summary.bandwidth if moved else summary.throughput
        if rate:
            per_second = f"{units.rate(rate.median)} {summary.unit}/s"
        else:
            per_second = units.UNKNOWN
        rate_text = units.bandwidth(rate.median if rate else None) if moved else per_second
        write = units.duration if paced else units.bandwidth if moved else units.rate
        median_text = units.UNKNOWN if figure is None else write(figure.median) if paced else rate_text
        why_not = None if summary.valid else summary.why or "not measured"
        if summary.valid and summary.limit is not None:
            why_not = wording.not_compared(summary.limit)
        return _Row(
            place=_number(self._places, json.dumps(place, sort_keys=True)),
            unit=BYTES if moved else summary.unit,
            version=summary.version,
            trials=len(summary.samples),
            paced=paced,
            throughput=speeds(summary, BANDWIDTH if moved else THROUGHPUT),
            response=speeds(summary, RESPONSE) if paced else {},
            figure=figure,
            rate_text=rate_text,
            median_text=median_text,
            interval_text=units.interval(figure.low, figure.high, write) if figure else units.UNKNOWN,
            why=why_not,
            remarks=[_number(self._remarks, remark) for remark in row.remarks()],
        )


def _speeds(old: _Row, new: _Row) -> SpeedsOfTwoRuns:
    if old.paced and new.paced:
        return old.response, new.response
    return old.throughput, new.throughput


def _drift(before: _SiteRun, after: _SiteRun) -> float:
    """Returns the drift of all rows that both runs have, as `compare_runs` does."""
    name = before.entry.name
    if name not in after.drifts:
        common = [_speeds(row, after.rows[place]) for place, row in before.rows.items() if place in after.rows]
        after.drifts[name] = estimate_drift(both for both in common if all(both))
    return after.drifts[name]


def _verdict(old: _Row, new: _Row, paired: bool, drift: float) -> Verdict | None:
    """Returns the verdict on two rows; None if one of them has no speed."""
    before, after = _speeds(old, new)
    if before and after:
        return compare_speeds(before, after, paired, drift=drift)[1]
    return None


def _points_by_date(runs: Sequence[_SiteRun], place: int) -> list[_Point]:
    """Returns the history of a place, oldest first. Each point has the run before it on the same machine."""
    rows = [(run, run.rows[place]) for run in reversed(runs) if place in run.rows]
    latest: dict[str, _SiteRun] = {}
    points = []
    for run, row in rows:
        # Times of an open loop and rates of a closed one can't share an axis: only the kind of the newest row is
        # drawn.
        point = _Point(run, row, bool(row.figure and run.entry.created and row.paced == rows[-1][1].paced))
        if row.figure is not None:
            point.before = latest.get(run.entry.machine)
            latest[run.entry.machine] = run
        points.append(point)
    return points


def _points(runs: Sequence[_SiteRun], place: int) -> list[_Point]:
    """Returns the history of a place with verdicts and steps, newest first."""
    points = _points_by_date(runs, place)
    for point in points:
        if point.before is not None:
            paired = alternate(point.before.starts, point.run.starts)
            drift = _drift(point.before, point.run)
            point.verdict = _verdict(point.before.rows[place], point.row, paired, drift)
    for here in group_values((point.run.entry.machine, point) for point in points if point.drawn).values():
        # With too few runs to find changes, each run that differs from the run before is marked.
        for point in here if len(here) < FEWEST_RUNS else ():
            if point.verdict is not None and point.verdict.kind in ("faster", "slower"):
                point.step, point.step_text = point.verdict.kind, wording.verdict(point.verdict)
        timed = here[-1].row.paced
        values = [median((point.row.response if timed else point.row.throughput).values()) for point in here]
        for first, _, (before, after), verdict in judge_changes(values) if len(here) >= FEWEST_RUNS else ():
            if verdict.kind in ("faster", "slower") and verdict.ratio is not None:
                percent = abs(100 * (verdict.ratio - 1))
                change = f"{verdict.kind} by {percent:.{1 if percent < 10 else 0}f} %"
                sides = f"{before} runs before and {after} run{'s' * (after != 1)} since"
                here[first].step, here[first].step_text = verdict.kind, f"{change} (medians of {sides})"
    return points[::-1]


def _number(numbers: dict[H, int], value: H) -> int:
    return numbers.setdefault(value, len(numbers))


def _frozen(value: object) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((name, _frozen(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    frozen: Hashable = value
    return frozen
