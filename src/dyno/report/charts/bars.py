"""Charts with a row for each engine, with its name on the left and its figure on the right: throughput, size on disk,
the parts of a latency, and ratios to a baseline."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from dyno.contracts.value_types import JsonObject
from dyno.report.charts import vega
from dyno.report.charts.chart import ENGINE, REMARKS, TRIALS, Chart, Column, Record, common, remarks, rows, valid_rows
from dyno.report.tables import display, units, why, wording
from dyno.report.tables.table import ranked_by_bandwidth, reported_by_text, varying_params
from dyno.results import Run
from dyno.stats import compare
from dyno.stats.account import make_account
from dyno.stats.compare import Comparison, Table
from dyno.stats.metric import BANDWIDTH
from dyno.stats.summary import group_values
from dyno.stats.why import explain_run

STEP = 32
SCALE = {"type": "band", "paddingInner": 0.5, "paddingOuter": 0.25}
PART = "split(datum.label, '\\t')"
LEFT = {"labelExpr": f"{PART}[0]", "labelLimit": 240}
"""Axis on the left, with the rows' names."""
FEW = r"^(.{0,36}), .*$"
"""Matches remarks that are too long for a label, up to the last that has room."""
BRIEF = f"length({PART}[2]) > 40 ? replace({PART}[2], regexp('{FEW}'), '$1, …') : {PART}[2]"
"""Whole remarks, and a sign that there are more, which the tooltip and the table have."""
# The remarks are labels of an axis, so that the layout makes room for them.
RIGHT = {
    "orient": "right",
    "labelExpr": f"{PART}[1] + ({PART}[2] ? ' · ' + ({BRIEF}) : '')",
    "labelPadding": 10,
    "labelLimit": 400,
}
"""Axis on the right, with the rows' figures and remarks."""
LEGEND_COLUMNS = "width < 480 ? 2 : width < 900 ? 4 : 8"
"""Number of columns of a legend of parts, by the width of the chart in pixels."""
INTERVAL = "!datum.floor && isValid(datum.low)"
BYTES = "B/s"
SIZE_DOUBTS = ("few", "partial", "attempts", "unsettled")
"""Doubts about a size; all other doubts are about times."""


def y(axis: JsonObject | None = None) -> JsonObject:
    """Returns the encoding of a chart's rows, without labels if there is no `axis`."""
    opacity = {"condition": {"test": "indexof(datum.label, '(floor)') >= 0", "value": 0.7}, "value": 1}
    common = {"title": None, "domain": False, "ticks": False, "labelOverlap": False, "labelOpacity": opacity}
    return vega.nominal("line", sort=None, scale=SCALE, axis=axis and {**common, **axis})


def by_row(
    transform: Sequence[Mapping[str, object]], layers: Sequence[Mapping[str, object]], figure: str
) -> JsonObject:
    """Returns the specification of a chart with a row for each record, in the records' order. Records need `row`, the
    name."""
    # A row's text has three parts: its name on the left, and its figure and remarks on the right.
    line = {"calculate": f"datum.row + '\\t' + datum['{figure}'] + '\\t' + datum.remarks", "as": "line"}
    # Invisible marks for all records, so that records that other layers filter out keep their rows.
    every = vega.layer(vega.mark("tick", opacity=0), {"y": y(RIGHT)})
    return {
        "data": {"name": "records"},
        "height": {"step": STEP},
        "transform": [*transform, line],
        "resolve": {"axis": {"y": "independent"}},
        "layer": [every, *layers],
    }


def spec(engines: Sequence[str], field: str, title: str, kind: str, tooltip: Sequence[dict[str, str]]) -> JsonObject:
    """Returns the specification of bars of `field`. A row without a figure shows its record's `instead`. A floor's
    figure is printed but not drawn, because beside its bar all others would look alike."""
    value = f"datum['{field}']"
    axis = {"title": title, "labelExpr": vega.figure(kind, "datum.value"), "tickCount": vega.TICKS}
    bar = {
        "y": y(LEFT),
        "x": vega.quantity(field, scale=vega.FROM_ZERO, axis=axis),
        "color": vega.nominal("engine", scale=vega.scale(engines, "color"), legend=None),
        "tooltip": [*vega.tooltip({"row": "engine"}), *tooltip],
        "description": {"field": "spoken"},
    }
    texts = {
        "row": "datum.engine + (datum.floor ? ' (floor)' : '')",
        "figure": f"isValid({value}) ? {vega.figure(kind, value)} : datum.instead",
        "reach": vega.interval_text(kind, "datum.low", "datum.high"),
    }
    clipped = [*vega.outermost(f"datum.floor ? null : {value}"), *vega.clip()]
    spoken = vega.add_spoken_text("datum.row", "datum.figure", vega.literal(title))
    layers = [vega.layer("bar", bar, f"!datum.floor && isValid({value})")]
    return by_row([*vega.calculate(texts), *clipped, spoken], layers, "figure")


