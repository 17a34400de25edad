"""Charts of lines over two axes: sweeps over a numeric parameter with several values, with a line for each engine;
and the charts that a suite declares in the run file, of two figures of its cells.

Records have `x` and `y`, and with intervals also `x_low`, `x_high`, `y_low` and `y_high`. They have `line` if lines
belong to values of a parameter, and `point` if a parameter labels the points.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dyno.contracts.model import UsageError
from dyno.contracts.presentation import Axis, Curve
from dyno.contracts.settings import unknown_name_message
from dyno.contracts.value_types import JsonObject
from dyno.report.charts import vega
from dyno.report.charts.chart import ENGINE, REMARKS, TRIALS, Chart, Column, Record, valid_rows
from dyno.report.tables.sweeps import describe_end, find_crossings, find_ends, sentence
from dyno.report.tables.table import varying_params
from dyno.results import Run
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.metric import METRICS, THROUGHPUT, Metric, choose_metric, estimate_metric
from dyno.stats.summary import CellSummary, group_values, summarize
from dyno.stats.sweep import Sweep, is_number, logarithmic, swept_params, values

TICKS = [step * 10**power for power in range(-6, 14) for step in (1, 2, 5)]
"""Ticks of a logarithmic axis."""
CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""Path of an x, which marks the end of a line."""
KINDS = {"items": "rate", "bytes": "bandwidth", "ns": "ns", "size": "bytes"}
"""Format of a metric's figures, by the metric's kind."""


@dataclass(frozen=True)
class Side:
    """An axis of a line chart."""

    title: str
    kind: str
    """Format of its figures: see `vega.figure`."""
    log: bool = False
    interval: bool = False
    """Whether records may have intervals."""
    from_zero: bool = False
    ticks: Sequence[float] = ()
    """The measured values, if they are few and the same for all lines."""
    marks: Sequence[tuple[float, str]] = ()
    """Values to mark by a line across the chart, with their names."""

    def encoding(self, field: str) -> JsonObject:
        text = vega.figure(self.kind, "datum.value")
        axis: JsonObject = {"title": self.title, "labelExpr": text, "tickCount": vega.TICKS}
        scale: JsonObject = {"zero": False, "nice": True, "padding": 10}
        if self.ticks:
            axis |= {"values": list(self.ticks), "grid": False}
            scale = {"zero": False, "nice": False, "padding": 12}
        elif self.from_zero:
            scale = vega.FROM_ZERO
        if self.log:
            axis |= {} if self.ticks else {"values": TICKS}
            scale = {"type": "log", "nice": False, "padding": 12 if self.ticks else 24}
        return vega.quantity(field, scale=scale, axis=axis)


