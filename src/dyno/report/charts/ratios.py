"""Every engine against a baseline: ratios with their intervals, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dyno.report.charts import bars, clipping, theme, units
from dyno.report.charts.chart import Chart, Column, Record
from dyno.report.charts.rows import common, measured
from dyno.report.tables import display_limits, wording
from dyno.report.tables.table import reported, varying
from dyno.results import Run
from dyno.stats import compare
from dyno.stats.compare import Comparison, Table

# Nine ticks in each power of ten are too many. The scale's own labels are empty where it has many of them.
FEWER = f"datum.label === '' || test(/^[0.]*[4689]0*$/, datum.value) ? '' : {units.ratio('datum.value')}"


def records(run: Run) -> list[Record]:
    """Of every engine against every other; where that would be too many, against the best of each place. Those of one
    `baseline` make a picture."""
    if not has_all(run):
        return against(run, lambda table: None)
    best = {(id(table.rows[0][0].cell), table.phase) for table in compare.tables(run)}

    def group(pair: Comparison) -> str:
        """Those against the best of each place stand on one axis; and so do all others against one engine."""
        return "" if (id(pair.baseline), pair.phase) in best else pair.baseline.label

    return _records(run, compare.pairs(run), group)


def has_all(run: Run) -> bool:
    """Whether each engine is a baseline for the others: their number is the square of that of the engines."""
    return sum(len(table.rows) * (len(table.rows) - 1) for table in compare.tables(run)) <= display_limits.RATIOS


def against(run: Run, baseline: Callable[[Table], str | None]) -> list[Record]:
    """Of every engine against one of its table, None for the best; nothing of a table that does not have it."""
    pairs = (found for each in compare.tables(run) for found in compare.against(each, baseline(each)))
    return _records(run, pairs, lambda pair: "")


def _records(run: Run, pairs: Iterable[Comparison], group: Callable[[Comparison], str]) -> list[Record]:
    """`group`: of the pairs that stand on one axis."""
    changing = varying(run)
    rows = {(id(row.summary.cell), row.summary.phase): row for row, _ in measured(run)}
    found, groups = [], []
    for pair in pairs:
        groups.append(group(pair))
        verdict = pair.verdict
        row = rows[id(pair.engine), pair.phase]
        other = rows[id(pair.baseline), pair.phase]
        mine, base = (", ".join(doubt.short for doubt in each.doubts) for each in (row, other))
        tool = reported(row.summary) if row.summary.reported_by else ""
        found.append(
            {
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
        )
    return _on_one_axis(found, groups)


def _on_one_axis(found: Sequence[Record], groups: Sequence[str]) -> list[Record]:
    """With `least` and `most`: the ratios that its axis has room for, the same for all records of a group."""
    points: dict[str, list[float]] = {}
    for record, group in zip(found, groups, strict=True):
        points.setdefault(group, [1.0]).extend([record["ratio"]] if record["ratio"] is not None else [])
    ends = {group: {"least": min(known), "most": max(known)} for group, known in points.items()}
    return [{**record, **ends[group]} for record, group in zip(found, groups, strict=True)]


def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
    """Of the records of one baseline."""
    reach = f"{units.ratio('datum.low')} + ' – ' + {units.ratio('datum.high')}"
    tooltip = [
        {"field": "engine", "title": "engine"},
        {"field": "baseline", "title": "baseline"},
        {"field": "by", "title": "compared by"},
        {"field": "figure", "title": "ratio"},
        {"field": "reach", "title": f"{wording.LEVEL} interval"},
        {"field": "verdict", "title": "verdict"},
        {"field": "blocks", "title": "samples"},
        {"field": "remarks", "title": "remarks"},
    ]
    axis = {
        "title": "speed as a multiple of the baseline's",
        "labelExpr": FEWER,
        "grid": False,
        "tickCount": 8,
        "labelOverlap": "greedy",
        "labelSeparation": 6,
    }
    x = {"type": "quantitative", "scale": {"type": "log", "nice": False, "padding": 16}, "axis": axis}
    kinds = list(theme.VERDICTS)
    colours, shapes = (
        {"field": "kind", "type": "nominal", "legend": None, "scale": {"domain": kinds, "range": list(looks)}}
        for looks in zip(*theme.VERDICTS.values(), strict=True)
    )
    known = [{"filter": "isValid(datum.ratio)"}]
    reaching = {"y": bars.left(), "x": {**x, "field": "from"}, "x2": {"field": "to"}, "color": colours}
    whole = [
        {
            "mark": {"type": "tick", "aria": False, "opacity": 0},
            "encoding": {"y": bars.hidden(), "x": {**x, "field": end}},
        }
        for end in ("start", "end")
    ]
    at = {
        "y": bars.hidden(),
        "x": {**x, "field": "ratio"},
        "color": colours,
        "shape": shapes,
        "tooltip": tooltip,
        "description": {"field": "spoken"},
    }
    return {
        "data": {"name": "records"},
        "height": {"step": bars.STEP},
        "transform": [
            {"calculate": "datum.engine", "as": "row"},
            {"calculate": units.either("datum.ratio", units.ratio("datum.ratio")), "as": "figure"},
            {"calculate": units.either("datum.low", reach), "as": "reach"},
            *clipping.cut(log=True),
            bars.line("verdict"),
            units.spoken("datum.engine + ' against ' + datum.baseline", "datum.figure", "datum.verdict"),
        ],
        **bars.rows(
            *whole,
            {"mark": {"type": "rule", "aria": False, "style": "one"}, "encoding": {"x": {**x, "datum": 1}}},
            {
                "transform": known,
                "mark": {"type": "rule", "aria": False, "strokeWidth": 3, "strokeCap": "round"},
                "encoding": reaching,
            },
            {
                "transform": known,
                "mark": {"type": "point", "filled": True, "size": 120, "opacity": 1},
                "encoding": at,
            },
            *clipping.arrows({"y": bars.hidden(), "color": colours}),
        ),
    }


CHART = Chart(
    name="ratios",
    title="Ratios",
    reading="The speed of each engine as a multiple of the baseline's: the median of the ratios of the blocks, with"
    f" its {wording.LEVEL} interval, on a scale of factors. An interval that does not reach × 1 is a difference.",
    needs="two engines at one tier, with the same parameters and three blocks in common",
    columns=(
        Column("engine", "engine"),
        Column("baseline", "baseline"),
        Column("by", "compared by"),
        Column("ratio", "ratio", "ratio"),
        Column("low", f"{wording.LEVEL} from", "ratio"),
        Column("high", f"{wording.LEVEL} to", "ratio"),
        Column("verdict", "verdict"),
        Column("blocks", "samples", "count"),
        Column("remarks", "remarks"),
    ),
    records=records,
    spec=spec,
)
