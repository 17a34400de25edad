"""The named parts of a latency, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.report.charts import bars, theme, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import measured
from dyno.results import Run


def records(run: Run) -> list[Record]:
    """A record for each row: parallel lists, which the specification takes apart, and the figures of the table."""
    found = []
    for row, record in measured(run):
        parts = {name: times["p50"] for name, times in row.summary.latency_by_part_ns.items()}
        known = {name: ns for name, ns in parts.items() if ns is not None}
        if known:
            figures = {
                "whole": row.summary.latency_ns["p50"],
                "told": ", ".join(f"{name} {ns:,} ns" for name, ns in known.items()),
                "instead": "",
            }
            found.append({**record, **figures, "part": list(known), "ns": list(known.values())})
    return found


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    legend = {"title": None, "orient": "top", "columns": 6, "symbolOpacity": 1}
    look = {"field": "part", "type": "nominal", "sort": None, "scale": {"range": list(theme.PALETTE)}}
    axis = {"title": "p50 of each part", "labelExpr": units.duration("datum.value"), "tickCount": units.TICKS}
    bar = {
        "transform": [
            {"flatten": ["part", "ns"]},
            {"window": [{"op": "row_number", "as": "place"}], "groupby": ["row"]},
            {"calculate": units.duration("datum.ns"), "as": "part figure"},
            units.spoken("datum.row", "datum.part", "datum['part figure']"),
        ],
        "mark": "bar",
        "encoding": {
            "y": bars.left(),
            "x": {"field": "ns", "type": "quantitative", "stack": "zero", "scale": units.FROM_ZERO, "axis": axis},
            "color": {**look, "legend": legend},
            "order": {"field": "place"},
            "tooltip": [
                {"field": "row", "title": "engine"},
                {"field": "part", "title": "part"},
                {"field": "part figure", "title": "p50"},
                {"field": "remarks", "title": "remarks"},
            ],
            "description": {"field": "spoken"},
        },
    }
    return {
        "data": {"name": "records"},
        "height": {"step": bars.STEP},
        "transform": [
            {"calculate": "datum.engine", "as": "row"},
            {"calculate": units.either("datum.whole", units.duration("datum.whole")), "as": "figure"},
            bars.line("figure"),
        ],
        **bars.rows(bar),
    }


CHART = Chart(
    name="parts",
    title="Parts of the latency",
    reading="The median of each named part of an operation's latency, one after the other; at the right stands the"
    " median of the whole. Medians of parts need not add up to it.",
    needs="a suite whose operations tell the parts of their latency",
    columns=(
        Column("engine", "engine"),
        Column("whole", "p50", "ns"),
        Column("told", "p50 of each part"),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
)
