"""What the pages that compare runs compute from: each row's speed in every trial, and the facts of each run.

The statistics are done again in the browser, for any two of the runs, by the rules of `dyno.stats.two_runs`; here are
no verdicts on these. Where in a history the speed changed is found here. What many runs share (places, facts,
remarks) stands once, and runs have its number.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Any

from dyno.report.page import settings
from dyno.report.site.catalogue import Entry
from dyno.report.tables import heading, wording
from dyno.report.tables.table import Row, groups, varying
from dyno.results import Run
from dyno.stats import estimate, student, verdict
from dyno.stats.history import FEWEST_RUNS, judged
from dyno.stats.metric import BANDWIDTH, RESPONSE, THROUGHPUT, Metric, fitting, speeds
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.two_runs import facts

COLUMNS = ("place", "unit", "version", "trials", "figure", "rate", "open", "throughput", "response", "why", "remarks")
DIGITS = 10
MOVED = "B"
"""The unit of what is compared by its bandwidth."""


@dataclass(frozen=True, order=True)
class _Point:
    """What one run has for the history of a place."""

    created: str
    machine: str
    run: str
    timed: bool
    speed: float


class Collection:
    """Takes in one run after the other."""

    def __init__(self) -> None:
        self._runs: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._facts: dict[tuple[str, str, Hashable], int] = {}
        self._remarks: dict[str, int] = {}
        self._series: dict[int, list[_Point]] = {}
        """By the number of a place."""

    def add(self, run: Run, entry: Entry) -> None:
        rows = {(id(row.summary.cell), row.summary.phase): row for group in groups(run) for row in group.rows}
        self._runs.append(
            {
                **asdict(entry),
                "day": entry.day,
                "varying": varying(run),
                "starts": _starts(run),
                "facts": [_number(self._facts, fact) for fact in _facts(run)],
                "rows": [
                    self._row(rows[id(summary.cell), summary.phase], entry)
                    for summary in summarize(run)
                    if not summary.cell.floor
                ],
            }
        )

    def units(self) -> list[str]:
        """Of all rows."""
        unit = COLUMNS.index("unit")
        return sorted({row[unit] for run in self._runs for row in run["rows"]})

    def data(self) -> dict[str, Any]:
        rules = {
            "confidence": verdict.CONFIDENCE,
            "quantiles": student.series(verdict.CONFIDENCE),
            "margin": verdict.MARGIN,
            "most_more": verdict.MOST_MORE,
            "fewest": verdict.FEWEST_BLOCKS,
            "fewest_runs": FEWEST_RUNS,
            "fewest_trimmed": estimate.FEWEST_TRIMMED,
            "trimmed": estimate.TRIMMED,
            "twice": wording.TWICE,
            "wide": wording.WIDE,
            "fineness": wording.FINENESS,
        }
        return {
            "rules": rules,
            "columns": COLUMNS,
            "metrics": {metric.name: metric.title for metric in (THROUGHPUT, RESPONSE)},
            "places": [json.loads(place) for place in self._places],
            "facts": _shown(list(self._facts)),
            "remarks": list(self._remarks),
            "runs": self._runs,
            "steps": [step for at, points in self._series.items() for step in _steps(at, points)],
        }

    def _row(self, found: Row, entry: Entry) -> list[Any]:
        row, cell = found.summary, found.summary.cell
        place = {
            "suite": cell.suite,
            # What a tool reported is not what Dyno timed itself, and cores that slept are in no history with others.
            "phase": row.phase + " (reported)" * bool(row.reported_by) + f" ({heading.AWAKE})" * entry.awake,
            "tier": cell.tier_name,
            "engine": cell.asked,
            "params": dict(cell.params),
        }
        by = _by(row)
        told = speeds(row, by)
        moved = row.bandwidth if by is BANDWIDTH else row.throughput
        values = {
            "place": (at := _number(self._places, json.dumps(place, sort_keys=True))),
            "unit": MOVED if by is BANDWIDTH else row.unit,
            "version": row.version,
            "trials": len(row.samples),
            "figure": _figure(list(told.values()), by) if row.valid else None,
            "rate": None if moved is None else _rounded(moved.median),
            "open": by is RESPONSE,
            "throughput": _speeds(row, BANDWIDTH if by is BANDWIDTH else THROUGHPUT),
            "response": _speeds(row, RESPONSE) if by is RESPONSE else [],
            "why": None if row.valid else row.why or "not measured",
            "remarks": [_number(self._remarks, remark) for remark in found.remarks()],
        }
        if row.valid and entry.created and told:
            point = _Point(entry.created, entry.machine, entry.name, by.inverse, median(told.values()))
            self._series.setdefault(at, []).append(point)
        return [values[name] for name in COLUMNS]


def _steps(at: int, points: Sequence[_Point]) -> Iterator[list[Any]]:
    """Of one place, on each machine: the place, the run that is the first after it, the verdict's kind and ratio, and
    how many runs are before and after. Of so few runs that there is none to be found: nothing."""
    ordered = sorted(points)
    for machine in dict.fromkeys(point.machine for point in ordered):
        # What an open loop tells is a time, of which there is none in a closed one.
        mine = [point for point in ordered if point.machine == machine and point.timed == ordered[-1].timed]
        if len(mine) >= FEWEST_RUNS:
            for first, beside, verdict_ in judged([point.speed for point in mine]):
                ratio = None if verdict_.ratio is None else _rounded(verdict_.ratio)
                yield [at, mine[first].run, verdict_.kind, ratio, *beside]


def _by(row: CellSummary) -> Metric:
    """What a history is of: of one that is compared by a latency in a closed loop, the throughput."""
    found = fitting([row])
    return found if found in (RESPONSE, BANDWIDTH) else THROUGHPUT


def _number(known: dict[Any, int], what: Any) -> int:
    return known.setdefault(what, len(known))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _speeds(row: CellSummary, by: Metric) -> list[list[float]]:
    """Pairs of a block and a speed."""
    return [[block, _rounded(value)] for block, value in speeds(row, by).items()]


def _figure(values: Sequence[float], by: Metric) -> list[float | None] | None:
    """What a history draws: the median over trials and its 95 % interval, of the throughput or of a time in ns."""
    if not values:
        return None
    found = estimate.estimate([1 / value for value in values] if by.inverse else values)
    return [None if value is None else _rounded(value) for value in (found.median, found.low, found.high)]


def _starts(run: Run) -> list[list[int]]:
    """Pairs of a block and when it began, in µs: by them runs are known that were measured in turns."""
    starts: dict[int, int] = {}
    for attempt in run.attempts:
        began = round(datetime.fromisoformat(attempt.started).timestamp() * 1e6)
        starts[attempt.block] = min(began, starts.get(attempt.block, began))
    return [[block, began] for block, began in starts.items()]


def _facts(run: Run) -> list[tuple[str, str, Hashable]]:
    """Without those that are not known: in a comparison they are what the other run's stand against."""
    return [(where, what, _frozen(value)) for (where, what), value in facts(run).items() if value is not None]


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((name, _frozen(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    frozen: Hashable = value
    return frozen


def _shown(found: list[tuple[str, str, Any]]) -> list[tuple[str, str, str]]:
    """As people read them, but for values that would then look the same and are not."""
    texts = [(where, what, settings.said(what, value)) for where, what, value in found]
    seen = Counter(texts)
    return [
        text if seen[text] == 1 else (text[0], text[1], str(value))
        for text, (_, _, value) in zip(texts, found, strict=True)
    ]
