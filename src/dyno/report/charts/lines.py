"""Lines over two axes: how every chart of one figure against another is drawn.

Records have `x` and `y`, where there are intervals `x_low`, `x_high`, `y_low` and `y_high`, and `line` and `point`
where a parameter has lines of its own or stands beside the points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dyno.report.charts import clipping, curves, theme, units

STEPS = [step * 10**power for power in range(14) for step in (1, 2, 5)]
"""Ticks of a scale of logarithms."""
FINER = [step * 10.0**power for power in range(-6, 0) for step in (1, 2, 5)]
CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""An x, as a path: where a line ends."""
WRITERS: dict[str, Callable[[str], str]] = {
    "rate": units.rate,
    "bandwidth": units.bandwidth,
    "ns": units.duration,
    "bytes": units.size,
    "ratio": lambda value: f"format({value}, '.2f')",
    "count": units.number,
}


@dataclass(frozen=True)
class Side:
    """An axis."""

    title: str
    kind: str
    """How its figures are written: one of WRITERS."""
    log: bool = False
    interval: bool = False
    """Whether records may have one."""
    from_zero: bool = False
    ticks: Sequence[float] = field(default=())
    """The measured values, where they are few and the same for all; none: as it comes."""
    marks: Sequence[tuple[float, str]] = ()
    """Values that are marked by a line across, and what each is."""

    def write(self, value: str) -> str:
        return WRITERS[self.kind](value)

    def encoding(self, name: str) -> dict[str, Any]:
        """Of that field."""
        axis: dict[str, Any] = {"title": self.title, "labelExpr": self.write("datum.value"), "tickCount": units.TICKS}
        scale: dict[str, Any] = {"zero": False, "nice": True, "padding": 10}
        if self.ticks:
            axis |= {"values": list(self.ticks), "grid": False}
            scale = {"zero": False, "nice": False, "padding": 12}
        elif self.from_zero:
            scale = units.FROM_ZERO
        if self.log:
            axis |= {} if self.ticks else {"values": [*FINER, *STEPS]}
            scale = {"type": "log", "nice": False, "padding": 12 if self.ticks else 24}
        return {"field": name, "type": "quantitative", "scale": scale, "axis": axis}


def spec(
    engines: Sequence[str], x: Side, y: Side, line: str = "", point: str = "", ends: bool = False
) -> dict[str, Any]:
    """`line`: a parameter of which each value has a line of its own, in place of each engine; `point`: one that
    stands beside the points and orders them; `ends`: whether records may say why their line ends there."""
    look = _by_line() if line else _by_engine(engines)
    details = ["engine", *(["line"] if line else [])]
    at = {"x": x.encoding("x"), "y": y.encoding("y")}
    # The lines of several engines are told apart by their dashes.
    dashes = {"strokeDash": curves.dash(engines, 900)} if line and len(engines) > 1 else {}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "line", "aria": False, "strokeWidth": 2},
            "encoding": {**at, "order": {"field": "point" if point else "x"}, "color": look["color"], **dashes},
        }
    ]
    for name, side in (("x", x), ("y", y)):
        if side.interval:
            # Of one axis only: both share the names of what is cut.
            low, high = ("from", "to") if name == "y" else (f"{name}_low", f"{name}_high")
            reach = {**at, name: side.encoding(low), f"{name}2": {"field": high}}
            mark = {"type": "rule", "aria": False, "strokeWidth": 2, "opacity": 0.6}
            layers.append(
                {
                    "transform": [{"filter": f"isValid(datum.{name}_low)"}],
                    "mark": mark,
                    "encoding": {**reach, "color": look["color"]},
                }
            )
    tips = {"engine": "engine", **({"line": line} if line else {}), **({"point": point} if point else {})}
    tips |= {"x text": x.title, "y text": y.title}
    tips |= {f"{name} reach": "95 % interval" for name, side in (("x", x), ("y", y)) if side.interval}
    tips["remarks"] = "remarks"
    layers.append(
        {
            "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
            "encoding": {
                **at,
                **look,
                "description": {"field": "spoken"},
                "tooltip": units.tooltip({"field": name, "title": title} for name, title in tips.items()),
            },
        }
    )
    if y.interval:
        layers += clipping.arrows({"x": x.encoding("x"), "color": look["color"]}, "y")
    if ends:
        layers.append(
            {
                "transform": [{"filter": "isValid(datum.ends)"}],
                "mark": {"type": "point", "aria": False, "shape": CROSS, "size": 260, "strokeWidth": 2.5},
                "encoding": {**at, "color": look["color"], "tooltip": [{"field": "ends", "title": "ends here"}]},
            }
        )
    for value, said in x.marks:
        layers = _mark(x, value, said) + layers
    if point:
        beside = {"mark": {"type": "text", "aria": False, "dy": -10, "fontSize": 10}}
        layers.append({**beside, "encoding": {**at, "text": {"field": "point"}}})
    return {
        "data": {"name": "records"},
        "transform": [*_texts(x, y, line, point), *(_cut(y) if y.interval else [])],
        "encoding": {"detail": [{"field": name, "type": "nominal"} for name in details]},
        "layer": layers,
    }