def lines_spec(
    engines: Sequence[str], x: Side, y: Side, line: str = "", point: str = "", ends: bool = False
) -> JsonObject:
    """Returns the specification of the chart. `line`: a parameter, each value of which has a line; without it each
    engine has a line. `point`: a parameter that labels and orders the points of a line. `ends`: whether records may
    have a key `ends`, the reason why their line ends."""
    look = {channel: vega.by_engine(engines, channel) for channel in ("color", "shape")}
    if line:
        look = look_of_lines("line")
    colour = {"color": look["color"]}
    at = {"x": x.encoding("x"), "y": y.encoding("y")}
    sides = {"x": x, "y": y}
    layers: list[JsonObject] = []
    for field, side in sides.items():
        for value, name in side.marks:
            layers = _marked_line(field, side, value, name) + layers
    # Dashes distinguish the lines of several engines.
    if line and len(engines) > 1:
        dashes = {"strokeDash": vega.by_engine(engines, "strokeDash", 900)}
    else:
        dashes = {}
    order = {"order": {"field": "point" if point else "x"}}
    layers.append(vega.layer(vega.mark("line", strokeWidth=2), {**at, **order, **colour, **dashes}))
    for name, side in sides.items():
        if side.interval:
            # Only intervals of y are clipped.
            low, high = ("from", "to") if name == "y" else ("x_low", "x_high")
            reach = {**at, name: side.encoding(low), f"{name}2": {"field": high}, **colour}
            rule = vega.mark("rule", strokeWidth=2, opacity=0.6)
            layers.append(vega.layer(rule, reach, f"isValid(datum.{name}_low)"))
    titles = {"engine": "engine", **({"line": line} if line else {}), **({"point": point} if point else {})}
    titles |= {"x text": x.title, "y text": y.title}
    titles |= {f"{name} reach": "95 % interval" for name, side in sides.items() if side.interval}
    tips = {"description": {"field": "spoken"}, "tooltip": vega.tooltip({**titles, "remarks": "remarks"})}
    layers.append(vega.layer({"type": "point", "filled": True, "size": 75, "opacity": 1}, {**at, **look, **tips}))
    if y.interval:
        layers += vega.arrows({"x": x.encoding("x"), **colour}, "y")
    if ends:
        cross = vega.mark("point", shape=CROSS, size=260, strokeWidth=2.5)
        why = {"tooltip": vega.tooltip({"ends": "ends here"})}
        layers.append(vega.layer(cross, {**at, **colour, **why}, "isValid(datum.ends)"))
    if point:
        text = vega.mark("text", dy=-10, fontSize=10)
        layers.append(vega.layer(text, {**at, "text": {"field": "point"}}))
    texts = {}
    for name, side in sides.items():
        texts[f"{name} text"] = vega.figure(side.kind, f"datum.{name}")
        if side.interval:
            texts[f"{name} reach"] = vega.interval_text(side.kind, f"datum.{name}_low", f"datum.{name}_high")
    words = ["datum.engine", *(["datum.line"] if line else [])]
    words += [f"{vega.literal(f'{point} ')} + datum.point"] if point else []
    words += [f"{vega.literal(side.title)} + ' ' + datum['{name} text']" for name, side in sides.items()]
    if y.interval:
        clipped = [*vega.outermost("datum.y"), *vega.clip(y.log, "y_low", "y_high")]
    else:
        clipped = []
    return {
        "data": {"name": "records"},
        "transform": [*vega.calculate(texts), vega.add_spoken_text(*words), *clipped],
        "encoding": {"detail": [vega.nominal("engine"), *([vega.nominal("line")] if line else [])]},
        "layer": layers,
    }


def look_of_lines(field: str) -> dict[str, JsonObject]:
    """Returns the encodings of colour and shape that distinguish lines by a field, in the order of the records. The
    single legend shows the shapes, filled with the colours."""
    legend: JsonObject = {"title": None, "orient": "top", "columns": vega.MOST_COLUMNS, "symbolOpacity": 1}
    legend |= {"symbolFillColor": {"expr": "scale('color', datum.value)"}, "symbolStrokeWidth": 0}
    return {
        "color": vega.nominal(field, sort=None, scale={"range": list(vega.PALETTE)}, legend=None),
        "shape": vega.nominal(field, sort=None, scale={"range": list(vega.SHAPES)}, legend=legend),
    }


def _marked_line(field: str, side: Side, value: float, name: str) -> list[JsonObject]:
    """Returns the layers of a line across the chart at a value of `x` or `y`, with its name at the end."""
    # Aggregated to one record: otherwise each record would draw the line again.
    one = [{"aggregate": [{"op": "count", "as": "n"}], "groupby": []}]
    at = {**side.encoding(field), "datum": value}
    del at["field"]
    # Replaces the chart's detail, because the aggregated record lacks its fields.
    detail = {"detail": vega.nominal("n")}
    rule = vega.mark("rule", strokeDash=[4, 4], opacity=0.7)
    text = vega.mark("text", align="right", dx=-4, dy=6 if field == "x" else -6, fontSize=10, text=name)
    end = {"y": {"value": 0}} if field == "x" else {"x": {"value": "width"}}
    return [
        {"transform": one, "mark": rule, "encoding": {field: at, **detail}},
        {"transform": one, "mark": text, "encoding": {field: at, **end, **detail}},
    ]


# -- charts that a suite declares ---------------------------------------------------------------------------


def curves(run: Run) -> list[Chart]:
    return [_curve(run, declared) for declared in run.header.charts or ()]


