"""Percentile curves of the latencies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dyno.contracts.histogram import PERCENTILES, curve
from dyno.report.charts import curves, units
from dyno.report.charts.chart import Chart, Column, Record, Wanted
from dyno.report.charts.rows import measured
from dyno.results import Run

SERVICE, RESPONSE = "service time", "response time"
# Ten steps to each further nine, and the median.
GRID = tuple(sorted({50.0, *(round(100 - 10 ** (2 - step / 10), 6) for step in range(51))}))
MARKED = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
REMAINING = 10
"""Observations beyond a point of a curve: with fewer it is drawn no further, since chance would draw it."""
FIGURES = ("p50", "p90", "p99", "p999", "max")


def records(run: Run) -> list[Record]:
    """A record for each curve: parallel lists, which the specification takes apart, and the figures of the table."""
    return list(some(run, lambda record: True))


def some(run: Run, wanted: Wanted) -> Iterator[Record]:
    """Those of rows that are wanted: no other histogram is decoded again."""
    for row, record in measured(run):
        if not wanted(record):
            continue
        summary = row.summary
        # The whole list before the next: a curve of each sample would be one from inside a trial.
        kinds: tuple[tuple[str, list[bytes | None], Mapping[str, int | None]], ...] = (
            (SERVICE, [sample.histogram for sample in summary.samples], summary.latency_ns),
            (RESPONSE, [sample.response for sample in summary.samples], summary.response_ns),
        )
        for kind, histograms, figures in kinds:
            points = curve(histograms, GRID, REMAINING)
            if points:
                percentiles, times = zip(*points, strict=True)
                lists = {"percentile": list(percentiles), "ns": list(times)}
                yield {**record, "kind": kind, **{name: figures[name] for name in FIGURES}, **lists}


def brief(run: Run) -> list[Record]:
    """Of the percentiles that every row has, for which no histogram is decoded again."""
    found = []
    for row, record in measured(run):
        count = sum(sample.operations for sample in row.summary.samples)
        for kind, figures in ((SERVICE, row.summary.latency_ns), (RESPONSE, row.summary.response_ns)):
            known = {at: ns for name, at in PERCENTILES.items() if at in MARKED and (ns := figures[name]) is not None}
            points = {at: ns for at, ns in known.items() if (100 - at) * count >= REMAINING * 99.999}
            if points:
                lists = {"percentile": list(points), "ns": list(points.values())}
                found.append({**record, "kind": kind, **{name: figures[name] for name in FIGURES}, **lists})
    return found


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    places = [_place(percentile) for percentile in MARKED]
    names = " : ".join(
        f"datum.value < {place + 0.1:.6g} ? '{p:.10g}'" for p, place in zip(MARKED, places, strict=True)
    )
    dash = {
        "field": "kind",
        "type": "nominal",
        "sort": [SERVICE, RESPONSE],
        "scale": {"range": [[1, 0], [5, 3]]},
        "legend": {"title": None, "orient": "top", "symbolType": "stroke", "columns": 2},
    }
    return {
        "data": {"name": "records"},
        "transform": [
            {"flatten": ["percentile", "ns"]},
            {"calculate": "log(100 / (100 - datum.percentile)) / LN10", "as": "place"},
            {"calculate": units.duration("datum.ns"), "as": "figure"},
            units.spoken("datum.engine", "datum.kind", "datum.percentile + ' % at most ' + datum.figure"),
        ],
        "encoding": {
            "x": {
                "field": "place",
                "type": "quantitative",
                "scale": {"nice": False, "zero": True},
                "axis": {"title": "percentile", "values": places, "labelExpr": f"{names} : ''"},
            },
            "y": {
                "field": "ns",
                "type": "quantitative",
                "scale": {"type": "log"},
                "axis": {"title": None, "labelExpr": units.duration("datum.value"), "values": units.DECADES},
            },
            "color": curves.colour(engines),
        },
        "layer": [
            {
                "mark": {"type": "line", "aria": False, "strokeWidth": 2, "interpolate": "step-before"},
                "encoding": {"strokeDash": dash, "detail": {"field": "engine"}},
            },
            {
                "transform": [{"filter": f"indexof({list(MARKED)}, datum.percentile) >= 0"}],
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {
                    "shape": curves.shape(engines),
                    "description": {"field": "spoken"},
                    "tooltip": [
                        {"field": "engine", "title": "engine"},
                        {"field": "kind", "title": "what"},
                        {"field": "percentile", "title": "percentile"},
                        {"field": "figure", "title": "at most"},
                        {"field": "remarks", "title": "remarks"},
                    ],
                },
            },
        ],
    }


def _place(percentile: float) -> float:
    """On a scale on which each further nine takes as much room as the one before."""
    return math.log10(100 / (100 - percentile))


CHART = Chart(
    name="latency",
    title="Latency",
    reading="How long the given share of the operations took at most, all trials together; each further nine takes as"
    " much room as the one before. Lower is better, and where a curve turns up its tail begins; it ends where fewer"
    " than ten operations took longer. Service time is that of the engine; response time, of an open loop, counts"
    " from when the operation was due.",
    needs="a phase that times each operation, which one call over all its items does not",
    columns=(
        Column("engine", "engine"),
        Column("kind", "what"),
        *(Column(name, {"p999": "p99.9"}.get(name, name), "ns") for name in FIGURES),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
    brief=brief,
    some=some,
)
