"""Throughput against the number of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.report.charts import curves, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import measured
from dyno.report.table import varying
from dyno.results import Run

CLIENTS = "clients"


def records(run: Run) -> list[Record]:
    """Nothing for a run with one number of clients."""
    if CLIENTS not in varying(run):
        return []
    return [
        {
            **record,
            "clients": row.summary.cell.params[CLIENTS],
            "throughput": found.median,
            "low": found.low,
            "high": found.high,
            "unit": f"{row.summary.unit}/s",
            "trials": len(row.summary.samples),
        }
        for row, record in measured(run)
        if (found := row.summary.throughput) is not None
    ]


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    figure = units.rate("datum.throughput")
    reach = f"{units.rate('datum.low')} + ' – ' + {units.rate('datum.high')}"
    return {
        "data": {"name": "records"},
        "transform": [
            {"calculate": figure, "as": "figure"},
            {"calculate": units.either("datum.low", reach), "as": "reach"},
            units.spoken("datum.engine", "datum.clients + ' clients'", f"datum.figure + ' {unit}/s'"),
        ],
        "encoding": {
            "x": {
                "field": "clients",
                "type": "quantitative",
                "scale": {"type": "log", "base": 2, "nice": False, "padding": 12},
                "axis": {"title": "clients", "format": "d", "grid": False},
            },
            "color": curves.colour(engines),
        },
        "layer": [
            {"mark": {"type": "line", "aria": False, "strokeWidth": 2}, "encoding": {"y": _y("throughput", unit)}},
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "aria": False, "strokeWidth": 2, "opacity": 0.6},
                "encoding": {"y": _y("low", unit), "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                "encoding": {
                    "y": _y("throughput", unit),
                    "shape": curves.shape(engines),
                    "description": {"field": "spoken"},
                    "tooltip": [
                        {"field": "engine", "title": "engine"},
                        {"field": "clients", "title": "clients"},
                        {"field": "figure", "title": f"{unit}/s"},
                        {"field": "reach", "title": "95 % interval"},
                        {"field": "remarks", "title": "remarks"},
                    ],
                },
            },
        ],
    }


def _y(field: str, unit: str) -> dict[str, Any]:
    axis = {"title": f"{unit}/s", "labelExpr": units.rate("datum.value"), "tickCount": units.TICKS}
    return {"field": field, "type": "quantitative", "scale": units.FROM_ZERO, "axis": axis}


CHART = Chart(
    name="clients",
    title="Throughput by clients",
    reading="Items done in a second by so many clients at work at the same time, all together: the median over"
    " trials, with its 95 % interval. A line that does not rise has found what the clients share.",
    needs="several numbers of clients: dyno run --clients 1,2,4",
    columns=(
        Column("engine", "engine"),
        Column("clients", "clients", "count"),
        Column("throughput", "median a second", "rate"),
        Column("low", "95 % from", "rate"),
        Column("high", "95 % to", "rate"),
        Column("unit", "unit"),
        Column("trials", "trials", "count"),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
    spans=(CLIENTS,),
)
