"""The chart of a history: a cell's figure over time, a line for each machine.

Its records are made in the browser: `day` (ISO 8601), `machine`, `median`, `low`, `high`, `top` (of both), `page`,
`step` ('faster' or 'slower' where the speed changed), and what the tooltip says. A layer with a
name is left out there if no record has what it is named after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dyno.report.charts import theme, vega
from dyno.report.site.data import BYTES
from dyno.stats.metric import RESPONSE

STEPS = {"faster": "triangle-up", "slower": "triangle-down"}
FACTS = ("run", "figure", "interval", "change", "created", "machine", "dyno", "version", "remarks")
TOOLTIP = [{"field": name, "title": name} for name in FACTS]
TIME = "time"
"""In place of a unit: a history of the response time."""


Spec = dict[str, Any]


def specs(found: Iterable[str], machines: Sequence[str]) -> dict[str, Spec]:
    """By unit of the rows, and for a history of times. A machine has one colour in all of them."""
    rates = {
        unit: _spec("bandwidth", vega.figure("bandwidth", "datum.value"), machines)
        if unit == BYTES
        else _spec(f"{unit}/s", vega.figure("rate", "datum.value"), machines)
        for unit in found
    }
    return {**rates, TIME: _spec(RESPONSE.title, vega.figure("ns", "datum.value"), machines)}


def _spec(title: str, label: str, machines: Sequence[str]) -> Spec:
    # An axis from zero would hide what a history is for; the intervals say how much of a step is noise.
    y = {"type": "quantitative", "scale": {"zero": False, "nice": True, "padding": 12}}
    median = {"field": "median", **y, "axis": {"title": title, "labelExpr": label, "tickCount": 6}}
    legend = {"orient": "top", "direction": "vertical", "title": None, "symbolOpacity": 1}
    machine = {"field": "machine", "type": "nominal", "legend": legend}
    colour, shape = (
        {**machine, "scale": scale} for scale in (theme.scale(machines, "color"), theme.scale(machines, "shape"))
    )
    return {
        "data": {"name": "records"},
        "height": 320,
        "encoding": {
            "x": {
                "field": "day",
                "type": "temporal",
                "scale": {"type": "utc", "padding": 16},
                "axis": {"title": None, "grid": False, "labelOverlap": True, "labelFlush": 30, "tickCount": 8},
            }
        },
        "layer": [
            {"layer": [_line(median, colour), _interval(y, colour), _point(median, colour, shape)]},
            _step(y),
        ],
        "resolve": {"scale": {"shape": "independent", "color": "independent"}},
    }


def _line(median: Spec, colour: Spec) -> Spec:
    return {"mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {"y": median, "color": colour}}


def _interval(y: Spec, colour: Spec) -> Spec:
    return {
        "name": "low",
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6},
        "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}, "color": colour},
    }


def _point(median: Spec, colour: Spec, shape: Spec) -> Spec:
    return {
        "name": "median",
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "cursor": "pointer"},
        "encoding": {
            "y": median,
            "color": colour,
            "shape": shape,
            "tooltip": TOOLTIP,
            "href": {"field": "page"},
        },
    }


def _step(y: Spec) -> Spec:
    legend = {
        "orient": "top",
        "title": "than the run before on the same machine:",
        "titleOrient": "left",
        "titleLimit": 400,
    }
    step = {"field": "step", "type": "nominal", "legend": legend}
    colours = [theme.VERDICTS[kind][0] for kind in STEPS]
    return {
        "name": "step",
        "transform": [{"filter": "isValid(datum.step)"}],
        "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1, "yOffset": -14},
        "encoding": {
            "y": {"field": "top", **y},
            "shape": {**step, "scale": {"domain": list(STEPS), "range": list(STEPS.values())}},
            "color": {**step, "scale": {"domain": list(STEPS), "range": colours}},
            "tooltip": TOOLTIP,
        },
    }
