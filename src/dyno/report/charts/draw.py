"""Draws Vega-Lite specifications as SVG or PNG with the library vl-convert, without a browser."""

import ctypes
import re
import resource
from contextlib import suppress
from typing import Any

from dyno.contracts.model import UsageError
from dyno.host import installation
from dyno.report.charts import theme

NARROWEST, CRAMPED = 120, 260
"""Minimum width of a panel without its axes, in pixels. The first is for a panel alone in its line, the second for a
panel beside others."""
TRIES = 5
NEEDS = "pictures need vl-convert-python"
GIB = 1 << 30
ADDRESS_SPACE = 66 * GIB
"""Address space that vl-convert's V8 reserves at start. With 38 GiB it aborts the process; 67 GiB are enough."""


def load(purpose: str) -> Any:
    """Returns the module vl_convert. Raises UsageError; if the module is missing, its text begins with `purpose`."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise UsageError(
            f"charts need {ADDRESS_SPACE // GIB} GiB of address space, and the limit is {limit / GIB:.1f} GiB:"
            " raise it by `ulimit -v unlimited`"
        )
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise UsageError(f"{purpose}: {installation.extra('report')}") from None
    except ImportError as error:
        raise UsageError(f"vl-convert can't be loaded: {' '.join(str(error).split())}") from None
    return vl_convert


def svg(sheet: dict[str, Any], width: int, dark: bool = False) -> str:
    """Draws a sheet exactly `width` pixels wide. The panels share the width that axes and figures leave. If that is
    too little, the sheet gets fewer columns. Raises UsageError if even a single column is too wide."""
    (grid,) = sheet["vconcat"]
    for columns in range(grid["columns"], 0, -1):
        drawn, needed = _fitted({**sheet, "vconcat": [{**grid, "columns": columns}]}, width, columns, dark)
        if drawn is not None:
            return drawn
    raise UsageError(f"--width {width} is too narrow for this chart: it needs at least {needed}")


def png(drawn: str, scale: float) -> bytes:
    content: bytes = load(NEEDS).svg_to_png(drawn, scale=scale)
    return content


def _fitted(sheet: dict[str, Any], width: int, columns: int, dark: bool) -> tuple[str | None, int]:
    """Returns the drawing, or None if its panels would be too narrow, and the width that it needs."""
    (grid,) = sheet["vconcat"]
    narrowest = NARROWEST if columns == 1 else CRAMPED
    panel, right, trial = max(narrowest, width // columns - 200), 0, sheet
    if len(grid["concat"]) > 2 * columns:
        # Drawing is slow. First draw only the panel with the longest record of each column, which usually gives the
        # right width.
        widest = [max(grid["concat"][at::columns], key=_longest) for at in range(columns)]
        trial = {**sheet, "vconcat": [{**grid, "concat": widest}]}
    config = {**theme.config(dark), "background": theme.DARK if dark else theme.LIGHT}
    for _ in range(TRIES):
        config["padding"] = dict.fromkeys(("left", "top", "bottom"), theme.PADDING) | {"right": theme.PADDING + right}
        config["view"] = {**config["view"], "continuousWidth": panel}
        drawn: str = load(NEEDS).vegalite_to_svg({**trial, "config": config})
        match = re.search(r'<svg[^>]* width="(\d+)', drawn)
        assert match, "an SVG has a width"
        taken = int(match[1]) - right
        needed = taken + (narrowest - panel) * columns
        rest = width - taken
        if rest == right and trial is sheet:
            return drawn, needed
        # Rounded down, also below zero, because the drawing must not be too wide.
        panel, right, trial = panel + rest // columns, rest % columns, sheet
        if panel < narrowest:
            break
    return None, needed


def _longest(view: dict[str, Any]) -> int:
    """Returns the length of the panel's longest record."""
    records = view["data"]["values"]
    return max(sum(len(str(v)) for v in record.values() if not isinstance(v, list)) for record in records)


def trim() -> None:
    """Returns memory to the system that the C library holds although it was freed. vl-convert leaves much of it after
    it has bundled the charting library in its threads."""
    # Only the GNU C library has this function.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