def _curve(run: Run, curve: Curve) -> Chart:
    line = curve.line
    point = curve.point
    sides = {"x": curve.x, "y": curve.y}
    swept = [axis.name for axis in sides.values() if axis.of == "param"]
    marks = _marks(run, curve.x)
    columns = [ENGINE]
    columns += [Column("line", line)] if line else []
    columns += [Column("point", point, "count")] if point else []
    for name, axis in sides.items():
        side = _side(axis, "")
        metric = METRICS.get(axis.name, THROUGHPUT)
        if not side.interval:
            columns.append(Column(name, side.title, side.kind))
        else:
            if metric is THROUGHPUT:
                title = "median a second"
            else:
                title = metric.title
            ends = (("", title), ("_low", "95 % from"), ("_high", "95 % to"))
            columns += [Column(f"{name}{end}", text, side.kind) for end, text in ends]

    def spec(engines: Sequence[str], unit: str) -> JsonObject:
        x = replace(_side(curve.x, unit), marks=marks)
        return lines_spec(engines, x, _side(curve.y, unit), line, point)

    return Chart(
        name=curve.name,
        title=curve.title,
        reading=curve.reading,
        needs=f"{curve.x.name} and {curve.y.name} from the suite",
        columns=(*columns, Column("unit", "unit"), TRIALS, REMARKS),
        records=lambda run: _curve_records(run, curve),
        spec=spec,
        spans=(*filter(None, (line, point)), *swept),
    )


def _side(axis: Axis, unit: str) -> Side:
    log = axis.scale == "log"
    if axis.of != "metric":
        return Side(axis.title or axis.name, axis.kind, log)
    metric = METRICS.get(axis.name, THROUGHPUT)
    if metric is THROUGHPUT:
        default = f"{unit}/s"
    else:
        default = metric.title
    return Side(axis.title or default, KINDS[metric.kind], log, interval=True)


def _curve_records(run: Run, curve: Curve) -> list[Record]:
    """Returns the records by phase, then by line in the order of the run."""
    line = curve.line
    point = curve.point
    phases = curve.phases or run.plan.phases
    axes = {"x": curve.x, "y": curve.y}
    for axis in axes.values():
        # A parameter with a single value spans no axis.
        if axis.of == "param" and len({cell.params.get(axis.name) for cell in run.cells}) < 2:
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
            name, figure = axis.name, None
            if axis.of == "metric":
                metric = METRICS.get(name) or choose_metric([summary])
                figure = estimate_metric(summary, metric)
                unit = unit or ("" if metric is THROUGHPUT else metric.title)
            else:
                if axis.of == "param":
                    value = params.get(name)
                else:
                    value = facts.get(id(summary.cell), {}).get(name)
                if isinstance(value, (int, float)):
                    figure = Estimate(float(value), None, None)
                else:
                    figure = None
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


def _marks(run: Run, axis: Axis) -> list[tuple[float, str]]:
    """Returns the facts to mark on a parameter's axis, if they are within the range of its values."""
    names = axis.marks
    if not names:
        return []
    values = [float(v) for cell in run.cells if isinstance(v := cell.params.get(axis.name), (int, float))]
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


# -- sweeps over a parameter --------------------------------------------------------------------------------

CLIENTS, PREFIX = "clients", "sweep:"
NAME = f"{PREFIX}PARAM"


def names(run: Run) -> list[str]:
    """Returns the names of the run's charts, clients first."""
    return [name_of(parameter) for parameter in sorted(swept_params(run), key=lambda name: name != CLIENTS)]


def name_of(parameter: str) -> str:
    if parameter == CLIENTS:
        return parameter
    return f"{PREFIX}{parameter}"


