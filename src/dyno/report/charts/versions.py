"""The chart of the versions of engines: a line over the versions in release order, with the changes of speed."""

from collections.abc import Sequence

from dyno.contracts.model import VERSION
from dyno.contracts.value_types import JsonObject
from dyno.contracts.versions import release_order
from dyno.report.charts import vega
from dyno.report.charts.chart import REMARKS, TRIALS, Chart, Column, Record, rows
from dyno.report.charts.lines import KINDS, look_of_lines
from dyno.report.tables.table import varying_params
from dyno.report.tables.versions import describe_step, describe_steps
from dyno.results import Run
from dyno.stats.metric import METRICS, THROUGHPUT, estimate_metric
from dyno.stats.versions import SHOWN, VersionSeries, list_series

KIND_BY_TITLE = {metric.title: KINDS[metric.kind] for metric in METRICS.values() if metric is not THROUGHPUT}
"""Format of a metric's figures, by the title that is the unit of its records."""


def spec(engines: Sequence[str], unit: str) -> JsonObject:
    """Returns the specification. The records are in the order of the versions."""
    kind = KIND_BY_TITLE.get(unit, "rate")
    title = unit if unit in KIND_BY_TITLE else f"{unit}/s"
    x = {"x": vega.nominal("version", sort=None, axis={"title": "version", "labelAngle": -40, "labelOverlap": False})}
    axis = {"title": title, "labelExpr": vega.figure(kind, "datum.value"), "tickCount": vega.TICKS}
    scale = {"zero": False, "nice": True, "padding": 10}
    y = {"y": vega.quantity("y", scale=scale, axis=axis)}
    look = look_of_lines("series")
    colour = {"color": look["color"]}
    tips = {"engine": "engine", "text": title, "reach": "95 % interval", "change": "change", "remarks": "remarks"}
    told = {"description": {"field": "spoken"}, "tooltip": vega.tooltip(tips)}
    reach = {**x, **colour, "y": vega.quantity("from", scale=scale, axis=axis), "y2": {"field": "to"}}
    changes = [
        vega.layer(
            vega.mark("rule", color=vega.VERDICTS[verdict][0], strokeDash=[4, 3], strokeWidth=2),
            {**x, "tooltip": vega.tooltip({"change": "change"})},
            f"datum.changed === {vega.literal(verdict)}",
        )
        for verdict in SHOWN
    ]
    texts = {
        "text": vega.figure(kind, "datum.y"),
        "reach": vega.interval_text(kind, "datum.low", "datum.high"),
    }
    spoken = vega.add_spoken_text("datum.engine", f"{vega.literal(title)} + ' ' + datum.text", "datum.change")
    return {
        "data": {"name": "records"},
        "transform": [*vega.calculate(texts), spoken, *vega.outermost("datum.y"), *vega.clip()],
        "encoding": {"detail": [vega.nominal("series")]},
        "layer": [
            # The line comes first: its layer has all records, whose order is that of the axis.
            vega.layer(vega.mark("line", strokeWidth=2), {**x, **y, **colour, "order": {"field": "place"}}),
            *changes,
            vega.layer(vega.mark("rule", strokeWidth=2, opacity=0.6), reach, "isValid(datum.low)"),
            vega.layer({"type": "point", "filled": True, "size": 75, "opacity": 1}, {**x, **y, **look, **told}),
            *vega.arrows({**x, **colour}, "y"),
        ],
    }


def records(run: Run) -> list[Record]:
    """Returns the records of each panel in the order of engines and versions, so that series share an axis."""
    every = list_series(run)
    common = {id(row.summary): record for row, record in (rows(run) if every else ())}
    engines = list(dict.fromkeys(series.rows[0].cell.engine for series in every))
    points = [(series, at) for series in every for at in range(len(series.rows))]

    def order(point: tuple[VersionSeries, int]) -> tuple[int, object]:
        series, at = point
        cell = series.rows[at].cell
        return engines.index(cell.engine), release_order(str(cell.options[VERSION]))

    records = []
    for place, (series, at) in enumerate(sorted(points, key=order)):
        row = series.rows[at]
        by = series.table.metric
        figure = estimate_metric(row, by)
        if figure is None:
            continue
        version = series.versions[at]
        step = next((step for step in series.steps if step.at == at), None)
        record = {
            **common[id(row)],
            "series": series.name,
            "version": f"{row.cell.engine} {version}" if len(engines) > 1 else version,
            "place": place,
            "y": figure.median,
            "low": figure.low,
            "high": figure.high,
            "changed": None if step is None else step.verdict.kind,
            "change": "" if step is None else describe_step(series, step),
            "unit": f"{row.unit}/s" if by is THROUGHPUT else by.title,
            "write": KINDS[by.kind],
            "trials": len(row.samples),
        }
        records.append(record)
    return records


def says(run: Run) -> list[Record]:
    """Returns the sentence on each series."""
    changing = varying_params(run)
    return [
        {
            "phase": series.table.phase,
            "tier": series.rows[0].cell.tier_name,
            "params": {name: series.table.params[name] for name in changing},
            "engines": [row.cell.label for row in series.rows],
            "text": f"{series.name}: {describe_steps(series)}.",
        }
        for series in list_series(run)
    ]


VERSIONS = Chart(
    name="versions",
    title="By version",
    reading="The versions of an engine in release order: the median over trials of the metric by which rows are"
    " compared, with its 95 % interval. A dashed line marks a version that changed the speed: orange is slower, blue"
    " is faster. All changes hold together.",
    needs="two versions of an engine: -e ENGINE@VERSION,ENGINE@VERSION",
    columns=(
        Column("series", "engine"),
        Column("version", "version"),
        Column("y", "median", "own"),
        Column("low", "95 % from", "own"),
        Column("high", "95 % to", "own"),
        Column("change", "change"),
        Column("unit", "unit"),
        TRIALS,
        REMARKS,
    ),
    records=records,
    spec=spec,
    says=says,
)
