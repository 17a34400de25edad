"""Throughput of each engine with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.report.charts import bars, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import rows
from dyno.results import Run


def records(run: Run) -> list[Record]:
    return [
        {
            **record,
            "throughput": None if (found := row.summary.throughput) is None else found.median,
            "low": found and found.low,
            "high": found and found.high,
            "unit": f"{row.summary.unit}/s",
            "client_cpu_ns": row.summary.client_cpu_ns,
            "server_cpu_ns": row.summary.server_cpu_ns,
            "trials": len(row.summary.samples),
            "instead": "" if row.summary.valid else (row.summary.why or "not measured").split(":", 1)[0],
            "why": row.summary.why,
        }
        for row, record in rows(run)
    ]


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    tooltip = [
        {"field": "figure", "title": f"{unit}/s"},
        {"field": "reach", "title": "95 % interval"},
        {"field": "trials", "title": "trials"},
        {"field": "remarks", "title": "remarks"},
    ]
    made = bars.spec(engines, "throughput", f"{unit}/s", units.rate, tooltip)
    made["layer"] += bars.interval()
    return made


CHART = Chart(
    name="throughput",
    title="Throughput",
    reading="Items done in a second, all clients together: the median over trials, with its 95 % interval. Longer is"
    " better. A floor is a null engine, which does nothing: its figure is the most that the harness could measure.",
    needs="a phase with a valid figure",
    columns=(
        Column("engine", "engine"),
        Column("throughput", "median a second", "rate"),
        Column("low", "95 % from", "rate"),
        Column("high", "95 % to", "rate"),
        Column("unit", "unit"),
        Column("client_cpu_ns", "client CPU for each", "ns"),
        Column("server_cpu_ns", "server CPU for each", "ns"),
        Column("trials", "trials", "count"),
        Column("remarks", "remarks"),
        Column("why", "why no number"),
    ),
    records=records,
    spec=spec,
)
