"""What compression gains against what it costs: ratio by throughput, a line for each packer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.model import Cell
from dyno.report.charts import curves, theme, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import measured
from dyno.results import Run
from dyno.stats.summary import summarize

# What a suite must tell for this chart: a fact, and the parameters of its lines and of the points of a line.
FACT, LINE, POINT = "ratio", "packer", "batch"
STEPS = [step * 10**power for power in range(10) for step in (1, 2, 5)]
"""Ticks of a scale of logarithms."""


def records(run: Run) -> list[Record]:
    """Those of a line next to each other, in the order of the run. Nothing for a run without such facts."""
    gains = _gains(run)
    found = [
        {
            **record,
            LINE: str(cell.params[LINE]),
            POINT: cell.params[POINT],
            "gain": gains[id(cell)],
            "throughput": rate.median,
            "low": rate.low,
            "high": rate.high,
            "unit": f"{row.summary.unit}/s",
            "trials": len(row.summary.samples),
        }
        for row, record in measured(run)
        if id(cell := row.summary.cell) in gains and (rate := row.summary.throughput) is not None
    ]
    order = [id(cell) for cell in run.cells]
    places = {_place(run.cells[at]): at for at in reversed(range(len(order)))}
    return sorted(
        found, key=lambda r: (run.plan["phases"].index(r["phase"]), places[r["tier"], r["engine"], r[LINE]])
    )


def _place(cell: Cell) -> tuple[str | None, str, str]:
    return cell.tier_name, cell.asked, str(cell.params.get(LINE))


def _gains(run: Run) -> dict[int, float]:
    """Of each cell that has both parameters, whichever of its phases tells it."""
    return {
        id(row.cell): gain
        for row in summarize(run)
        if isinstance(gain := row.facts.get(FACT), (int, float)) and {LINE, POINT} <= row.cell.params.keys()
    }


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    reach = f"{units.rate('datum.low')} + ' – ' + {units.rate('datum.high')}"
    # One legend for both: of the shapes, which it draws in the colours.
    colour = {**_by_line(theme.PALETTE), "legend": None}
    detail = [{"field": "engine", "type": "nominal"}, {"field": LINE, "type": "nominal"}]
    # The lines of several engines are told apart by their dashes.
    dashes = {"strokeDash": curves.dash(engines, 900)} if len(engines) > 1 else {}
    return {
        "data": {"name": "records"},
        "transform": [
            {"calculate": units.rate("datum.throughput"), "as": "figure"},
            {"calculate": units.either("datum.low", reach), "as": "reach"},
            {"calculate": "format(datum.gain, '.2f')", "as": "written"},
            units.spoken(
                "datum.engine",
                f"datum.{LINE}",
                f"'{POINT} ' + datum.{POINT}",
                "'ratio ' + datum.written",
                f"datum.figure + ' {unit}/s'",
            ),
        ],
        "encoding": {
            "y": {
                "field": "gain",
                "type": "quantitative",
                "scale": {"zero": False, "nice": True, "padding": 10},
                "axis": {"title": "compression ratio", "format": ".2~f", "tickCount": units.TICKS},
            },
            "detail": detail,
        },
        "layer": [
            {
                "mark": {"type": "line", "aria": False, "strokeWidth": 2},
                "encoding": {"x": _x("throughput", unit), "order": {"field": POINT}, "color": colour, **dashes},
            },
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "aria": False, "strokeWidth": 2, "opacity": 0.5},
                "encoding": {"x": _x("low", unit), "x2": {"field": "high"}, "color": colour},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "x": _x("throughput", unit),
                    "color": colour,
                    "shape": _by_line(theme.SHAPES),
                    "description": {"field": "spoken"},
                    "tooltip": [
                        {"field": "engine", "title": "engine"},
                        {"field": LINE, "title": LINE},
                        {"field": POINT, "title": POINT},
                        {"field": "written", "title": "ratio"},
                        {"field": "figure", "title": f"{unit}/s"},
                        {"field": "reach", "title": "95 % interval"},
                        {"field": "remarks", "title": "remarks"},
                    ],
                },
            },
            {
                "mark": {"type": "text", "aria": False, "dy": -10, "fontSize": 10},
                "encoding": {"x": _x("throughput", unit), "text": {"field": POINT}},
            },
        ],
    }


def _x(field: str, unit: str) -> dict[str, Any]:
    axis = {"title": f"{unit}/s", "labelExpr": units.rate("datum.value"), "values": STEPS}
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "padding": 24},
        "axis": axis,
    }


def _by_line(values: Sequence[str]) -> dict[str, Any]:
    """In the order of the records, which is the run's: a packer has one look in all panels that have all of them."""
    legend: dict[str, Any] = {"title": None, "orient": "top", "columns": curves.MOST_COLUMNS, "symbolOpacity": 1}
    legend |= {"symbolFillColor": {"expr": "scale('color', datum.value)"}, "symbolStrokeWidth": 0}
    return {"field": LINE, "type": "nominal", "sort": None, "scale": {"range": list(values)}, "legend": legend}


CHART = Chart(
    name="tradeoff",
    title="Compression against speed",
    reading="How many times smaller the store is than uncompressed records, against the items done in a second: the"
    " median over trials, with its 95 % interval. Up is smaller and right is faster. A line is a packer, and beside"
    " its points stands how many records are in a batch.",
    needs="a suite that tells how well it compressed: dyno run compression",
    columns=(
        Column("engine", "engine"),
        Column(LINE, LINE),
        Column(POINT, "records in a batch", "count"),
        Column("gain", "ratio", "ratio"),
        Column("throughput", "median a second", "rate"),
        Column("low", "95 % from", "rate"),
        Column("high", "95 % to", "rate"),
        Column("unit", "unit"),
        Column("trials", "trials", "count"),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
    spans=(LINE, POINT),
)