def _cut(y: Side) -> list[dict[str, Any]]:
    return [*clipping.outermost("datum.y"), *clipping.cut(y.log, "y_low", "y_high")]


def _mark(x: Side, value: float, said: str) -> list[dict[str, Any]]:
    """A line across at a value of x, with its name at the top."""
    # One record, or each would draw its own over the others'.
    one = [{"aggregate": [{"op": "count", "as": "n"}], "groupby": []}]
    at = {**x.encoding("x"), "datum": value}
    del at["field"]
    rule = {"type": "rule", "aria": False, "strokeDash": [4, 4], "opacity": 0.7}
    text = {"type": "text", "aria": False, "align": "right", "dx": -4, "dy": 6, "fontSize": 10, "text": said}
    # In place of what tells lines apart, which it has not.
    alone = {"field": "n", "type": "nominal"}
    return [
        {"transform": one, "mark": rule, "encoding": {"x": at, "detail": alone}},
        {"transform": one, "mark": text, "encoding": {"x": at, "y": {"value": 0}, "detail": alone}},
    ]


def _texts(x: Side, y: Side, line: str, point: str) -> list[dict[str, str]]:
    """What tooltips and screen readers say."""
    made = []
    for name, side in (("x", x), ("y", y)):
        made.append({"calculate": side.write(f"datum.{name}"), "as": f"{name} text"})
        if side.interval:
            reach = f"{side.write(f'datum.{name}_low')} + ' – ' + {side.write(f'datum.{name}_high')}"
            made.append({"calculate": units.either(f"datum.{name}_low", reach), "as": f"{name} reach"})
    said = ["datum.engine", *(["datum.line"] if line else [])]
    said += [f"{units.literal(f'{point} ')} + datum.point"] if point else []
    said += [f"{units.literal(side.title)} + ' ' + datum['{name} text']" for name, side in (("x", x), ("y", y))]
    return [*made, units.spoken(*said)]


def _by_engine(engines: Sequence[str]) -> dict[str, Any]:
    return {"color": curves.colour(engines), "shape": curves.shape(engines)}


def _by_line() -> dict[str, Any]:
    """In the order of the records, which is the run's: a line has one look in all panels that have all of them. One
    legend for both: of the shapes, which it draws in the colours."""
    legend: dict[str, Any] = {"title": None, "orient": "top", "columns": curves.MOST_COLUMNS, "symbolOpacity": 1}
    legend |= {"symbolFillColor": {"expr": "scale('color', datum.value)"}, "symbolStrokeWidth": 0}

    def look(values: Sequence[str], shown: dict[str, Any] | None) -> dict[str, Any]:
        return {"field": "line", "type": "nominal", "sort": None, "scale": {"range": list(values)}, "legend": shown}

    return {"color": look(theme.PALETTE, None), "shape": look(theme.SHAPES, legend)}
