"""Building blocks of Vega-Lite specifications: figures as text, encodings, layers, clipped intervals.

All charts are built from these. `dyno.report.tables.units` writes the same figures in Python.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dyno.report.charts import theme

Json = dict[str, Any]
DIGITS = "'.3~r'"
TICKS = 5
FROM_ZERO = {"zero": True, "nice": TICKS}
"""A scale that begins at zero and ends at a tick."""
DECADES = [10**power for power in range(13)]
"""Ticks of a logarithmic axis of ns."""
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "rate": ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1, "")),
    "bandwidth": ((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1, " B/s")),
    "ns": ((1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1, " ns")),
    "bytes": ((2**40, " TiB"), (2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B")),
}
FORMATS = {
    "ratio": "format({}, '.2f')",
    "factor": f"('× ' + format({{}}, {DIGITS}))",
    "count": "format({}, ',.12~r')",
}
MOST_COLUMNS = 6
LETTER, SYMBOL = 7, 40
"""Estimated width of a letter and of a symbol in a legend, in pixels, rather too wide than too narrow."""
BEYOND_FACTOR, BEYOND_SHARE = 2.0, 0.25
"""How far an interval may reach beyond the outermost points. On a logarithmic axis, the first is a factor. On other
axes, the second is a share of the points' span, or of the largest point if that is larger. Without a limit, a single
wide interval would squash all points."""


def figure(kind: str, value: str) -> str:
    """Returns a Vega expression for the text of a number, as '813 k', '1.2 µs' or '9.39 MiB'. `value` is an
    expression."""
    if kind in FORMATS:
        return FORMATS[kind].format(value)
    *upper, (_, last) = SCALES[kind]
    # A unit begins at 0.9995 of its size, because 999.6 would be rounded to '1000 k' instead of '1 M'.
    cases = [
        f"{value} >= {size * 0.9995:.10g} ? format({value} / {size:.10g}, {DIGITS}) + '{unit}' : "
        for size, unit in upper
    ]
    return f"({''.join(cases)}format({value}, {DIGITS}) + '{last}')"


def literal(text: str) -> str:
    """Returns a string literal of a Vega expression. Text from a run file must be passed through this function."""
    return json.dumps(text)


def known(value: str, text: str) -> str:
    """Returns a Vega expression that is `text` if the value is known, else a dash."""
    return f"(isValid({value}) ? {text} : '–')"


def interval_text(kind: str, low: str, high: str) -> str:
    """Returns a Vega expression for the text of an interval, which is a dash if there is no interval."""
    return known(low, f"{figure(kind, low)} + ' – ' + {figure(kind, high)}")


def calculate(fields: Mapping[str, str]) -> list[Json]:
    """Returns transforms that add a field for each expression."""
    return [{"calculate": expression, "as": name} for name, expression in fields.items()]


def spoken(*parts: str) -> Json:
    """Returns a transform that adds `spoken`, the text that a screen reader reads for a mark. Remarks come last."""
    return {"calculate": " + ', ' + ".join(parts) + " + (datum.remarks ? ', ' + datum.remarks : '')", "as": "spoken"}


def tooltip(titles: Mapping[str, str]) -> list[Json]:
    """Returns the encoding of a tooltip, from titles by field."""
    # Vega-Lite turns titles into an expression and escapes quotation marks in it, but not backslashes.
    return [{"field": field, "title": title.replace("\\", "\\\\")} for field, title in titles.items()]


def quantity(field: str, **more: Any) -> Json:
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> Json:
    return {"field": field, "type": "nominal", **more}


def mark(kind: str, **look: Any) -> Json:
    """Returns a mark that screen readers skip."""
    return {"type": kind, "aria": False, **look}


def layer(look: str | Json, encoding: Json, *filters: str) -> Json:
    """Returns a layer of the records that pass the filters."""
    drawn = {"mark": look, "encoding": encoding}
    return {"transform": [{"filter": test} for test in filters], **drawn} if filters else drawn


def by_engine(engines: Sequence[str], channel: str, symbol: int = 80) -> Json:
    """Returns an encoding that distinguishes engines by "color", "shape" or "strokeDash". It has a legend above the
    chart, whose symbols take `symbol` square pixels. Vega-Lite merges the legends of a chart's channels into one."""
    legend = {"title": None, "orient": "top", "columns": legend_columns(engines, 560), "symbolLimit": 0}
    legend |= {"symbolOpacity": 1, "symbolSize": symbol}
    return nominal("engine", scale=theme.scale(engines, channel), legend=legend)


def legend_columns(engines: Sequence[str], width: int) -> int:
    """Returns the number of columns of a legend that is `width` pixels wide."""
    longest = max((len(engine) for engine in engines), default=0) * LETTER + SYMBOL
    return max(1, min(MOST_COLUMNS, width // longest))


def limit_legends(spec: Any, engines: Sequence[str], columns: int | None = None) -> None:
    """Limits legends to these engines, without changing colours. It does the same as `limitLegends` in figure.js."""
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        limit_legends(part, engines, columns)
    if isinstance(spec, dict) and spec.get("field") == "engine" and spec.get("legend"):
        spec["legend"] = {**spec["legend"], "values": list(engines), **({"columns": columns} if columns else {})}


def outermost(point: str) -> list[Json]:
    """Returns transforms that give each record the `least` and `most` value of an expression over all records."""
    ends = [{"op": op, "field": "point", "as": name} for op, name in (("min", "least"), ("max", "most"))]
    return [*calculate({"point": point}), {"joinaggregate": ends}]


def clip(log: bool = False, low: str = "low", high: str = "high") -> list[Json]:
    """Returns transforms that clip each record's interval. `from` and `to` are the ends of the clipped interval,
    `less` and `more` say on which side it was clipped, and `start` and `end` limit the axis. The records need `least`
    and `most`."""
    room = f"max(datum.most - datum.least, abs(datum.most)) * {BEYOND_SHARE}"
    valid = f"isValid(datum.{low}) && isValid(datum.{high})"
    return calculate(
        {
            "start": f"datum.least / {BEYOND_FACTOR}" if log else f"datum.least - {room}",
            "end": f"datum.most * {BEYOND_FACTOR}" if log else f"datum.most + {room}",
            "less": f"{valid} && datum.{low} < datum.start",
            "more": f"{valid} && datum.{high} > datum.end",
            "from": f"{valid} ? max(datum.{low}, datum.start) : null",
            "to": f"{valid} ? min(datum.{high}, datum.end) : null",
        }
    )


def arrows(encoding: Json, channel: str, *filters: str, **look: Any) -> list[Json]:
    """Returns layers of arrows at the clipped ends of intervals. `encoding`: the encodings of the other channels."""
    shapes = {"x": ("triangle-left", "triangle-right"), "y": ("triangle-down", "triangle-up")}[channel]
    return [
        layer(
            mark("point", filled=True, opacity=1, size=70, shape=shape, **look),
            {**encoding, channel: quantity(end)},
            *filters,
            f"datum.{side}",
        )
        for side, end, shape in zip(("less", "more"), ("from", "to"), shapes, strict=True)
    ]
