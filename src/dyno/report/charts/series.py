"""Throughput and latency by the second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from dyno.contracts.sample import Sample
from dyno.report.charts import curves, units
from dyno.report.charts.chart import Chart, Column, Record, Wanted
from dyno.report.charts.rows import measured
from dyno.results import Run

WHOLE = "datum.value % 1 ? '' : format(datum.value, ',')"
LONG = 900
"""Size of a legend's symbol: of a line, so long that its dashes are seen."""
EXTENT = {"minExtent": 48}
"""Of the axes at the left, so that both panels begin at the same place."""
Point = tuple[float, int | None]
"""Operations a second, and p99 in ns: None for an interval in which no operation ended."""


def records(run: Run) -> list[Record]:
    """A record for each line: parallel lists, which the specification takes apart, and the figures of the table."""
    return list(some(run, lambda record: True))


def some(run: Run, wanted: Wanted) -> Iterator[Record]:
    """Those of rows that are wanted."""
    for row, record in measured(run):
        points = _over_trials(row.summary.samples) if wanted(record) else {}
        # A line needs two.
        if len(points) < 2:
            continue
        rates = [point[0] for point in points.values()]
        p99s = [point[1] for point in points.values()]
        figures = {"slowest": min(rates), "median": float(median(rates)), "fastest": max(rates)}
        worst = max((ns for ns in p99s if ns is not None), default=None)
        lists = {"second": list(points), "rate": rates, "p99_ns": p99s}
        yield {**record, "seconds": max(points), **figures, "worst_p99_ns": worst, **lists}


def _over_trials(samples: Sequence[Sample]) -> dict[float, Point]:
    """For each second, by its end, the medians over the trials that have it.

    Trials that were recorded by a finer interval than another, which only very long ones are, are left out: their
    percentiles can't be put together.
    """
    coarsest = max((point["interval_ns"] for sample in samples for point in sample.series), default=0)
    trials = [points for sample in samples if (points := _points(sample)) and _interval(sample) == coarsest]
    found: dict[float, Point] = {}
    for second in sorted({second for trial in trials for second in trial}):
        here = [trial[second] for trial in trials if second in trial]
        p99s = [ns for _, ns in here if ns is not None]
        found[second] = median(rate for rate, _ in here), int(median(p99s)) if p99s else None
    return found


def _interval(sample: Sample) -> int:
    return sample.series[0]["interval_ns"]


def _points(sample: Sample) -> dict[float, Point]:
    """By the interval's end in seconds. One in which nothing ended has a rate of zero: a stall is not passed over.
    The last is left out if the phase ended before its half, where chance decides."""
    if not sample.series:
        return {}
    interval = _interval(sample)
    known: dict[int, Mapping[str, int]] = {point["from_ns"] // interval: point for point in sample.series}
    found: dict[float, Point] = {}
    for at in range(max(known) + 1):
        length = min(interval, sample.elapsed_ns - at * interval)
        if length >= interval / 2:
            point = known.get(at)
            rate = point["operations"] / length * 1e9 if point else 0.0
            found[(at + 1) * interval / 1e9] = rate, point["p99_ns"] if point else None
    return found


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    """Two panels, one under the other, over the same seconds."""
    time = units.duration("datum.value")
    rate_axis = {"title": "op/s", "labelExpr": units.rate("datum.value"), "tickCount": units.TICKS, **EXTENT}
    rate = {"field": "rate", "type": "quantitative", "scale": units.FROM_ZERO, "axis": rate_axis}
    p99_axis = {"title": "p99", "labelExpr": time, "values": units.DECADES, **EXTENT}
    p99 = {"field": "p99_ns", "type": "quantitative", "scale": {"type": "log"}, "axis": p99_axis}
    return {
        "data": {"name": "records"},
        "transform": [
            {"flatten": ["second", "rate", "p99_ns"]},
            {"calculate": units.rate("datum.rate"), "as": "rate figure"},
            {"calculate": units.either("datum.p99_ns", units.duration("datum.p99_ns")), "as": "p99 figure"},
        ],
        "spacing": 12,
        "vconcat": [
            _lines(engines, 200, rate, {"title": None, "labels": False}),
            _lines(engines, 110, p99, {"title": "seconds", "labelExpr": WHOLE}),
        ],
    }


def _lines(engines: Sequence[str], height: int, y: dict[str, Any], axis: dict[str, Any]) -> dict[str, Any]:
    x = {"field": "second", "type": "quantitative", "scale": {"nice": False, "zero": False}}
    return {
        "height": height,
        "mark": {"type": "line", "strokeWidth": 1.75},
        "encoding": {
            "x": {**x, "axis": {**axis, "grid": False}},
            "y": y,
            "color": curves.colour(engines, LONG),
            "strokeDash": curves.dash(engines, LONG),
            "tooltip": [
                {"field": "engine", "title": "engine"},
                {"field": "second", "title": "second"},
                {"field": "rate figure", "title": "operations a second"},
                {"field": "p99 figure", "title": "p99"},
                {"field": "remarks", "title": "remarks"},
            ],
        },
    }


CHART = Chart(
    name="series",
    title="Over time",
    reading="Operations in each second of the measured time, and below it the latency that 99 % of them kept: the"
    " median over trials for each second. A dip is a stall: a compaction, a checkpoint, a busy device.",
    needs="phases of two seconds or more: dyno run --duration 10",
    columns=(
        Column("engine", "engine"),
        Column("seconds", "measured for", "seconds"),
        Column("slowest", "slowest second", "rate"),
        Column("median", "median second", "rate"),
        Column("fastest", "fastest second", "rate"),
        Column("worst_p99_ns", "worst p99 of a second", "ns"),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
    some=some,
)