def throughputs(run: Run) -> list[Record]:
    """Returns the records of `brief`, with the figure of each trial. Floors have none, because their bars are not
    drawn."""
    records = brief(run)
    for (row, _), record in zip(rows(run), records, strict=True):
        moved, samples = ranked_by_bandwidth(row.summary), [] if record["floor"] else row.summary.samples
        figures = [sample.bytes_per_second if moved else sample.per_second for sample in samples]
        record["each"] = [float(f"{figure:.4g}") for figure in figures if figure is not None]
    return records


def brief(run: Run) -> list[Record]:
    """Returns the throughputs, or the bandwidths of rows that are ranked by it."""
    records = []
    for row, record in rows(run):
        summary, moved = row.summary, ranked_by_bandwidth(row.summary)
        if moved:
            estimate = summary.bandwidth
        else:
            estimate = summary.throughput
        # A row without a figure gets the unit of its phase.
        by_bytes = moved or (estimate is None and summary.about.metric == BANDWIDTH.name)
        more = {
            "throughput": estimate and estimate.median,
            "low": estimate and estimate.low,
            "high": estimate and estimate.high,
            "unit": BYTES if by_bytes else f"{summary.unit}/s",
            "write": "bandwidth" if by_bytes else "rate",
            "client_cpu_ns": summary.client_cpu_ns,
            "server_cpu_ns": summary.server_cpu_ns,
            "trials": len(summary.samples),
            "instead": "" if summary.valid else (summary.why or "not measured").split(":", 1)[0],
            "why": summary.why,
        }
        records.append({**record, **more})
    return records


def throughput_spec(engines: Sequence[str], unit: str) -> JsonObject:
    if f"{unit}/s" == BYTES:
        title = BANDWIDTH.title
        kind = "bandwidth"
    else:
        title = f"{unit}/s"
        kind = "rate"
    tooltip = {"figure": title, "reach": "95 % interval", "trials": "trials", "remarks": "remarks"}
    whole = spec(engines, "throughput", title, kind, vega.tooltip(tooltip))
    ends = {"x": vega.quantity("from"), "x2": {"field": "to"}}
    cap = vega.mark("tick", style="cap", size=9, thickness=1.5)
    caps = [
        vega.layer(cap, {"y": y(), "x": vega.quantity(end)}, INTERVAL, f"!datum.{cut}")
        for end, cut in (("from", "less"), ("to", "more"))
    ]
    # A dot below the bar for each trial whose figure is within the axis.
    trials = {
        "transform": [
            {"filter": "!datum.floor && isArray(datum.each)"},
            {"flatten": ["each"]},
            {"filter": "isValid(datum.each) && datum.each >= datum.start && datum.each <= datum.end"},
        ],
        "mark": vega.mark("point", filled=True, style="trial", size=14, opacity=0.7),
        "encoding": {"y": {**y(), "bandPosition": 1.2}, "x": vega.quantity("each")},
    }
    whole["layer"] += [
        vega.layer(vega.mark("rule", style="interval"), {"y": y(), **ends}, INTERVAL),
        *caps,
        *vega.arrows({"y": y()}, "x", INTERVAL, style="cut"),
        trials,
    ]
    return whole


