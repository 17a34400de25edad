"""Intervals are drawn as far as the points leave room for, with an arrow where one goes on: a single wide one would
squash all that the chart is for."""

from __future__ import annotations

from typing import Any

FACTOR = 2.0
"""On a scale of logarithms: how far beyond the outermost points."""
SHARE = 0.25
"""On another: of what the points span, or of the largest."""


def outermost(point: str) -> list[dict[str, Any]]:
    """Transforms that give each record the `least` and the `most` of an expression, over all records."""
    ends = [{"op": op, "field": "point", "as": name} for op, name in (("min", "least"), ("max", "most"))]
    return [{"calculate": point, "as": "point"}, {"joinaggregate": ends}]


def cut(log: bool = False, low: str = "low", high: str = "high") -> list[dict[str, Any]]:
    """Transforms that give each record its interval within what `least` and `most` leave room for, `from` and `to`;
    whether it goes on there, `less` and `more`; and how far the axis reaches at most, `start` and `end`."""
    room = f"max(datum.most - datum.least, abs(datum.most)) * {SHARE}"
    start, end = (
        (f"datum.least / {FACTOR}", f"datum.most * {FACTOR}")
        if log
        else (f"datum.least - {room}", f"datum.most + {room}")
    )
    known = f"isValid(datum.{low}) && isValid(datum.{high})"
    made = {
        "start": start,
        "end": end,
        "less": f"{known} && datum.{low} < datum.start",
        "more": f"{known} && datum.{high} > datum.end",
        "from": f"{known} ? max(datum.{low}, datum.start) : null",
        "to": f"{known} ? min(datum.{high}, datum.end) : null",
    }
    return [{"calculate": expression, "as": name} for name, expression in made.items()]


def arrows(encoding: dict[str, Any], channel: str = "x", **look: Any) -> list[dict[str, Any]]:
    """Layers that point to where a cut interval goes on. `encoding`: of the other channels."""
    ways = {"x": ("triangle-left", "triangle-right"), "y": ("triangle-down", "triangle-up")}[channel]
    return [
        {
            "transform": [{"filter": f"datum.{side}"}],
            "mark": {"type": "point", "filled": True, "aria": False, "opacity": 1, "size": 70, "shape": way, **look},
            "encoding": {**encoding, channel: {"field": end, "type": "quantitative"}},
        }
        for side, end, way in zip(("less", "more"), ("from", "to"), ways, strict=True)
    ]
