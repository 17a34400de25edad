"""The charts that a suite declares: one figure of its cells against another. What a run file says of them is all that
is known of them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dyno.report.charts import lines
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import measured
from dyno.report.charts.sweep import KINDS
from dyno.report.tables.table import Row
from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.metric import METRICS, THROUGHPUT, Metric, estimated, fitting
from dyno.stats.summary import summarize

Told = Mapping[str, Any]
"""A curve, or an axis, as the run file has it: see `dyno.contracts.suite.Curve`."""
COLUMNS = {"rate": "rate", "bandwidth": "bandwidth", "ns": "ns", "bytes": "bytes", "ratio": "ratio", "count": "count"}


def charts(run: Run) -> list[Chart]:
    """Those of the run's suite."""
    return [_chart(run, told) for told in run.header.get("charts") or ()]


def _chart(run: Run, told: Told) -> Chart:
    line, point = told.get("line", ""), told.get("point", "")
    named = [name for name in (line, point) if name]
    swept = [told[side]["name"] for side in ("x", "y") if told[side]["of"] == "param"]

    marks = _marks(run, told["x"])

    def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
        x = replace(_side(told["x"], unit), marks=marks)
        return lines.spec(engines, x, _side(told["y"], unit), line, point)

    return Chart(
        name=told["name"],
        title=told["title"],
        reading=told["reading"],
        needs=f"what the suite tells of {told['x']['name']} and {told['y']['name']}",
        columns=(
            Column("engine", "engine"),
            *((Column("line", line),) if line else ()),
            *((Column("point", point, "count"),) if point else ()),
            *_columns("x", told["x"]),
            *_columns("y", told["y"]),
            Column("unit", "unit"),
            Column("trials", "trials", "count"),
            Column("remarks", "remarks"),
        ),
        records=lambda run: records(run, told),
        spec=spec,
        spans=(*named, *swept),
    )


def records(run: Run, told: Told) -> list[Record]:
    """Those of a line next to each other, in the order of the run."""
    line, point, only = told.get("line", ""), told.get("point", ""), told.get("phases") or run.plan["phases"]
    if any(_one_value(run, told[side]) for side in ("x", "y")):
        return []
    facts = _facts(run)
    found = []
    for row, record in measured(run):
        cell = row.summary.cell
        wanted = row.summary.phase in only and all(name in cell.params for name in (line, point) if name)
        x, y = (_figure(row, told[name], facts) for name in ("x", "y")) if wanted else (None, None)
        if x is not None and y is not None:
            beside: Record = {"line": str(cell.params[line])} if line else {}
            beside |= {"point": cell.params[point]} if point else {}
            unit = {"unit": _unit(row, told)}
            found.append(
                {**record, **beside, **_at("x", x), **_at("y", y), **unit, "trials": len(row.summary.samples)}
            )
    places: dict[tuple[object, ...], int] = {}
    for at, cell in enumerate(run.cells):
        places.setdefault((cell.tier_name, cell.label, str(cell.params.get(line, ""))), at)
    phases = {phase: at for at, phase in enumerate(dict.fromkeys(record["phase"] for record in found))}
    return sorted(found, key=lambda r: (phases[r["phase"]], places[r["tier"], r["engine"], r.get("line", "")]))


def _marks(run: Run, axis: Told) -> list[tuple[float, str]]:
    """What there is to be marked, where it is among the values of a parameter."""
    names = axis.get("marks")
    if not names:
        return []
    measured_at = [cell.params.get(axis["name"]) for cell in run.cells]
    values = [float(value) for value in measured_at if isinstance(value, (int, float))]
    told: dict[str, float] = {}
    for known in _facts(run).values():
        told.update((name, known[name]) for name in names if name in known)
    return [(value, name) for name, value in told.items() if values and min(values) <= value <= max(values)]


def _one_value(run: Run, axis: Told) -> bool:
    """Whether it is a parameter that has the same value throughout: no axis."""
    return axis["of"] == "param" and len({cell.params.get(axis["name"]) for cell in run.cells}) < 2


def _facts(run: Run) -> dict[int, dict[str, float]]:
    """Of each cell, whichever of its phases tells it."""
    found: dict[int, dict[str, float]] = {}
    for row in summarize(run):
        known = {name: value for name, value in row.facts.items() if isinstance(value, (int, float))}
        found.setdefault(id(row.cell), {}).update(known)
    return found


def _figure(row: Row, axis: Told, facts: Mapping[int, Mapping[str, float]]) -> Estimate | None:
    cell = row.summary.cell
    if axis["of"] == "metric":
        return estimated(row.summary, _metric(row, axis))
    value = cell.params.get(axis["name"]) if axis["of"] == "param" else facts.get(id(cell), {}).get(axis["name"])
    return Estimate(float(value), None, None) if isinstance(value, (int, float)) else None


def _metric(row: Row, axis: Told) -> Metric:
    return METRICS.get(axis["name"]) or fitting([row.summary])


def _at(name: str, found: Estimate) -> Record:
    return {name: found.median, f"{name}_low": found.low, f"{name}_high": found.high}


def _unit(row: Row, told: Told) -> str:
    metrics = [_metric(row, told[name]) for name in ("x", "y") if told[name]["of"] == "metric"]
    return next((metric.title for metric in metrics if metric is not THROUGHPUT), f"{row.summary.unit}/s")


def _side(axis: Told, unit: str) -> lines.Side:
    log, measured_ = axis.get("scale") == "log", axis["of"] == "metric"
    metric = METRICS.get(axis["name"]) if measured_ else None
    kind = KINDS[metric.kind] if metric is not None else "rate" if measured_ else axis.get("kind", "count")
    title = axis.get("title") or (
        (f"{unit}/s" if metric in (None, THROUGHPUT) else metric.title) if measured_ else ""
    )
    return lines.Side(title or axis["name"], kind, log, interval=measured_)


def _columns(name: str, axis: Told) -> tuple[Column, ...]:
    if axis["of"] != "metric":
        return (Column(name, axis.get("title") or axis["name"], COLUMNS[axis.get("kind", "count")]),)
    metric = METRICS.get(axis["name"], THROUGHPUT)
    kind = KINDS[metric.kind]
    title = "median a second" if metric is THROUGHPUT else metric.title
    return (
        Column(name, title, kind),
        Column(f"{name}_low", "95 % from", kind),
        Column(f"{name}_high", "95 % to", kind),
    )
