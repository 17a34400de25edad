"""Charts that a suite declares: two figures of its cells plotted against each other, as the run file describes
them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dyno.report.charts import lines
from dyno.report.charts.chart import ENGINE, REMARKS, TRIALS, Chart, Column, Record, valid_rows
from dyno.report.charts.lines import KINDS
from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.metric import METRICS, THROUGHPUT, estimated, fitting
from dyno.stats.summary import summarize

Declared = Mapping[str, Any]
"""A curve or an axis from the run file: see `dyno.contracts.suite.Curve`."""


def charts(run: Run) -> list[Chart]:
    return [_chart(run, declared) for declared in run.header.get("charts") or ()]


def _chart(run: Run, curve: Declared) -> Chart:
    line, point = curve.get("line", ""), curve.get("point", "")
    swept = [curve[side]["name"] for side in ("x", "y") if curve[side]["of"] == "param"]
    marks = _marks(run, curve["x"])
    columns = [ENGINE]
    columns += [Column("line", line)] if line else []
    columns += [Column("point", point, "count")] if point else []
    for name in ("x", "y"):
        side, metric = _side(curve[name], ""), METRICS.get(curve[name]["name"], THROUGHPUT)
        if not side.interval:
            columns.append(Column(name, side.title, side.kind))
        else:
            title = "median a second" if metric is THROUGHPUT else metric.title
            ends = (("", title), ("_low", "95 % from"), ("_high", "95 % to"))
            columns += [Column(f"{name}{end}", text, side.kind) for end, text in ends]

    def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
        x = replace(_side(curve["x"], unit), marks=marks)
        return lines.spec(engines, x, _side(curve["y"], unit), line, point)

    return Chart(
        name=curve["name"],
        title=curve["title"],
        reading=curve["reading"],
        needs=f"{curve['x']['name']} and {curve['y']['name']} from the suite",
        columns=(*columns, Column("unit", "unit"), TRIALS, REMARKS),
        records=lambda run: _records(run, curve),
        spec=spec,
        spans=(*filter(None, (line, point)), *swept),
    )


def _side(axis: Declared, unit: str) -> lines.Side:
    log, title = axis.get("scale") == "log", axis.get("title")
    if axis["of"] != "metric":
        return lines.Side(title or axis["name"], axis.get("kind", "count"), log)
    metric = METRICS.get(axis["name"], THROUGHPUT)
    default = f"{unit}/s" if metric is THROUGHPUT else metric.title
    return lines.Side(title or default, KINDS[metric.kind], log, interval=True)


def _records(run: Run, curve: Declared) -> list[Record]:
    """Returns the records by phase, then by line in the order of the run."""
    line, point, phases = curve.get("line", ""), curve.get("point", ""), curve.get("phases") or run.plan["phases"]
    axes = {side: curve[side] for side in ("x", "y")}
    for axis in axes.values():
        # A parameter with a single value spans no axis.
        if axis["of"] == "param" and len({cell.params.get(axis["name"]) for cell in run.cells}) < 2:
            return []
    facts = _facts(run)
    records = []
    for row, common in valid_rows(run):
        summary, params = row.summary, row.summary.cell.params
        if summary.phase not in phases or any(name not in params for name in (line, point) if name):
            continue
        record = {**common, **({"line": str(params[line])} if line else {})}
        record |= {"point": params[point]} if point else {}
        unit = ""
        for side, axis in axes.items():
            name, figure = axis["name"], None
            if axis["of"] == "metric":
                metric = METRICS.get(name) or fitting([summary])
                figure = estimated(summary, metric)
                unit = unit or ("" if metric is THROUGHPUT else metric.title)
            else:
                value = params.get(name) if axis["of"] == "param" else facts.get(id(summary.cell), {}).get(name)
                figure = Estimate(float(value), None, None) if isinstance(value, (int, float)) else None
            if figure is None:
                break
            record |= {side: figure.median, f"{side}_low": figure.low, f"{side}_high": figure.high}
        else:
            records.append({**record, "unit": unit or f"{summary.unit}/s", "trials": len(summary.samples)})
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
