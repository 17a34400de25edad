"""The chart of a history: a cell's figure over time, with a line for each machine.

Its records are made in the browser. They have `day` (ISO 8601), `machine`, `median`, `low`, `high`, `top` (the larger
of `median` and `high`), `page`, `step` ('faster' or 'slower' if the speed changed with this run), and the facts of
the tooltip. The browser leaves out a layer with a name if no record has a value for that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dyno.report.charts import theme, vega
from dyno.report.site.data import BYTES
from dyno.stats.metric import RESPONSE

STEPS = {"faster": "triangle-up", "slower": "triangle-down"}
FACTS = ("run", "figure", "interval", "change", "created", "machine", "dyno", "version", "remarks")
TIME = "time"
"""Unit of a history of response times."""


def specs(row_units: Iterable[str], machines: Sequence[str]) -> dict[str, Any]:
    """Returns specifications by unit of the rows, and one for times. A machine has the same colour in all of them."""
    looks = {unit: (f"{unit}/s", "rate") for unit in row_units} | {TIME: (RESPONSE.title, "ns")}
    if BYTES in looks:
        looks[BYTES] = ("bandwidth", "bandwidth")
    return {unit: _spec(title, kind, machines) for unit, (title, kind) in looks.items()}


def _spec(title: str, kind: str, machines: Sequence[str]) -> dict[str, Any]:
    # With an axis from zero, changes would be too small to see. The intervals show how much of a change may be noise.
    y = {"scale": {"zero": False, "nice": True, "padding": 12}}
    axis = {"title": title, "labelExpr": vega.figure(kind, "datum.value"), "tickCount": 6}
    median = vega.quantity("median", **y, axis=axis)
    legend = {"orient": "top", "direction": "vertical", "title": None, "symbolOpacity": 1}
    colour, shape = (
        vega.nominal("machine", legend=legend, scale=theme.scale(machines, channel)) for channel in ("color", "shape")
    )
    tooltip = vega.tooltip({name: name for name in FACTS})
    line = vega.layer({"type": "line", "strokeWidth": 1.5}, {"y": median, "color": colour})
    interval = vega.layer(
        {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6},
        {"y": vega.quantity("low", **y), "y2": {"field": "high"}, "color": colour},
        "isValid(datum.low)",
    )
    point = vega.layer(
        {"type": "point", "filled": True, "size": 70, "opacity": 1, "cursor": "pointer"},
        {"y": median, "color": colour, "shape": shape, "tooltip": tooltip, "href": {"field": "page"}},
    )
    title = "than the run before on the same machine:"
    step_legend = {"orient": "top", "title": title, "titleOrient": "left", "titleLimit": 400}
    looks = {"shape": list(STEPS.values()), "color": [theme.VERDICTS[kind][0] for kind in STEPS]}
    step = {
        channel: vega.nominal("step", legend=step_legend, scale={"domain": list(STEPS), "range": values})
        for channel, values in looks.items()
    }
    step_mark = vega.layer(
        {"type": "point", "filled": True, "size": 110, "opacity": 1, "yOffset": -14},
        {"y": vega.quantity("top", **y), **step, "tooltip": tooltip},
        "isValid(datum.step)",
    )
    day = {"title": None, "grid": False, "labelOverlap": True, "labelFlush": 30, "tickCount": 8}
    x = {"field": "day", "type": "temporal", "scale": {"type": "utc", "padding": 16}, "axis": day}
    return {
        "data": {"name": "records"},
        "height": 320,
        "encoding": {"x": x},
        "layer": [
            {"layer": [line, {"name": "low", **interval}, {"name": "median", **point}]},
            {"name": "step", **step_mark},
        ],
        "resolve": {"scale": {"shape": "independent", "color": "independent"}},
    }
