"""The charts of latencies: percentile curves, and throughput and latency by the second."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from dyno.contracts.histogram import PERCENTILES, curve
from dyno.contracts.rank import needed_values
from dyno.contracts.value_types import JsonObject
from dyno.fields import Sample
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
            points = {at: ns for at, ns in known.items() if count >= needed_values(at, REMAINING)}
            if points:
                records.append(_record(record, kind, figures, points))
    return records


def _record(record: Record, kind: str, figures: Mapping[str, int | None], points: Mapping[float, float]) -> Record:
    lists = {"percentile": list(points), "ns": list(points.values())}
    return {**record, "kind": kind, **{name: figures[name] for name in FIGURES}, **lists}


def spec(engines: Sequence[str], unit: str) -> JsonObject:
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
    spoken = vega.add_spoken_text("datum.engine", "datum.kind", "datum.percentile + ' % at most ' + datum.figure")
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


LATENCY = Chart(
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


# -- over time ----------------------------------------------------------------------------------------------

WHOLE = "datum.value % 1 ? '' : format(datum.value, ',')"
LEGEND_LINE = 900
"""Symbol size of the legend, large enough for a line to show its dashes."""
EXTENT = {"minExtent": 48}
"""Minimum width of the left axes, so that both panels begin at the same place."""
Point = tuple[float, int | None]
"""Operations per second, and the p99 in ns, which is None if no operation ended in the interval."""


def select_series(run: Run, selector: Selector) -> Iterator[Record]:
    """Yields a record for each line, with parallel lists (which the specification flattens) and the figures of the
    table. A second has the median over the trials that lasted until its end.

    Only very long trials have coarser intervals than others. In that case trials with finer intervals are left out,
    because percentiles of several intervals can't be merged.
    """
    for row, record in valid_rows(run):
        samples = row.summary.samples if selector(record) else []
        coarsest = max((point["interval_ns"] for sample in samples for point in sample.series), default=0)
        trials = [_series_points(s) for s in samples if s.series and s.series[0]["interval_ns"] == coarsest]
        seconds = sorted({second for trial in trials for second in trial})
        if len(seconds) < 2:
            continue
        points = [[trial[second] for trial in trials if second in trial] for second in seconds]
        rates = [median(rate for rate, _ in here) for here in points]
        known = [[ns for _, ns in here if ns is not None] for here in points]
        p99s = [int(median(of)) if of else None for of in known]
        yield {
            **record,
            "seconds": seconds[-1],
            "slowest": min(rates),
            "median": float(median(rates)),
            "fastest": max(rates),
            "worst_p99_ns": max((ns for ns in p99s if ns is not None), default=None),
            "second": seconds,
            "rate": rates,
            "p99_ns": p99s,
        }


def _series_points(sample: Sample) -> dict[float, Point]:
    """Returns the points of a trial, by the end of the interval in seconds. An interval in which no operation ended
    has a rate of zero, which shows a stall. The last interval is left out if the phase ended in its first half,
    because its rate would be mostly chance."""
    interval = sample.series[0]["interval_ns"]
    by_interval = {point["from_ns"] // interval: point for point in sample.series}
    points: dict[float, Point] = {}
    for at in range(max(by_interval) + 1):
        length = min(interval, sample.elapsed_ns - at * interval)
        if length >= interval / 2:
            point = by_interval.get(at)
            if point:
                rate = point["operations"] / length * 1e9
            else:
                rate = 0.0
            points[(at + 1) * interval / 1e9] = rate, point["p99_ns"] if point else None
    return points


def series_spec(engines: Sequence[str], unit: str) -> JsonObject:
    """Returns two panels, one below the other, over the same seconds."""
    titles = {"engine": "engine", "second": "second", "rate figure": "operations a second", "p99 figure": "p99"}
    titles |= {"remarks": "remarks"}

    def lines(height: int, y: JsonObject, x_axis: JsonObject) -> JsonObject:
        encoding = {
            "x": vega.quantity("second", scale={"nice": False, "zero": False}, axis={**x_axis, "grid": False}),
            "y": y,
            **{channel: vega.by_engine(engines, channel, LEGEND_LINE) for channel in ("color", "strokeDash")},
            "tooltip": vega.tooltip(titles),
        }
        return {"height": height, **vega.layer({"type": "line", "strokeWidth": 1.75}, encoding)}

    rate_axis = {"title": "op/s", "labelExpr": vega.figure("rate", "datum.value"), "tickCount": vega.TICKS, **EXTENT}
    p99_axis = {"title": "p99", "labelExpr": vega.figure("ns", "datum.value"), "values": vega.DECADES, **EXTENT}
    texts = {
        "rate figure": vega.figure("rate", "datum.rate"),
        "p99 figure": vega.known_or_dash("datum.p99_ns", vega.figure("ns", "datum.p99_ns")),
    }
    return {
        "data": {"name": "records"},
        "transform": [{"flatten": ["second", "rate", "p99_ns"]}, *vega.calculate(texts)],
        "spacing": 12,
        "vconcat": [
            lines(200, vega.quantity("rate", scale=vega.FROM_ZERO, axis=rate_axis), {"title": None, "labels": False}),
            lines(
                110,
                vega.quantity("p99_ns", scale={"type": "log"}, axis=p99_axis),
                {"title": "seconds", "labelExpr": WHOLE},
            ),
        ],
    }


SERIES = Chart(
    name="series",
    title="Over time",
    reading="Operations in each second of the measured time, and below it their p99 latency: for each second the"
    " median over trials. A dip is a stall: a compaction, a checkpoint, a busy device.",
    needs="phases of two seconds or more: dyno run --duration 10",
    columns=(
        ENGINE,
        Column("seconds", "measured for", "seconds"),
        Column("slowest", "slowest second", "rate"),
        Column("median", "median second", "rate"),
        Column("fastest", "fastest second", "rate"),
        Column("worst_p99_ns", "worst p99 of a second", "ns"),
        REMARKS,
    ),
    records=lambda run: list(select_series(run, lambda record: True)),
    spec=series_spec,
    select=select_series,
)
