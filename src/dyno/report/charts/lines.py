"""Lines over two axes: draws every chart of one figure against another.

Records have `x` and `y`, and with intervals also `x_low`, `x_high`, `y_low` and `y_high`. They have `line` if lines
belong to values of a parameter, and `point` if a parameter labels the points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dyno.report.charts import theme, vega

TICKS = [step * 10**power for power in range(14) for step in (1, 2, 5)]
"""Ticks of a logarithmic axis from 1 up. FINER_TICKS has those below 1."""
FINER_TICKS = [step * 10.0**power for power in range(-6, 0) for step in (1, 2, 5)]
CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""Path of an x, which marks the end of a line."""
KINDS = {"items": "rate", "bytes": "bandwidth", "ns": "ns"}
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

    def encoding(self, field: str) -> dict[str, Any]:
        text = vega.figure(self.kind, "datum.value")
        axis: dict[str, Any] = {"title": self.title, "labelExpr": text, "tickCount": vega.TICKS}
        scale: dict[str, Any] = {"zero": False, "nice": True, "padding": 10}
        if self.ticks:
            axis |= {"values": list(self.ticks), "grid": False}
            scale = {"zero": False, "nice": False, "padding": 12}
        elif self.from_zero:
            scale = vega.FROM_ZERO
        if self.log:
            axis |= {} if self.ticks else {"values": [*FINER_TICKS, *TICKS]}
            scale = {"type": "log", "nice": False, "padding": 12 if self.ticks else 24}
        return vega.quantity(field, scale=scale, axis=axis)


def spec(
    engines: Sequence[str], x: Side, y: Side, line: str = "", point: str = "", ends: bool = False
) -> dict[str, Any]:
    """Returns the specification of the chart. `line`: a parameter, each value of which has a line; without it each
    engine has a line. `point`: a parameter that labels and orders the points of a line. `ends`: whether records may
    have a key `ends`, the reason why their line ends."""
    look = _by_line() if line else {channel: vega.by_engine(engines, channel) for channel in ("color", "shape")}
    colour = {"color": look["color"]}
    at = {"x": x.encoding("x"), "y": y.encoding("y")}
    sides = {"x": x, "y": y}
    layers: list[dict[str, Any]] = []
    for value, name in x.marks:
        layers = _marked(x, value, name) + layers
    # Dashes distinguish the lines of several engines.
    dashes = {"strokeDash": vega.by_engine(engines, "strokeDash", 900)} if line and len(engines) > 1 else {}
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
    clipped = [*vega.outermost("datum.y"), *vega.clip(y.log, "y_low", "y_high")] if y.interval else []
    return {
        "data": {"name": "records"},
        "transform": [*vega.calculate(texts), vega.spoken(*words), *clipped],
        "encoding": {"detail": [vega.nominal("engine"), *([vega.nominal("line")] if line else [])]},
        "layer": layers,
    }


def _marked(x: Side, value: float, name: str) -> list[dict[str, Any]]:
    """Returns the layers of a line across at a value of x, with its name at the top."""
    # Aggregated to one record: otherwise each record would draw the line again.
    one = [{"aggregate": [{"op": "count", "as": "n"}], "groupby": []}]
    at = {**x.encoding("x"), "datum": value}
    del at["field"]
    # Replaces the chart's detail, because the aggregated record lacks its fields.
    detail = {"detail": vega.nominal("n")}
    rule = vega.mark("rule", strokeDash=[4, 4], opacity=0.7)
    text = vega.mark("text", align="right", dx=-4, dy=6, fontSize=10, text=name)
    return [
        {"transform": one, "mark": rule, "encoding": {"x": at, **detail}},
        {"transform": one, "mark": text, "encoding": {"x": at, "y": {"value": 0}, **detail}},
    ]


def _by_line() -> dict[str, Any]:
    """Returns encodings of colour and shape by the parameter `line`, in the order of the records. The single legend
    shows the shapes, filled with the colours."""
    legend: dict[str, Any] = {"title": None, "orient": "top", "columns": vega.MOST_COLUMNS, "symbolOpacity": 1}
    legend |= {"symbolFillColor": {"expr": "scale('color', datum.value)"}, "symbolStrokeWidth": 0}
    return {
        "color": vega.nominal("line", sort=None, scale={"range": list(theme.PALETTE)}, legend=None),
        "shape": vega.nominal("line", sort=None, scale={"range": list(theme.SHAPES)}, legend=legend),
    }
