"""The look of charts (colours, shapes and fonts, light and dark), and building blocks of Vega-Lite specifications:
figures as text, encodings, layers, clipped intervals. `dyno.report.tables.units` writes the same figures in Python.

All colours of charts are defined here. One palette serves both backgrounds: each colour has a contrast of at least
3:1 against either, and colour-blind people can distinguish the first five clearly. Colour is never the only
distinction: an engine also has its name beside it, or a shape and a dash.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence

from dyno.contracts.value_types import JsonObject

FONT = "system-ui, sans-serif"
LIGHT, DARK = "#ffffff", "#16191f"
"""Backgrounds; the palette contrasts with both."""
PADDING = 14
PALETTE = (
    *("#2c84d1", "#b08f0b", "#16792c", "#dc6e8f", "#845884", "#6e4dd1"),
    *("#d13742", "#bb4db0", "#8479fd", "#bb7958", "#b084bb"),
)
SALT = 290571
"""Chosen so that few engines that are often compared hash to the same colour."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2), (12, 3), (4, 4), (1, 3), (10, 2, 2, 2, 2, 2), (3, 1))
LOOKS: dict[str, Sequence[object]] = {
    "color": PALETTE,
    "shape": SHAPES,
    "strokeDash": [list(dash) for dash in DASHES],
}
VERDICTS = {
    "faster": ("#2c84d1", "triangle-right"),
    "slower": ("#c75b12", "triangle-left"),
    "alike": ("#16792c", "diamond"),
    "unclear": ("#7d8590", "circle"),
}


def looks(engines: Iterable[str]) -> dict[str, int]:
    """Returns a number for each name, which selects its colour, shape and dash. The number depends mostly on the name
    alone, so that an engine looks the same in every run, chart and page. Of names that hash to the same colour, the
    first in alphabetical order gets it, and the others get free colours. When the palette is used up, the remaining
    names share it again."""
    hashes = {name: zlib.crc32(f"{SALT}:{name}".encode(errors="replace")) % len(PALETTE) for name in engines}
    numbers: dict[str, int] = {}
    left, before = sorted(hashes), 0
    while left:
        assigned: dict[int, str] = {}
        for name in left:
            assigned.setdefault(hashes[name], name)
        done = set(assigned.values())
        for name in left:
            if name not in done and len(assigned) < len(PALETTE):
                colours = ((hashes[name] + step) % len(PALETTE) for step in range(len(PALETTE)))
                assigned[next(colour for colour in colours if colour not in assigned)] = name
        numbers |= {name: before + colour for colour, name in assigned.items()}
        left, before = [name for name in left if name not in numbers], before + len(PALETTE)
    return numbers


def scale(engines: Sequence[str], channel: str) -> JsonObject:
    """Returns the scale that gives each engine its "color", "shape" or "strokeDash" by its name."""
    values, numbers = LOOKS[channel], looks(engines)
    return {"domain": list(engines), "range": [values[numbers[name] % len(values)] for name in engines]}


def config(dark: bool = False) -> JsonObject:
    """Returns a Vega-Lite config with a transparent background."""
    if dark:
        text = "#e6e8eb"
        dim = "#9aa3ae"
        grid = "#2e343d"
    else:
        text = "#1f2328"
        dim = "#59636e"
        grid = "#e3e6ea"
    labels = {"labelColor": text, "titleColor": dim, "labelFontSize": 12, "titleFontSize": 12}
    title = {"subtitleColor": dim, "subtitleFontSize": 12, "subtitleLineHeight": 16, "subtitlePadding": 6}
    axis = {"labelLimit": 280, "titlePadding": 8, "labelPadding": 6, "ticks": False, "labelOverlap": True}
    return {
        "background": "transparent",
        "font": FONT,
        "padding": PADDING,
        "view": {"stroke": None, "continuousWidth": 560, "continuousHeight": 300},
        "title": {**title, "anchor": "start", "color": text, "fontSize": 14, "fontWeight": 600, "offset": 12},
        "axis": {**axis, **labels, "titleFontWeight": 400, "gridColor": grid, "domainColor": grid},
        "legend": {**labels, "titleFontWeight": 400, "labelLimit": 280, "symbolStrokeWidth": 2, "symbolSize": 80},
        "concat": {"spacing": 28},
        "text": {"color": text, "fontSize": 12},
        "rule": {"color": text},
        "style": {
            "remark": {"fill": dim, "fontSize": 11},
            # The colour is visible both on the bar and beside it.
            "interval": {"stroke": text, "strokeWidth": 1.5},
            "cap": {"stroke": text, "strokeWidth": 1.5},
            "cut": {"color": text},
            "trial": {"color": text},
            "one": {"stroke": dim, "strokeWidth": 1.5, "strokeDash": [4, 3]},
        },
    }