THROUGHPUT = Chart(
    name="throughput",
    title="Throughput",
    reading="Items per second of all clients together, or bytes per second in phases compared by bandwidth: the"
    " median over trials with its 95 % interval. Longer is better. A floor is a null engine, which does nothing: its"
    " figure is the most that the harness can measure. Each dot is a trial.",
    needs="a phase with a valid figure",
    columns=(
        ENGINE,
        Column("throughput", "median a second", "own"),
        Column("low", "95 % from", "own"),
        Column("high", "95 % to", "own"),
        Column("unit", "unit"),
        Column("client_cpu_ns", "client CPU for each", "ns"),
        Column("server_cpu_ns", "server CPU for each", "ns"),
        TRIALS,
        REMARKS,
        Column("why", "why no number"),
    ),
    records=throughputs,
    spec=throughput_spec,
    brief=brief,
)


def sizes(run: Run) -> list[Record]:
    """Returns the sizes of engines that keep files, the smallest first."""
    records = []
    for row, record in valid_rows(run):
        if row.summary.bytes_on_disk is not None:
            sizes = {
                "remarks": remarks(row, SIZE_DOUBTS),
                "bytes_on_disk": row.summary.bytes_on_disk,
                "write_amplification": row.summary.write_amplification,
                "instead": "",
            }
            records.append({**record, **sizes})
    groups = group_values((repr((one["phase"], one["tier"], one["params"])), one) for one in records)
    return [one for group in groups.values() for one in sorted(group, key=lambda one: one["bytes_on_disk"])]


def size_spec(engines: Sequence[str], unit: str) -> JsonObject:
    amplification = {"field": "write_amplification", "title": "write amplification", "format": ".3~r"}
    tooltip = [*vega.tooltip({"figure": "on disk"}), amplification, *vega.tooltip({"remarks": "remarks"})]
    whole = spec(engines, "bytes_on_disk", "on disk", "bytes", tooltip)
    # The axis has no labels, because its ticks are round in powers of ten but not of two. The sizes are printed
    # beside the bars.
    whole["layer"][1]["encoding"]["x"]["axis"] |= {"labels": False}
    return whole


SIZE = Chart(
    name="size",
    title="Size on disk",
    reading="Blocks that the engine's files take on the file system after the phase, once background work has"
    " settled: the median over trials. Shorter is better. Write amplification: bytes written to the device per byte"
    " stored.",
    needs="engines that keep files",
    columns=(
        ENGINE,
        Column("bytes_on_disk", "on disk", "bytes"),
        Column("write_amplification", "write amplification", "ratio"),
        REMARKS,
    ),
    records=sizes,
    spec=size_spec,
)


def parts(run: Run) -> list[Record]:
    """Returns a record for each row, with parallel lists (which the specification flattens) and the figures of the
    table."""
    records = []
    for row, record in valid_rows(run):
        medians = {name: times["p50"] for name, times in row.summary.latency_by_part_ns.items()}
        if known := {name: ns for name, ns in medians.items() if ns is not None}:
            text = ", ".join(f"{name} {ns:,} ns" for name, ns in known.items())
            figures = {"whole": row.summary.latency_ns["p50"], "told": text, "instead": ""}
            records.append({**record, **figures, "part": list(known), "ns": list(known.values())})
    return records


def parts_spec(engines: Sequence[str], unit: str) -> JsonObject:
    return _stacked("p50 of each part", "p50")


def _stacked(title: str, figure: str) -> JsonObject:
    """Returns the specification of bars that consist of parts. `title`: of the axis; `figure`: what a part's figure
    is called."""
    legend = {
        "title": None,
        "orient": "top",
        "columns": {"expr": LEGEND_COLUMNS},
        "columnPadding": 16,
        "symbolOpacity": 1,
    }
    axis = {"title": title, "labelExpr": vega.figure("ns", "datum.value"), "tickCount": vega.TICKS}
    titles = {"row": "engine", "part": "part", "part figure": figure, "remarks": "remarks"}
    bar = {
        "transform": [
            {"flatten": ["part", "ns"]},
            {"window": [{"op": "row_number", "as": "place"}], "groupby": ["row"]},
            *vega.calculate({"part figure": vega.figure("ns", "datum.ns")}),
            vega.add_spoken_text("datum.row", "datum.part", "datum['part figure']"),
        ],
        "mark": "bar",
        "encoding": {
            "y": y(LEFT),
            "x": vega.quantity("ns", stack="zero", scale=vega.FROM_ZERO, axis=axis),
            "color": vega.nominal("part", sort=None, scale={"range": list(vega.PALETTE)}, legend=legend),
            "order": {"field": "place"},
            "tooltip": vega.tooltip(titles),
            "description": {"field": "spoken"},
        },
    }
    whole = vega.known_or_dash("datum.whole", vega.figure("ns", "datum.whole"))
    return by_row(vega.calculate({"row": "datum.engine", "figure": whole}), [bar], "figure")