def sweep(run: Run, parameter: str, by: str | None = None) -> Chart:
    """Returns the chart over a parameter. `by`: a metric or a fact of the run; by default the metric by which rows
    are compared. Raises UsageError."""
    metric = None if by is None else METRICS.get(by)
    facts = dict.fromkeys(name for attempt in run.attempts for s in attempt.samples for name in s.facts)
    if by is not None and metric is None and by not in facts:
        raise UsageError(unknown_name_message(f"{run.path}: metric", by, [*METRICS, *facts]))
    fact = "" if by is None or metric else by
    records = _sweep_records(run, parameter, metric, fact)
    # The y axis of a unit is logarithmic if one of its panels needs that.
    figures = group_values(((each["unit"], each["phase"], each["tier"]), each["y"]) for each in records)
    log = {unit for (unit, _, _), of_panel in figures.items() if logarithmic(of_panel)}
    kinds = {record["unit"]: record["write"] for record in records}
    sides = {
        unit.removesuffix("/s"): Side(unit, kind, unit in log, interval=True, from_zero=unit not in log)
        for unit, kind in kinds.items()
    }
    measured_at = values(run, parameter)
    marks = []
    if parameter == CLIENTS and measured_at:
        # The number of cores is marked: more clients than that share cores.
        count = run.header.host.cpu.usable_cores
        if count is not None and measured_at[0] <= count <= measured_at[-1]:
            marks = [(count, f"{count:g} cores")]
    x = Side(parameter, "count", log=logarithmic(measured_at), ticks=measured_at, marks=marks)

    def spec(engines: Sequence[str], unit: str) -> JsonObject:
        y = sides.get(unit, Side(unit, "count", interval=True, from_zero=True))
        return lines_spec(engines, x, y, ends=any("ends" in record for record in records))

    return Chart(
        name=name_of(parameter),
        title=f"By {parameter}",
        reading=f"The effect of {parameter}, all else being equal: the median over trials of the metric by which rows"
        " are compared, usually throughput, with its 95 % interval. Where two lines cross, another engine becomes the"
        " better one; a cross at the end of a line marks an engine that goes no further.",
        needs=f"several numeric values of {parameter}: dyno run "
        + (f"--{parameter} 1,2,4" if parameter == CLIENTS else f"-p {parameter}=V1,V2"),
        columns=(
            ENGINE,
            Column("x", parameter, "count"),
            Column("y", "median", "own"),
            Column("y_low", "95 % from", "own"),
            Column("y_high", "95 % to", "own"),
            Column("what", "of what"),
            TRIALS,
            REMARKS,
        ),
        records=lambda other: records if other is run else _sweep_records(other, parameter, metric, fact),
        spec=spec,
        spans=(parameter,),
        says=lambda run: _says(run, parameter) if by is None else [],
    )


def _sweep_records(run: Run, parameter: str, metric: Metric | None, fact: str) -> list[Record]:
    """Returns the records by panel, engine and value. A run with a single value has none."""
    if parameter not in swept_params(run):
        return []
    known = ((row, record) for row, record in valid_rows(run) if is_number(record["params"].get(parameter)))
    by_place = group_values((_place(record, parameter), (row, record)) for row, record in known)
    stops = {
        (end.cell.label, _place(_describe_sweep(run, end.sweep), parameter), end.last): describe_end(end)
        for end in find_ends(run)
        if end.sweep.parameter == parameter
    }
    engines = {label: at for at, label in enumerate(dict.fromkeys(cell.label for cell in run.cells))}
    records = []
    for place, rows in by_place.items():
        by = metric or choose_metric([row.summary for row, _ in rows])
        rows.sort(key=lambda one: (engines[one[1]["engine"]], one[1]["params"][parameter]))
        for row, record in rows:
            unit = fact or (f"{row.summary.unit}/s" if by is THROUGHPUT else by.title)
            if fact:
                figure = _fact(row.summary, fact)
            else:
                figure = estimate_metric(row.summary, by)
            if figure is None:
                continue
            value = record["params"][parameter]
            why = stops.get((record["engine"], place, value))
            point = {
                **record,
                "x": value,
                "y": figure.median,
                "y_low": figure.low,
                "y_high": figure.high,
                "unit": unit,
                "what": unit,
                "write": "rate" if fact else KINDS[by.kind],
                "trials": len(row.summary.samples),
            }
            records.append({**point, **({"ends": why} if why else {})})
    return records


def _describe_sweep(run: Run, sweep: Sweep) -> Record:
    """Returns the phase, tier and other varying parameters of a sweep, in the form of a record."""
    params = {name: sweep.params[name] for name in varying_params(run) if name != sweep.parameter}
    return {"phase": sweep.phase, "tier": sweep.tier and sweep.tier.value, "params": params}


def _place(record: Record, parameter: str) -> str:
    others = {name: value for name, value in record["params"].items() if name != parameter}
    return repr((record["phase"], record["tier"], others))


def _fact(summary: CellSummary, name: str) -> Estimate | None:
    median = summary.facts.get(name)
    if not isinstance(median, (int, float)):
        return None
    samples = [value for s in summary.samples if isinstance(value := s.facts.get(name), (int, float))]
    # Intervals are defined only for positive values.
    if samples and min(samples) > 0:
        return estimate(samples)
    return Estimate(float(median), None, None)


def _says(run: Run, parameter: str) -> list[Record]:
    sentences = [(one.sweep, [one.below.label, one.above.label], sentence(one)) for one in find_crossings(run)]
    sentences += [(end.sweep, [end.cell.label], describe_end(end)) for end in find_ends(run)]
    return [
        {**_describe_sweep(run, sweep), "engines": engines, "text": text}
        for sweep, engines, text in sentences
        if sweep.parameter == parameter
    ]
