"""Charts that a suite declares: two figures of its cells plotted against each other, as the run file describes
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dyno.report.charts import lines
from dyno.report.charts.chart import ENGINE, REMARKS, TRIALS, Chart, Column, Record, valid_rows
from dyno.report.charts.lines import KINDS
from dyno.report.tables.table import Row
from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.metric import METRICS, THROUGHPUT, Metric, estimated, fitting
from dyno.stats.summary import summarize

Declared = Mapping[str, Any]
"""A curve or an axis from the run file: see `dyno.contracts.suite.Curve`."""


def charts(run: Run) -> list[Chart]:
    return [_chart(run, declared) for declared in run.header.get("charts") or ()]


def _chart(run: Run, curve: Declared) -> Chart:
    line, point = curve.get("line", ""), curve.get("point", "")
    swept = [curve[side]["name"] for side in ("x", "y") if curve[side]["of"] == "param"]
    marks = _marks(run, curve["x"])

    def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
        x = replace(_side(curve["x"], unit), marks=marks)
        return lines.spec(engines, x, _side(curve["y"], unit), line, point)

    return Chart(
        name=curve["name"],
        title=curve["title"],
        reading=curve["reading"],
        needs=f"{curve['x']['name']} and {curve['y']['name']} from the suite",
        columns=(
            ENGINE,
            *((Column("line", line),) if line else ()),
            *((Column("point", point, "count"),) if point else ()),
            *_columns("x", curve["x"]),
            *_columns("y", curve["y"]),
            Column("unit", "unit"),
            TRIALS,
            REMARKS,
        ),
        records=lambda run: _records(run, curve),
        spec=spec,
        spans=(*filter(None, (line, point)), *swept),
    )


def _records(run: Run, curve: Declared) -> list[Record]:
    """Returns the records by phase, then by line in the order of the run."""
    line, point, phases = curve.get("line", ""), curve.get("point", ""), curve.get("phases") or run.plan["phases"]
    for axis in (curve["x"], curve["y"]):
        # A parameter with a single value spans no axis.
        if axis["of"] == "param" and len({cell.params.get(axis["name"]) for cell in run.cells}) < 2:
            return []
    facts = _facts(run)
    records = []
    for row, common in valid_rows(run):
        params = row.summary.cell.params
        if row.summary.phase not in phases or any(name not in params for name in (line, point) if name):
            continue
        sides = {side: _figure(row, curve[side], facts) for side in ("x", "y")}
        if any(figure is None for figure in sides.values()):
            continue
        record = {
            **common,
            **({"line": str(params[line])} if line else {}),
            **({"point": params[point]} if point else {}),
        }
        for side, figure in sides.items():
            assert figure is not None
            record |= {side: figure.median, f"{side}_low": figure.low, f"{side}_high": figure.high}
        records.append({**record, "unit": _unit(row, curve), "trials": len(row.summary.samples)})
    places: dict[tuple[object, ...], int] = {}
    for at, cell in enumerate(run.cells):
        places.setdefault((cell.tier_name, cell.label, str(cell.params.get(line, ""))), at)
    order = list(dict.fromkeys(record["phase"] for record in records))
    return sorted(records, key=lambda r: (order.index(r["phase"]), places[r["tier"], r["engine"], r.get("line", "")]))


def _marks(run: Run, axis: Declared) -> list[tuple[float, str]]:
    """Returns the facts to mark on a parameter's axis, if they are within the range of its values."""
    names = axis.get("marks")
    if not names:
        return []
    values = [float(v) for cell in run.cells if isinstance(v := cell.params.get(axis["name"]), (int, float))]
    marks: dict[str, float] = {}
    for facts in _facts(run).values():
        marks.update((name, facts[name]) for name in names if name in facts)
    return [(value, name) for name, value in marks.items() if values and min(values) <= value <= max(values)]


def _facts(run: Run) -> dict[int, dict[str, float]]:
    """Returns the numeric facts of each cell, over all its phases."""
    by_cell: dict[int, dict[str, float]] = {}
    for row in summarize(run):
        facts = {name: value for name, value in row.facts.items() if isinstance(value, (int, float))}
        by_cell.setdefault(id(row.cell), {}).update(facts)
    return by_cell


def _figure(row: Row, axis: Declared, facts: Mapping[int, Mapping[str, float]]) -> Estimate | None:
    cell = row.summary.cell
    if axis["of"] == "metric":
        return estimated(row.summary, _metric(row, axis))
    value = cell.params.get(axis["name"]) if axis["of"] == "param" else facts.get(id(cell), {}).get(axis["name"])
    return Estimate(float(value), None, None) if isinstance(value, (int, float)) else None


def _metric(row: Row, axis: Declared) -> Metric:
    return METRICS.get(axis["name"]) or fitting([row.summary])


def _unit(row: Row, curve: Declared) -> str:
    metrics = [_metric(row, curve[name]) for name in ("x", "y") if curve[name]["of"] == "metric"]
    return next((metric.title for metric in metrics if metric is not THROUGHPUT), f"{row.summary.unit}/s")


def _side(axis: Declared, unit: str) -> lines.Side:
    log, title = axis.get("scale") == "log", axis.get("title")
    if axis["of"] != "metric":
        return lines.Side(title or axis["name"], axis.get("kind", "count"), log)
    metric = METRICS.get(axis["name"], THROUGHPUT)
    default = f"{unit}/s" if metric is THROUGHPUT else metric.title
    return lines.Side(title or default, KINDS[metric.kind], log, interval=True)


def _columns(name: str, axis: Declared) -> tuple[Column, ...]:
    if axis["of"] != "metric":
        return (Column(name, axis.get("title") or axis["name"], axis.get("kind", "count")),)
    metric = METRICS.get(axis["name"], THROUGHPUT)
    kind = KINDS[metric.kind]
    title = "median a second" if metric is THROUGHPUT else metric.title
    ends = (Column(f"{name}_{end}", f"95 % {text}", kind) for end, text in (("low", "from"), ("high", "to")))
    return (Column(name, title, kind), *ends)
