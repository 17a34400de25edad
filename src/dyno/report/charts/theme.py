"""How charts look: colours, shapes and fonts, in light and dark. No chart has a colour that is not from here.

One palette serves both backgrounds: each colour has a contrast of at least 3:1 against either, and the first five
differ clearly to the colour-blind. Colour is never alone: an engine has its name beside it, or a shape and a dash.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

FONT = "system-ui, sans-serif"
LIGHT, DARK = "#ffffff", "#16191f"
"""Backgrounds, for which the palette was chosen."""
PADDING = 14
PALETTE = (
    *("#2c84d1", "#b08f0b", "#16792c", "#dc6e8f", "#845884", "#6e4dd1"),
    *("#d13742", "#bb4db0", "#8479fd", "#bb7958", "#b084bb"),
)
SALT = 290571
"""Chosen so that few engines that are compared with each other wish for the same colour."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2), (12, 3), (4, 4), (1, 3), (10, 2, 2, 2, 2, 2), (3, 1))
# What each kind of verdict looks like.
VERDICTS = {
    "faster": ("#2c84d1", "triangle-right"),
    "slower": ("#c75b12", "triangle-left"),
    "alike": ("#16792c", "diamond"),
    "unclear": ("#7d8590", "circle"),
}


def looks(engines: Iterable[str]) -> dict[str, int]:
    """A number for each name, of which its colour, its shape and its dash come: by the name alone, so that it is the
    same in every run, chart and page. Of names that wish for the same, the first of the alphabet has it, and the
    others what nobody wishes for; where there are more names than colours, the rest share them out again."""
    found: dict[str, int] = {}
    left, before = sorted(set(engines)), 0
    while left:
        given: dict[int, str] = {}
        for name in left:
            given.setdefault(_wish(name), name)
        has = set(given.values())
        for name in left:
            if name not in has and len(given) < len(PALETTE):
                steps = ((_wish(name) + step) % len(PALETTE) for step in range(len(PALETTE)))
                given[next(at for at in steps if at not in given)] = name
        found |= {name: before + at for at, name in given.items()}
        left, before = [name for name in left if name not in found], before + len(PALETTE)
    return found


def _wish(name: str) -> int:
    return zlib.crc32(f"{SALT}:{name}".encode(errors="replace")) % len(PALETTE)


def _over(engines: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """A scale that gives each engine its value, by its name, over and over."""
    found = looks(engines)
    return {"domain": list(engines), "range": [values[found[name] % len(values)] for name in engines]}


def colours(engines: Sequence[str]) -> dict[str, Any]:
    return _over(engines, PALETTE)


def shapes(engines: Sequence[str]) -> dict[str, Any]:
    return _over(engines, SHAPES)


def dashes(engines: Sequence[str]) -> dict[str, Any]:
    return _over(engines, [list(dash) for dash in DASHES])


def config(dark: bool = False) -> dict[str, Any]:
    """A Vega-Lite config. Its background is transparent: what is under the chart decides."""
    text, dim, grid = ("#e6e8eb", "#9aa3ae", "#2e343d") if dark else ("#1f2328", "#59636e", "#e3e6ea")
    labels = {"labelColor": text, "titleColor": dim, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": "transparent",
        "font": FONT,
        "padding": PADDING,
        "view": {"stroke": None, "continuousWidth": 560, "continuousHeight": 300},
        "title": {
            "anchor": "start",
            "color": text,
            "fontSize": 14,
            "fontWeight": 600,
            "offset": 12,
            "subtitleColor": dim,
            "subtitleFontSize": 12,
            "subtitleLineHeight": 16,
            "subtitlePadding": 6,
        },
        "axis": {
            **labels,
            "titleFontWeight": 400,
            "gridColor": grid,
            "domainColor": grid,
            "labelLimit": 280,
            "titlePadding": 8,
            "labelPadding": 6,
            "ticks": False,
            "labelOverlap": True,
        },
        "legend": {**labels, "titleFontWeight": 400, "labelLimit": 280, "symbolStrokeWidth": 2, "symbolSize": 80},
        "concat": {"spacing": 28},
        "text": {"color": text, "fontSize": 12},
        "rule": {"color": text},
        "style": {
            "remark": {"fill": dim, "fontSize": 11},
            # The interval is seen on its bar and beside it.
            "interval": {"stroke": text, "strokeWidth": 1.5},
            "cap": {"stroke": text, "strokeWidth": 1.5},
            "cut": {"color": text},
            "trial": {"color": text},
            "one": {"stroke": dim, "strokeWidth": 1.5, "strokeDash": [4, 3]},
        },
    }
