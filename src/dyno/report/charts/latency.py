"""The chart of latencies: percentile curves."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dyno.contracts.histogram import PERCENTILES, curve
from dyno.report.charts import vega
from dyno.report.charts.chart import ENGINE, REMARKS, Chart, Column, Record, Selector, valid_rows
from dyno.results import Run

SERVICE, RESPONSE = "service time", "response time"
# Percentiles of the curve: the median, and ten steps for each further nine.
GRID = tuple(sorted({50.0, *(round(100 - 10 ** (2 - step / 10), 6) for step in range(51))}))
MARKED = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
REMAINING = 10
"""A curve ends at the percentile that fewer operations than this exceed: beyond it, the curve would be chance."""
FIGURES = ("p50", "p90", "p99", "p999", "max")


def select(run: Run, selector: Selector) -> Iterator[Record]:
    """Yields a record for each curve, with parallel lists (which the specification flattens) and the figures of the
    table. Decodes only the histograms of selected rows."""
    for row, record in valid_rows(run):
        if not selector(record):
            continue
        summary = row.summary
        # A curve merges all trials. It has no interval, because an interval is never computed inside a trial.
        if points := dict(curve((sample.histogram for sample in summary.samples), GRID, REMAINING)):
            yield _record(record, SERVICE, summary.latency_ns, points)
        if points := dict(curve((sample.response for sample in summary.samples), GRID, REMAINING)):
            yield _record(record, RESPONSE, summary.response_ns, points)


def brief(run: Run) -> list[Record]:
    """Returns curves of the percentiles that every row already has, without decoding a histogram."""
    records = []
    for row, record in valid_rows(run):
        count = sum(sample.operations for sample in row.summary.samples)
        for kind, figures in ((SERVICE, row.summary.latency_ns), (RESPONSE, row.summary.response_ns)):
            known = {at: ns for name, at in PERCENTILES.items() if at in MARKED and (ns := figures[name]) is not None}
            points = {at: ns for at, ns in known.items() if (100 - at) * count >= REMAINING * 99.999}
            if points:
                records.append(_record(record, kind, figures, points))
    return records


def _record(record: Record, kind: str, figures: Mapping[str, int | None], points: Mapping[float, float]) -> Record:
    lists = {"percentile": list(points), "ns": list(points.values())}
    return {**record, "kind": kind, **{name: figures[name] for name in FIGURES}, **lists}


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    # Each further nine takes as much room as the one before.
    places = [math.log10(100 / (100 - percentile)) for percentile in MARKED]
    names = " : ".join(
        f"datum.value < {place + 0.1:.6g} ? '{p:.10g}'" for p, place in zip(MARKED, places, strict=True)
    )
    x = {"title": "percentile", "values": places, "labelExpr": f"{names} : ''"}
    y = {"title": None, "labelExpr": vega.figure("ns", "datum.value"), "values": vega.DECADES}
    legend = {"title": None, "orient": "top", "symbolType": "stroke", "columns": 2}
    dash = vega.nominal("kind", sort=[SERVICE, RESPONSE], scale={"range": [[1, 0], [5, 3]]}, legend=legend)
    titles = {"engine": "engine", "kind": "what", "percentile": "percentile", "figure": "at most"}
    titles |= {"remarks": "remarks"}
    point = {
        "shape": vega.by_engine(engines, "shape"),
        "description": {"field": "spoken"},
        "tooltip": vega.tooltip(titles),
    }
    texts = {"place": "log(100 / (100 - datum.percentile)) / LN10", "figure": vega.figure("ns", "datum.ns")}
    spoken = vega.spoken("datum.engine", "datum.kind", "datum.percentile + ' % at most ' + datum.figure")
    return {
        "data": {"name": "records"},
        "transform": [{"flatten": ["percentile", "ns"]}, *vega.calculate(texts), spoken],
        "encoding": {
            "x": vega.quantity("place", scale={"nice": False, "zero": True}, axis=x),
            "y": vega.quantity("ns", scale={"type": "log"}, axis=y),
            "color": vega.by_engine(engines, "color"),
        },
        "layer": [
            vega.layer(
                vega.mark("line", strokeWidth=2, interpolate="step-before"),
                {"strokeDash": dash, "detail": {"field": "engine"}},
            ),
            vega.layer(
                {"type": "point", "filled": True, "size": 60, "opacity": 1},
                point,
                f"indexof({list(MARKED)}, datum.percentile) >= 0",
            ),
        ],
    }


CHART = Chart(
    name="latency",
    title="Latency",
    reading="How long the given share of the operations took at most, all trials together; each further nine takes as"
    " much room as the one before. Lower is better. Where a curve turns up, its tail begins; it ends where fewer than"
    " ten operations took longer. Service time is the engine's own; response time, of an open loop, counts from the"
    " moment at which the operation was due.",
    needs="a phase that times each operation, not one call over all items",
    columns=(
        ENGINE,
        Column("kind", "what"),
        *(Column(name, {"p999": "p99.9"}.get(name, name), "ns") for name in FIGURES),
        REMARKS,
    ),
    records=lambda run: list(select(run, lambda record: True)),
    spec=spec,
    brief=brief,
    select=select,
)