PARTS = Chart(
    name="parts",
    title="Parts of the latency",
    reading="The median of each named part of an operation's latency, one after the other, and at the right the"
    " median of the whole. Medians of parts need not add up to it.",
    needs="a suite that reports the parts of a latency",
    columns=(ENGINE, Column("whole", "p50", "ns"), Column("told", "p50 of each part"), REMARKS),
    records=parts,
    spec=parts_spec,
)


def accounts(run: Run) -> list[Record]:
    """Returns a record for each row whose time is accounted, with parallel lists as in `parts`."""
    known = [
        (record, account)
        for row, record in valid_rows(run)
        if (account := make_account(run, row.summary)) is not None
    ]
    names = why.name_parts([account for _, account in known])
    records = []
    for record, account in known:
        means = {names[part]: ns for part, ns in account.mean_parts_ns.items()}
        text = ", ".join(f"{name} {units.duration(ns)}" for name, ns in means.items())
        figures = {"whole": account.mean_total_ns, "told": text, "instead": ""}
        records.append({**record, **figures, "part": list(means), "ns": list(means.values())})
    return records


def account_spec(engines: Sequence[str], unit: str) -> JsonObject:
    return _stacked("time of an item", "mean")


def reasons(run: Run) -> list[Record]:
    """Returns why rows differ from the best of their place, as sentences."""
    changing = varying_params(run)
    places = {(id(row.summary.cell), row.summary.phase): row.place for row, _ in valid_rows(run)}
    said = []
    for table in explain_run(run):
        for reason in table.explanations:
            if reason.named or reason.ruled_out:
                about = common(reason.row.cell, places[id(reason.row.cell), reason.row.phase], changing)
                engines = [reason.row.cell.label, reason.base.cell.label]
                said.append({**about, "engines": engines, "text": why.explain(reason)[0]})
    return said


ACCOUNT = Chart(
    name="account",
    title="Where the time goes",
    reading="The parts of the time of an item, which add up to it: means over the samples. Client and server: CPU"
    " time in user mode and in the kernel. Other waiting: for locks, networks, timers, and devices that the kernel"
    " does not account.",
    needs="rows whose CPU time is known",
    columns=(ENGINE, Column("whole", "time of an item", "ns"), Column("told", "parts"), REMARKS),
    records=accounts,
    spec=account_spec,
    says=reasons,
)


# -- ratios -------------------------------------------------------------------------------------------------

# A logarithmic scale leaves some of its labels empty. Of nine ticks per power of ten, this expression also drops 4,
# 6, 8 and 9.
TICK_TEXT = (
    f"datum.label === '' || test(/^[0.]*[4689]0*$/, datum.value) ? '' : {vega.figure('factor', 'datum.value')}"
)


def ratios(run: Run) -> list[Record]:
    """Returns the ratios of every engine to every other. If there are too many, returns only those to the best of
    each place."""
    if not has_all(run):
        return ratios_against(run, lambda table: None)
    best = {(id(table.rows[0][0].cell), table.phase) for table in compare.tables(run)}

    def axis(pair: Comparison) -> str:
        # Ratios to the best of each place share an axis, and so do all ratios to one other engine.
        if (id(pair.baseline), pair.phase) in best:
            return ""
        return pair.baseline.label

    return _ratio_records(run, compare.pairs(run), axis)


def has_all(run: Run) -> bool:
    """Returns whether every engine can be the baseline. The number of ratios grows with the square of the number of
    engines."""
    return sum(len(table.rows) * (len(table.rows) - 1) for table in compare.tables(run)) <= display.RATIOS


def ratios_against(run: Run, baseline: Callable[[Table], str | None]) -> list[Record]:
    """Returns the ratios to one engine of each table, which is the best if `baseline` returns None. Tables without
    that engine are skipped."""
    pairs = (pair for table in compare.tables(run) for pair in compare.compare_with_baseline(table, baseline(table)))
    return _ratio_records(run, pairs, lambda pair: "")


