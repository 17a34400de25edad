"""The look of charts: colours, shapes and fonts, light and dark. All colours of charts are defined here.

One palette serves both backgrounds: each colour has a contrast of at least 3:1 against either, and colour-blind
people can distinguish the first five clearly. Colour is never the only distinction: an engine also has its name
beside it, or a shape and a dash.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

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
LOOKS: dict[str, Sequence[Any]] = {"color": PALETTE, "shape": SHAPES, "strokeDash": [list(dash) for dash in DASHES]}
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


def scale(engines: Sequence[str], channel: str) -> dict[str, Any]:
    """Returns the scale that gives each engine its "color", "shape" or "strokeDash" by its name."""
    values, numbers = LOOKS[channel], looks(engines)
    return {"domain": list(engines), "range": [values[numbers[name] % len(values)] for name in engines]}


def config(dark: bool = False) -> dict[str, Any]:
    """Returns a Vega-Lite config with a transparent background."""
    text, dim, grid = ("#e6e8eb", "#9aa3ae", "#2e343d") if dark else ("#1f2328", "#59636e", "#e3e6ea")
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