# -- specifications -----------------------------------------------------------------------------------------

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


def known_or_dash(value: str, text: str) -> str:
    """Returns a Vega expression that is `text` if the value is known, else a dash."""
    return f"(isValid({value}) ? {text} : '–')"


def interval_text(kind: str, low: str, high: str) -> str:
    """Returns a Vega expression for the text of an interval, which is a dash if there is no interval."""
    return known_or_dash(low, f"{figure(kind, low)} + ' – ' + {figure(kind, high)}")


def calculate(fields: Mapping[str, str]) -> list[JsonObject]:
    """Returns transforms that add a field for each expression."""
    return [{"calculate": expression, "as": name} for name, expression in fields.items()]


def add_spoken_text(*parts: str) -> JsonObject:
    """Returns a transform that adds `spoken`, the text that a screen reader reads for a mark. Remarks come last."""
    return {"calculate": " + ', ' + ".join(parts) + " + (datum.remarks ? ', ' + datum.remarks : '')", "as": "spoken"}


def tooltip(titles: Mapping[str, str]) -> list[JsonObject]:
    """Returns the encoding of a tooltip, from titles by field."""
    # Vega-Lite turns titles into an expression and escapes quotation marks in it, but not backslashes.
    return [{"field": field, "title": title.replace("\\", "\\\\")} for field, title in titles.items()]


def quantity(field: str, **more: object) -> JsonObject:
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: object) -> JsonObject:
    return {"field": field, "type": "nominal", **more}


def mark(kind: str, **look: object) -> JsonObject:
    """Returns a mark that screen readers skip."""
    return {"type": kind, "aria": False, **look}


def layer(look: str | JsonObject, encoding: JsonObject, *filters: str) -> JsonObject:
    """Returns a layer of the records that pass the filters."""
    drawn = {"mark": look, "encoding": encoding}
    if filters:
        return {"transform": [{"filter": test} for test in filters], **drawn}
    return drawn


def by_engine(engines: Sequence[str], channel: str, symbol: int = 80) -> JsonObject:
    """Returns an encoding that distinguishes engines by "color", "shape" or "strokeDash". It has a legend above the
    chart, whose symbols take `symbol` square pixels. Vega-Lite merges the legends of a chart's channels into one."""
    legend = {"title": None, "orient": "top", "columns": legend_columns(engines, 560), "symbolLimit": 0}
    legend |= {"symbolOpacity": 1, "symbolSize": symbol}
    return nominal("engine", scale=scale(engines, channel), legend=legend)


def legend_columns(engines: Sequence[str], width: int) -> int:
    """Returns the number of columns of a legend that is `width` pixels wide."""
    longest = max((len(engine) for engine in engines), default=0) * LETTER + SYMBOL
    return max(1, min(MOST_COLUMNS, width // longest))


def limit_legends(spec: object, engines: Sequence[str], columns: int | None = None) -> None:
    """Limits legends to these engines, without changing colours. It does the same as `limitLegends` in figure.js."""
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        limit_legends(part, engines, columns)
    if isinstance(spec, dict) and spec.get("field") == "engine" and spec.get("legend"):
        spec["legend"] = {**spec["legend"], "values": list(engines), **({"columns": columns} if columns else {})}


def outermost(point: str) -> list[JsonObject]:
    """Returns transforms that give each record the `least` and `most` value of an expression over all records."""
    ends = [{"op": op, "field": "point", "as": name} for op, name in (("min", "least"), ("max", "most"))]
    return [*calculate({"point": point}), {"joinaggregate": ends}]


def clip(log: bool = False, low: str = "low", high: str = "high") -> list[JsonObject]:
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


def arrows(encoding: JsonObject, channel: str, *filters: str, **look: object) -> list[JsonObject]:
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