def _ratio_records(run: Run, pairs: Iterable[Comparison], axis: Callable[[Comparison], str]) -> list[Record]:
    """Returns the records of the pairs. `axis` returns the key of the axis that pairs share. Each record has the
    `least` and `most` ratio on its axis."""
    changing = varying_params(run)
    rows = {(id(row.summary.cell), row.summary.phase): row for row, _ in valid_rows(run)}
    records = []
    on_axes: dict[str, list[float]] = {}
    for pair in pairs:
        verdict = pair.verdict
        row, other = rows[id(pair.engine), pair.phase], rows[id(pair.baseline), pair.phase]
        mine, base = (", ".join(doubt.short for doubt in each.doubts) for each in (row, other))
        tool = reported_by_text(row.summary.reported_by)
        on_axis = on_axes.setdefault(axis(pair), [1.0])
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
            "verdict": wording.verdict(verdict, pair.metric),
            "blocks": verdict.blocks,
            "remarks": ", ".join(filter(None, [tool, mine, base and f"baseline: {base}"])),
        }
        records.append((record, on_axis))
    ends = {id(on_axis): {"least": min(on_axis), "most": max(on_axis)} for on_axis in on_axes.values()}
    return [{**record, **ends[id(on_axis)]} for record, on_axis in records]


def ratio_spec(engines: Sequence[str], unit: str) -> JsonObject:
    """Returns the specification for the ratios to one baseline."""
    axis = {"title": "speed as a multiple of the baseline's", "labelExpr": TICK_TEXT, "grid": False, "tickCount": 8}
    axis |= {"labelOverlap": "greedy", "labelSeparation": 6}
    x = {"type": "quantitative", "scale": {"type": "log", "nice": False, "padding": 16}, "axis": axis}
    colours, shapes = (
        vega.nominal("kind", legend=None, scale={"domain": list(vega.VERDICTS), "range": list(looks)})
        for looks in zip(*vega.VERDICTS.values(), strict=True)
    )
    titles = {"engine": "engine", "baseline": "baseline", "by": "compared by", "figure": "ratio"}
    titles |= {"reach": f"{wording.LEVEL} interval", "verdict": "verdict", "blocks": "samples", "remarks": "remarks"}
    point = {
        "y": y(),
        "x": {**x, "field": "ratio"},
        "color": colours,
        "shape": shapes,
        "tooltip": vega.tooltip(titles),
        "description": {"field": "spoken"},
    }
    interval = {"y": y(LEFT), "x": {**x, "field": "from"}, "x2": {"field": "to"}, "color": colours}
    # Invisible marks at the ends of the axis, so that it is the same in all panels.
    ends = [
        vega.layer(vega.mark("tick", opacity=0), {"y": y(), "x": {**x, "field": end}}) for end in ("start", "end")
    ]
    layers = [
        *ends,
        vega.layer(vega.mark("rule", style="one"), {"x": {**x, "datum": 1}}),
        vega.layer(vega.mark("rule", strokeWidth=3, strokeCap="round"), interval, "isValid(datum.ratio)"),
        vega.layer({"type": "point", "filled": True, "size": 120, "opacity": 1}, point, "isValid(datum.ratio)"),
        *vega.arrows({"y": y(), "color": colours}, "x"),
    ]
    texts = {
        "row": "datum.engine",
        "figure": vega.known_or_dash("datum.ratio", vega.figure("factor", "datum.ratio")),
        "reach": vega.interval_text("factor", "datum.low", "datum.high"),
    }
    spoken = vega.add_spoken_text("datum.engine + ' against ' + datum.baseline", "datum.figure", "datum.verdict")
    return by_row([*vega.calculate(texts), *vega.clip(log=True), spoken], layers, "verdict")


RATIOS = Chart(
    name="ratios",
    title="Ratios",
    reading="The speed of each engine as a multiple of the baseline's: the median of the ratios of the blocks, with"
    f" its {wording.LEVEL} interval, on a logarithmic scale. If the interval does not include × 1, there is a"
    " difference. All intervals hold together.",
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
    records=ratios,
    spec=ratio_spec,
)
