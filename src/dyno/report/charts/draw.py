"""A sheet of charts as SVG or PNG, without a browser."""

from __future__ import annotations

import re
from typing import Any

from dyno.contracts.model import UsageError
from dyno.report.charts import theme, vega

NARROWEST, CRAMPED = 120, 260
"""Of a panel without its axes, in pixels: where it is alone in its line, and where it is not."""
TRIES = 5


def svg(sheet: dict[str, Any], width: int, dark: bool = False) -> str:
    """Exactly so many pixels wide: its panels are, by what the axes and the figures beside them leave; in fewer
    columns where that is too little. Raises UsageError for a width that leaves too little even then."""
    (grid,) = sheet["vconcat"]
    for columns in range(grid["columns"], 0, -1):
        drawn, wanted = _fitted({**sheet, "vconcat": [{**grid, "columns": columns}]}, width, columns, dark)
        if drawn is not None:
            return drawn
    raise UsageError(f"--width {width} is too narrow for this chart, which takes {wanted} at least")


def _fitted(sheet: dict[str, Any], width: int, columns: int, dark: bool) -> tuple[str | None, int]:
    """None where the panels would be too narrow; and the width in which they would not."""
    narrowest = NARROWEST if columns == 1 else CRAMPED
    panel, right = max(narrowest, width // columns - 200), 0
    # Of many panels those with the longest texts tell first, as a rule the right width: a picture takes its time.
    tried = _widest(sheet, columns)
    for _ in range(TRIES):
        drawn = _svg(tried, panel, dark, right)
        taken = _width(drawn) - right
        wanted = taken + (narrowest - panel) * columns
        rest = width - taken
        if rest == right and tried is sheet:
            return drawn, wanted
        # Downwards too, or it would come out too wide.
        panel, right, tried = panel + rest // columns, rest % columns, sheet
        if panel < narrowest:
            break
    return None, wanted


def _widest(sheet: dict[str, Any], columns: int) -> dict[str, Any]:
    """The sheet with one panel in each column: the one whose records have most to say."""
    (grid,) = sheet["vconcat"]
    if len(grid["concat"]) <= 2 * columns:
        return sheet
    lines = [grid["concat"][at::columns] for at in range(columns)]
    return {**sheet, "vconcat": [{**grid, "concat": [max(each, key=_said) for each in lines]}]}


def _said(view: dict[str, Any]) -> int:
    records = view["data"]["values"]
    return max(sum(len(str(value)) for value in record.values() if not isinstance(value, list)) for record in records)


def png(drawn: str, scale: float) -> bytes:
    content: bytes = _library().svg_to_png(drawn, scale=scale)
    return content


def _svg(sheet: dict[str, Any], panel: int, dark: bool, right: int) -> str:
    config = theme.config(dark)
    padding = {"left": theme.PADDING, "top": theme.PADDING, "bottom": theme.PADDING, "right": theme.PADDING + right}
    config = {**config, "background": theme.DARK if dark else theme.LIGHT, "padding": padding}
    config["view"] = {**config["view"], "continuousWidth": panel}
    drawn: str = _library().vegalite_to_svg({**sheet, "config": config})
    return drawn


def _width(drawn: str) -> int:
    found = re.search(r'<svg[^>]* width="(\d+)', drawn)
    assert found, "an SVG has a width"
    return int(found.group(1))


def _library() -> Any:
    return vega.load("pictures need vl-convert-python")
