"""Throughput of each engine with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dyno.report.charts import bars, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import rows
from dyno.report.tables.table import Row, ranked_by_bandwidth
from dyno.results import Run
from dyno.stats.metric import BANDWIDTH
from dyno.stats.summary import CellSummary

BYTES = "B/s"


def records(run: Run) -> list[Record]:
    return [{**found, "each": _each(row.summary)} for found, row in zip(brief(run), _rows(run), strict=True)]


def brief(run: Run) -> list[Record]:
    """Without the trials by themselves."""
    return [
        {
            **record,
            **_figure(row.summary),
            "client_cpu_ns": row.summary.client_cpu_ns,
            "server_cpu_ns": row.summary.server_cpu_ns,
            "trials": len(row.summary.samples),
            "instead": "" if row.summary.valid else (row.summary.why or "not measured").split(":", 1)[0],
            "why": row.summary.why,
        }
        for row, record in rows(run)
    ]


def _rows(run: Run) -> list[Row]:
    return [row for row, _ in rows(run)]


def _each(summary: CellSummary) -> list[float]:
    """The figure of each trial, in their order; none of a floor, whose bar is not drawn."""
    if summary.cell.floor:
        return []
    moved = ranked_by_bandwidth(summary)
    found = [sample.bytes_per_second if moved else sample.per_second for sample in summary.samples]
    return [float(f"{figure:.4g}") for figure in found if figure is not None]


def _figure(summary: CellSummary) -> Record:
    """The bandwidth where rows are ranked by it."""
    moved = ranked_by_bandwidth(summary)
    found = summary.bandwidth if moved else summary.throughput
    # By what the phase says, also for a row without a figure.
    by_bytes = moved or (found is None and summary.about.metric == BANDWIDTH.name)
    unit, write = (BYTES, "bandwidth") if by_bytes else (f"{summary.unit}/s", "rate")
    figures = {"median": None, "low": None, "high": None} if found is None else asdict(found)
    return {"throughput": figures.pop("median"), **figures, "unit": unit, "write": write}


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    moved = f"{unit}/s" == BYTES
    title = BANDWIDTH.title if moved else f"{unit}/s"
    tooltip = [
        {"field": "figure", "title": title},
        {"field": "reach", "title": "95 % interval"},
        {"field": "trials", "title": "trials"},
        {"field": "remarks", "title": "remarks"},
    ]
    made = bars.spec(engines, "throughput", title, units.bandwidth if moved else units.rate, tooltip)
    made["layer"] += [*bars.interval(), bars.each("each")]
    return made


CHART = Chart(
    name="throughput",
    title="Throughput",
    reading="Items done in a second, or bytes moved where the phase is compared by that, all clients together: the"
    " median over trials, with its 95 % interval. Longer is better. A floor is a null engine, which does nothing: its"
    " figure is the most that the harness could measure. A dot is a trial, where it is within the axis.",
    needs="a phase with a valid figure",
    columns=(
        Column("engine", "engine"),
        Column("throughput", "median a second", "own"),
        Column("low", "95 % from", "own"),
        Column("high", "95 % to", "own"),
        Column("unit", "unit"),
        Column("client_cpu_ns", "client CPU for each", "ns"),
        Column("server_cpu_ns", "server CPU for each", "ns"),
        Column("trials", "trials", "count"),
        Column("remarks", "remarks"),
        Column("why", "why no number"),
    ),
    records=records,
    spec=spec,
    brief=brief,
)
