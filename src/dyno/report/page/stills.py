"""The charts of the place where a page begins, drawn when it is made: they are seen before any program runs, and
without one. The program puts its own in their place, which can be asked for others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dyno.report import heading, limits
from dyno.report.charts import theme
from dyno.report.charts.chart import Chart, Record, unit_of
from dyno.results import Run

WIDTH = 1_340
"""Pixels; a narrower window has it smaller."""
MOST_BYTES = 40_000
"""Of one: what has more to draw is drawn by the program alone, or a page of a large run would be none of 2 MB."""
CONCAT_MARGIN = 104
"""As figure.js has it."""
LIGHT = theme.config(dark=False)
# The page's own colours, which are others in the dark: see page.css.
TEXT, DIM, GRID = (LIGHT["axis"][name] for name in ("labelColor", "titleColor", "gridColor"))
COLOURS = {TEXT: "var(--ink)", DIM: "var(--dim)", GRID: "var(--line)"}


def stills(run: Run, charts: Sequence[Chart], told: Mapping[str, Any]) -> dict[str, str]:
    """SVG by the chart's name, of those that have something to draw. `told`: what the program is told of the run."""
    at = told["start"]
    best = next((row["engine"] for row in told["rows"] if row["best"] and _here(row, at, ())), None)
    found = {}
    for chart in charts:
        records = [record for record in chart.records(run) if _here(record, at, chart.spans)]
        shown = _first([record for record in records if record.get("baseline", best) == best])
        drawn = _drawn(chart, heading.engines(run), shown) if shown else ""
        if drawn and len(drawn) <= MOST_BYTES:
            found[chart.name] = drawn
    return found


def _here(record: Mapping[str, Any], at: Mapping[str, Any], spans: Sequence[str]) -> bool:
    """What `isHere` is in state.js. Floors are chosen later, if at all."""
    params = {name: value for name, value in record["params"].items() if name not in spans}
    return (
        not record["floor"]
        and (record["phase"], record["tier"] or "") == (at["phase"], at["tier"])
        and all(at["params"][name] == value for name, value in params.items())
    )


def _first(records: Sequence[Record]) -> list[Record]:
    """Those of so many engines as a picture has."""
    engines = list(dict.fromkeys(record["engine"] for record in records))[: limits.ROWS]
    return [record for record in records if record["engine"] in engines]


def _drawn(chart: Chart, engines: Sequence[str], records: Sequence[Record]) -> str:
    import vl_convert

    spec = chart.spec(engines, unit_of(records[0]))
    parts = spec.get("vconcat")
    for part in parts or [spec]:
        part["width"] = WIDTH - CONCAT_MARGIN if parts else WIDTH
    _narrowed(spec, {record["engine"] for record in records})
    made = vl_convert.vegalite_to_vega({**spec, "data": {"values": list(records)}, "config": LIGHT})
    if not parts:
        made["autosize"] = {"type": "fit-x", "contains": "padding"}
    drawn: str = vl_convert.vega_to_svg(made)
    for colour, variable in COLOURS.items():
        drawn = drawn.replace(f'"{colour}"', f'"{variable}"')
    # It is hidden from screen readers: the element around it says what it shows.
    drawn = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", drawn)
    drawn = re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", drawn)
    # Several stand in one page, and each numbers what it refers to from the beginning.
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{chart.file}-", drawn)


def _narrowed(spec: Any, engines: set[str]) -> None:
    """What `narrowed` is in figure.js."""
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        _narrowed(part, engines)
    if isinstance(spec, dict) and spec.get("field") == "engine" and spec.get("legend"):
        spec["legend"]["values"] = [name for name in spec["scale"]["domain"] if name in engines]
