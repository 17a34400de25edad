"""Rows of a group, one under the other: horizontal bars, and what stands at the left and at the right of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyno.report.charts import clipping, theme, units

STEP = 32
SCALE = {"type": "band", "paddingInner": 0.5, "paddingOuter": 0.25}
PART = "split(datum.label, '\\t')"
KNOWN = [{"filter": "!datum.floor && isValid(datum.low)"}]


def spec(
    engines: Sequence[str], field: str, title: str, write: Callable[[str], str], tooltip: Sequence[dict[str, str]]
) -> dict[str, Any]:
    """Bars of `field`, with its figure beside each. A row without one shows its record's `instead`; a floor's figure
    is written and not drawn: the others could not be told apart beside it."""
    value = f"datum['{field}']"
    bar = {
        "transform": [{"filter": f"!datum.floor && isValid({value})"}],
        "mark": "bar",
        "encoding": {
            "y": left(),
            "x": {
                "field": field,
                "type": "quantitative",
                "scale": units.FROM_ZERO,
                "axis": {"title": title, "labelExpr": write("datum.value"), "tickCount": units.TICKS},
            },
            "color": {"field": "engine", "type": "nominal", "scale": theme.colours(engines), "legend": None},
            "tooltip": units.tooltip([{"field": "row", "title": "engine"}, *tooltip]),
            "description": {"field": "spoken"},
        },
    }
    reach = f"{write('datum.low')} + ' – ' + {write('datum.high')}"
    return {
        "data": {"name": "records"},
        "height": {"step": STEP},
        "transform": [
            {"calculate": "datum.engine + (datum.floor ? ' (floor)' : '')", "as": "row"},
            {"calculate": f"isValid({value}) ? {write(value)} : datum.instead", "as": "figure"},
            {"calculate": units.either("datum.low", reach), "as": "reach"},
            *clipping.outermost(f"datum.floor ? null : {value}"),
            *clipping.cut(),
            line("figure"),
            units.spoken("datum.row", "datum.figure", units.literal(title)),
        ],
        **rows(bar),
    }


def rows(*layers: dict[str, Any]) -> dict[str, Any]:
    """The layers of a chart with a row for each record, in the records' order."""
    # The rows of all records, drawn or not: what a layer filters out keeps its place.
    every = {"mark": {"type": "tick", "opacity": 0, "aria": False}, "encoding": {"y": right()}}
    return {"resolve": {"axis": {"y": "independent"}}, "layer": [every, *layers]}


def line(figure: str) -> dict[str, str]:
    """A transform that joins what a row has at its left and at its right: one text, which is another for each row."""
    return {"calculate": f"datum.row + '\\t' + datum['{figure}'] + '\\t' + datum.remarks", "as": "line"}


def left() -> dict[str, Any]:
    """The rows' names."""
    return _y({"labelExpr": f"{PART}[0]", "labelLimit": 240})


def right() -> dict[str, Any]:
    """The rows' figures, and remarks after them: as an axis, for which the layout makes room."""
    text = f"{PART}[1] + ({PART}[2] ? ' · ' + {PART}[2] : '')"
    return _y({"orient": "right", "labelExpr": text, "labelPadding": 10, "labelLimit": 380})


def hidden() -> dict[str, Any]:
    """The same rows, for further layers."""
    return _y(None)


def _y(axis: dict[str, Any] | None) -> dict[str, Any]:
    opacity = {"condition": {"test": "indexof(datum.label, '(floor)') >= 0", "value": 0.7}, "value": 1}
    common = {"title": None, "domain": False, "ticks": False, "labelOverlap": False, "labelOpacity": opacity}
    drawn = axis and {**common, **axis}
    return {"field": "line", "type": "nominal", "sort": None, "scale": SCALE, "axis": drawn}


def each(field: str) -> dict[str, Any]:
    """A layer with a dot below the bar for each value of `field`, a list; not for those beyond the axis."""
    within = f"isValid(datum.{field}) && datum.{field} >= datum.start && datum.{field} <= datum.end"
    return {
        "transform": [
            {"filter": f"!datum.floor && isArray(datum.{field})"},
            {"flatten": [field]},
            {"filter": within},
        ],
        "mark": {"type": "point", "filled": True, "aria": False, "style": "trial", "size": 14, "opacity": 0.7},
        "encoding": {
            "y": {**hidden(), "bandPosition": 1.2},
            "x": {"field": field, "type": "quantitative"},
        },
    }


def interval() -> list[dict[str, Any]]:
    """Layers that draw from `low` to `high`, where there is an interval."""
    ends = {"x": {"field": "from", "type": "quantitative"}, "x2": {"field": "to"}}
    caps = [
        {
            "transform": [*KNOWN, {"filter": f"!datum.{cut}"}],
            "mark": {"type": "tick", "aria": False, "style": "cap", "size": 9, "thickness": 1.5},
            "encoding": {"y": hidden(), "x": {"field": end, "type": "quantitative"}},
        }
        for end, cut in (("from", "less"), ("to", "more"))
    ]
    return [
        {
            "transform": KNOWN,
            "mark": {"type": "rule", "aria": False, "style": "interval"},
            "encoding": {"y": hidden(), **ends},
        },
        *caps,
        *(
            {**arrow, "transform": KNOWN + arrow["transform"]}
            for arrow in clipping.arrows({"y": hidden()}, style="cut")
        ),
    ]
