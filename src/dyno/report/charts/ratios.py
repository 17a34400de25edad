"""The chart of ratios: every engine compared with a baseline, with intervals and verdicts."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dyno.report.charts import bars, theme, vega
from dyno.report.charts.chart import ENGINE, REMARKS, Chart, Column, Record, common, valid_rows
from dyno.report.tables import display_limits, wording
from dyno.report.tables.table import reported, varying
from dyno.results import Run
from dyno.stats import compare
from dyno.stats.compare import Comparison, Table

# A logarithmic scale leaves some of its labels empty. Of nine ticks per power of ten, this expression also drops 4,
# 6, 8 and 9.
TICK_TEXT = (
    f"datum.label === '' || test(/^[0.]*[4689]0*$/, datum.value) ? '' : {vega.figure('factor', 'datum.value')}"
)


def records(run: Run) -> list[Record]:
    """Returns the ratios of every engine to every other. If there are too many, returns only those to the best of
    each place."""
    if not has_all(run):
        return against(run, lambda table: None)
    best = {(id(table.rows[0][0].cell), table.phase) for table in compare.tables(run)}

    def axis(pair: Comparison) -> str:
        """Returns the key of the pair's axis. Ratios to the best of each place share an axis, and so do all ratios to
        one other engine."""
        return "" if (id(pair.baseline), pair.phase) in best else pair.baseline.label

    return _records(run, compare.pairs(run), axis)


def has_all(run: Run) -> bool:
    """Returns whether every engine can be the baseline. The number of ratios grows with the square of the number of
    engines."""
    return sum(len(table.rows) * (len(table.rows) - 1) for table in compare.tables(run)) <= display_limits.RATIOS


def against(run: Run, baseline: Callable[[Table], str | None]) -> list[Record]:
    """Returns the ratios to one engine of each table, which is the best if `baseline` returns None. Tables without
    that engine are skipped."""
    pairs = (pair for table in compare.tables(run) for pair in compare.against(table, baseline(table)))
    return _records(run, pairs, lambda pair: "")


def _records(run: Run, pairs: Iterable[Comparison], axis: Callable[[Comparison], str]) -> list[Record]:
    """Returns the records of the pairs. `axis` returns the key of the axis that pairs share. Each record has the
    `least` and `most` ratio on its axis."""
    changing = varying(run)
    rows = {(id(row.summary.cell), row.summary.phase): row for row, _ in valid_rows(run)}
    records = []
    ratios: dict[str, list[float]] = {}
    for pair in pairs:
        verdict = pair.verdict
        row, other = rows[id(pair.engine), pair.phase], rows[id(pair.baseline), pair.phase]
        mine, base = (", ".join(doubt.short for doubt in each.doubts) for each in (row, other))
        tool = reported(row.summary) if row.summary.reported_by else ""
        on_axis = ratios.setdefault(axis(pair), [1.0])
        if verdict.ratio is not None:
            on_axis.append(verdict.ratio)
        record = {
            **common(pair.engine, row.place, changing),
            "baseline": pair.baseline.label,
            "by": pair.metric.title,
            "ratio": verdict.ratio,
            "low": verdict.low,
            "high": verdict.high,
            "kind": verdict.kind,
            "verdict": wording.verdict(verdict),
            "blocks": verdict.blocks,
            "remarks": ", ".join(filter(None, [tool, mine, base and f"baseline: {base}"])),
        }
        records.append((record, on_axis))
    ends = {id(on_axis): {"least": min(on_axis), "most": max(on_axis)} for on_axis in ratios.values()}
    return [{**record, **ends[id(on_axis)]} for record, on_axis in records]


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    """Returns the specification for the ratios to one baseline."""
    axis = {
        "title": "speed as a multiple of the baseline's",
        "labelExpr": TICK_TEXT,
        "grid": False,
        "tickCount": 8,
        "labelOverlap": "greedy",
        "labelSeparation": 6,
    }
    x = {"type": "quantitative", "scale": {"type": "log", "nice": False, "padding": 16}, "axis": axis}
    colours, shapes = (
        vega.nominal("kind", legend=None, scale={"domain": list(theme.VERDICTS), "range": list(looks)})
        for looks in zip(*theme.VERDICTS.values(), strict=True)
    )
    titles = {"engine": "engine", "baseline": "baseline", "by": "compared by", "figure": "ratio"}
    titles |= {"reach": f"{wording.LEVEL} interval", "verdict": "verdict", "blocks": "samples", "remarks": "remarks"}
    point = {
        "y": bars.y(),
        "x": {**x, "field": "ratio"},
        "color": colours,
        "shape": shapes,
        "tooltip": vega.tooltip(titles),
        "description": {"field": "spoken"},
    }
    interval = {"y": bars.y(bars.LEFT), "x": {**x, "field": "from"}, "x2": {"field": "to"}, "color": colours}
    # Invisible marks at the ends of the axis, so that it is the same in all panels.
    ends = [
        vega.layer(vega.mark("tick", opacity=0), {"y": bars.y(), "x": {**x, "field": end}})
        for end in ("start", "end")
    ]
    layers = [
        *ends,
        vega.layer(vega.mark("rule", style="one"), {"x": {**x, "datum": 1}}),
        vega.layer(vega.mark("rule", strokeWidth=3, strokeCap="round"), interval, "isValid(datum.ratio)"),
        vega.layer({"type": "point", "filled": True, "size": 120, "opacity": 1}, point, "isValid(datum.ratio)"),
        *vega.arrows({"y": bars.y(), "color": colours}, "x"),
    ]
    texts = {
        "row": "datum.engine",
        "figure": vega.known("datum.ratio", vega.figure("factor", "datum.ratio")),
        "reach": vega.interval_text("factor", "datum.low", "datum.high"),
    }
    spoken = vega.spoken("datum.engine + ' against ' + datum.baseline", "datum.figure", "datum.verdict")
    return bars.by_row([*vega.calculate(texts), *vega.clip(log=True), spoken], layers, "verdict")


CHART = Chart(
    name="ratios",
    title="Ratios",
    reading="The speed of each engine as a multiple of the baseline's: the median of the ratios of the blocks, with"
    f" its {wording.LEVEL} interval, on a logarithmic scale. If the interval does not include × 1, there is a"
    " difference.",
    needs="two engines at one tier, with the same parameters and three blocks in common",
    columns=(
        ENGINE,
        Column("baseline", "baseline"),
        Column("by", "compared by"),
        Column("ratio", "ratio", "ratio"),
        Column("low", f"{wording.LEVEL} from", "ratio"),
        Column("high", f"{wording.LEVEL} to", "ratio"),
        Column("verdict", "verdict"),
        Column("blocks", "samples", "count"),
        REMARKS,
    ),
    records=records,
    spec=spec,
)
