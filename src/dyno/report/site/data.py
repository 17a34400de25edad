"""Data of the pages that compare runs: figures of each row, verdicts on pairs of runs, and the history of each cell.

All data is computed when the site is built, and the pages only look it up. Values that many runs share (places,
facts, remarks, texts) are stored once, and are referred to by number.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Any
from urllib.parse import urlencode

from dyno.report.page import settings
from dyno.report.site.catalogue import Entry
from dyno.report.tables import heading, units, wording
from dyno.report.tables.table import Row, groups, varying
from dyno.results import Run
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.history import FEWEST_RUNS, judged
from dyno.stats.metric import BANDWIDTH, RESPONSE, THROUGHPUT, fitting, speeds
from dyno.stats.summary import summarize
from dyno.stats.two_runs import alternate, block_starts, compare_speeds, facts
from dyno.stats.verdict import MARGIN, Verdict

MOST_VERDICTS = 250_000
"""Maximum number of verdicts of all pairs of runs together, about 15 s of work and 3 MB of data. Pairs of older runs
are left out."""
BYTES = "B"
"""Unit of rows that are compared by their bandwidth."""
UNCHANGED = "Its speed did not change from one part of the runs to the next, on any machine."
NO_STEP = "No run differs from the one before it on the same machine."


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
    rate: float | None
    """Median throughput."""
    figure: Estimate | None
    """Estimate of the throughput, or if paced of the response time in ns. None for an invalid row."""
    why: str | None
    """Why the row is invalid."""
    remarks: list[int]

    def rate_text(self) -> str:
        if self.unit == BYTES or self.rate is None:
            return units.bandwidth(self.rate)
        return f"{units.rate(self.rate)} {self.unit}/s"

    def median_text(self) -> str:
        if self.figure is None:
            return units.UNKNOWN
        return units.duration(self.figure.median) if self.paced else self.rate_text()

    def interval_text(self) -> str:
        if self.figure is None or self.figure.low is None or self.figure.high is None:
            return units.UNKNOWN
        write = units.duration if self.paced else units.bandwidth if self.unit == BYTES else units.rate
        return f"{write(self.figure.low)} – {write(self.figure.high)}"


@dataclass(frozen=True)
class _SiteRun:
    entry: Entry
    varying: list[str]
    facts: list[int]
    starts: Mapping[int, datetime]
    """Start of each block."""
    rows: dict[int, _Row]
    """Rows by place."""


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

    def data(self, number: Mapping[str, int]) -> dict[str, Any]:
        row, figure = self.row, self.row.figure
        numbers = [] if figure is None else [figure.median, figure.low, figure.high]
        return {
            "run": number[self.run.entry.name],
            "drawn": self.drawn,
            "numbers": [None if n is None else float(f"{n:.10g}") for n in numbers] or None,
            "figure": row.median_text(),
            "interval": row.interval_text(),
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
        self._places: dict[str, int] = {}
        self._facts: dict[tuple[str, str, Hashable], int] = {}
        self._remarks: dict[str, int] = {}

    def add(self, run: Run, entry: Entry) -> None:
        by_summary = {(id(row.summary.cell), row.summary.phase): row for group in groups(run) for row in group.rows}
        rows = [
            self._row(by_summary[id(summary.cell), summary.phase], entry)
            for summary in summarize(run)
            if not summary.cell.floor
        ]
        # A missing fact is unknown: if only one of two runs has a fact, it is compared with "unknown".
        known = ((where, what, _frozen(v)) for (where, what), v in facts(run).items() if v is not None)
        numbers = [_number(self._facts, fact) for fact in known]
        by_place = {row.place: row for row in rows}
        self._runs.append(_SiteRun(entry, list(varying(run)), numbers, block_starts(run), by_place))

    def units(self) -> list[str]:
        """Returns the units of all rows."""
        return sorted({row.unit for run in self._runs for row in run.rows.values()})

    def compare(self) -> dict[str, Any]:
        runs = self._newest_first()
        verdicts, texts, pairs = dict[Hashable, int](), dict[str, int](), dict[str, Any]()
        number = {run.entry.name: at for at, run in enumerate(runs)}
        for before, after in self._pairs(runs):
            paired = alternate(before.starts, after.starts)
            numbers = list[int]()
            for place, old in before.rows.items():
                new = after.rows.get(place)
                if new is None or old.why is not None or new.why is not None:
                    continue
                verdict = _verdict(old, new, paired)
                if verdict is None:
                    numbers += [-1, -1, -1]
                else:
                    numbers += [
                        _number(verdicts, (verdict.kind, wording.verdict(verdict))),
                        _number(texts, wording.point(verdict)),
                        _number(texts, wording.interval(verdict)),
                    ]
            pairs[f"{number[before.entry.name]} {number[after.entry.name]}"] = [paired, numbers]
        return {
            **self._common_data(runs),
            "varying": [run.varying for run in runs],
            "run_facts": [run.facts for run in runs],
            "level": wording.LEVEL,
            "margin": f"{MARGIN * 100:g} %",
            "response": RESPONSE.title,
            "facts": self._fact_texts(),
            "rows": [
                [
                    {
                        "place": row.place,
                        "paced": row.paced,
                        "throughput": row.rate_text(),
                        "response": row.median_text() if row.paced else units.UNKNOWN,
                        "why": row.why,
                        "remarks": row.remarks,
                    }
                    for row in run.rows.values()
                ]
                for run in runs
            ],
            "pairs": pairs,
            "verdicts": list(verdicts),
            "texts": list(texts),
        }

    def history(self) -> dict[str, Any]:
        runs = self._newest_first()
        number = {run.entry.name: at for at, run in enumerate(runs)}
        histories = {at: _points(runs, at) for at in self._places.values()}
        return {
            **self._common_data(runs),
            # The page shows the first place of this order, the one that most runs have.
            "order": sorted(histories, key=lambda at: -len(histories[at])),
            "histories": [
                {
                    "points": [point.data(number) for point in points],
                    "steps": [[at, point.step_text] for at, point in enumerate(points) if point.step],
                    "unchanged": _unchanged(points),
                }
                for points in histories.values()
            ],
        }

    def _newest_first(self) -> list[_SiteRun]:
        return sorted(self._runs, key=lambda run: run.entry.created, reverse=True)

    def _common_data(self, runs: Sequence[_SiteRun]) -> dict[str, Any]:
        """Returns runs, places (with their values as texts and the address of their history), and remarks."""
        places = []
        for place in map(json.loads, self._places):
            params = {name: str(value) for name, value in place["params"].items()}
            words = {name: place[name] or "" for name in ("suite", "phase", "engine", "tier")}
            link = urlencode({**words, **{f"p.{name}": value for name, value in params.items()}})
            places.append({**words, "params": params, "link": f"history.html#{link}"})
        return {
            "runs": [{**asdict(run.entry), "day": run.entry.day} for run in runs],
            "places": places,
            "remarks": list(self._remarks),
        }

    def _fact_texts(self) -> list[tuple[str, str, str]]:
        """Returns the facts as texts. Different values with the same text are written in full."""
        texts = [(where, what, settings.written(what, value)) for where, what, value in self._facts]
        counts = Counter(texts)
        return [
            text if counts[text] == 1 else (text[0], text[1], str(value))
            for text, (_, _, value) in zip(texts, self._facts, strict=True)
        ]

    def _pairs(self, runs: Sequence[_SiteRun]) -> Iterator[tuple[_SiteRun, _SiteRun]]:
        """Yields pairs of runs with rows in common, as before and after. These are all pairs of the newest runs, and
        the pairs to which histories link, each a run and the run before it."""
        left, yielded = MOST_VERDICTS, set[tuple[str, str]]()
        for at, run in enumerate(runs):
            if left <= 0:
                break
            for other in runs[: at + 1]:
                common = len(run.rows.keys() & other.rows.keys())
                left -= 2 * common
                for before, after in ((run, other), (other, run)) if common else ():
                    if (pair := (before.entry.name, after.entry.name)) not in yielded:
                        yielded.add(pair)
                        yield before, after
        for place in self._places.values():
            for point in _points_by_date(runs, place):
                if point.before and (pair := (point.before.entry.name, point.run.entry.name)) not in yielded:
                    yielded.add(pair)
                    yield point.before, point.run

    def _row(self, row: Row, entry: Entry) -> _Row:
        summary, cell = row.summary, row.summary.cell
        place = {
            "suite": cell.suite,
            # Neither figures of outside tools nor those of cores kept awake are compared with others.
            "phase": summary.phase + " (reported)" * bool(summary.reported_by) + f" ({heading.AWAKE})" * entry.awake,
            "tier": cell.tier_name,
            "engine": cell.asked,
            "params": dict(cell.params),
        }
        metric = fitting([summary])
        # Rows of a closed loop that are compared by a latency show their throughput instead.
        metric = metric if metric in (RESPONSE, BANDWIDTH) else THROUGHPUT
        moved = metric is BANDWIDTH
        rate = summary.bandwidth if moved else summary.throughput
        values = list(speeds(summary, metric).values()) if summary.valid else []
        if metric.inverse:
            values = [1 / value for value in values]
        return _Row(
            place=_number(self._places, json.dumps(place, sort_keys=True)),
            unit=BYTES if moved else summary.unit,
            version=summary.version,
            trials=len(summary.samples),
            paced=metric is RESPONSE,
            throughput=speeds(summary, BANDWIDTH if moved else THROUGHPUT),
            response=speeds(summary, RESPONSE) if metric is RESPONSE else {},
            rate=None if rate is None else rate.median,
            figure=estimate(values) if values else None,
            why=None if summary.valid else summary.why or "not measured",
            remarks=[_number(self._remarks, remark) for remark in row.remarks()],
        )


def _verdict(old: _Row, new: _Row, paired: bool) -> Verdict | None:
    """Returns the verdict on two rows; None if one of them has no speed."""
    paced = old.paced and new.paced
    before, after = (row.response if paced else row.throughput for row in (old, new))
    return compare_speeds(before, after, paired)[1] if before and after else None


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
            point.verdict = _verdict(point.before.rows[place], point.row, paired)
    for machine in dict.fromkeys(point.run.entry.machine for point in points):
        _mark_steps([point for point in points if point.drawn and point.run.entry.machine == machine])
    return points[::-1]


def _mark_steps(points: Sequence[_Point]) -> None:
    """Marks where the speed of one machine's runs changed. If there are too few runs for that, marks each run that
    differs from the run before."""
    if len(points) < FEWEST_RUNS:
        for point in points:
            if point.verdict is not None and point.verdict.kind in ("faster", "slower"):
                point.step, point.step_text = point.verdict.kind, wording.verdict(point.verdict)
        return
    timed = points[-1].row.paced
    values = [median((point.row.response if timed else point.row.throughput).values()) for point in points]
    for first, (before, after), verdict in judged(values):
        if verdict.kind in ("faster", "slower") and verdict.ratio is not None:
            percent = abs(100 * (verdict.ratio - 1))
            change = f"{verdict.kind} by {percent:.{1 if percent < 10 else 0}f} %"
            runs = f"{before} runs before and {after} run{'s' * (after != 1)} since"
            points[first].step, points[first].step_text = verdict.kind, f"{change} (medians of {runs})"


def _unchanged(points: Sequence[_Point]) -> str:
    """Returns the page's sentence for a history without a marked step."""
    counts = Counter(point.run.entry.machine for point in points if point.drawn)
    return UNCHANGED if max(counts.values(), default=0) >= FEWEST_RUNS else NO_STEP


def _number(numbers: dict[Any, int], value: Any) -> int:
    return numbers.setdefault(value, len(numbers))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((name, _frozen(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    frozen: Hashable = value
    return frozen
