"""The charts of the place where a page begins, drawn when it is made: they are seen before any program runs, and
without one. The program puts its own in their place, which can be asked for others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dyno.report.charts import draw, theme
from dyno.report.charts.chart import Chart, Record, unit_of
from dyno.report.tables import display_limits, heading
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


def chosen(run: Run, charts: Sequence[Chart], told: Mapping[str, Any]) -> list[tuple[Chart, list[Record]]]:
    """What is to be drawn, chart by chart. `told`: what the program is told of the run."""
    at = told["start"]
    best = next((row["engine"] for row in told["rows"] if row["best"] and _here(row, at, ())), None)
    found = []
    for chart in charts:
        here = partial(_here, at=at, spans=chart.spans)
        brief = told["brief"] and chart.brief
        records = list(chart.selected(run, here) if brief else filter(here, _unpacked(told["records"][chart.name])))
        shown = _first([record for record in records if record.get("baseline", best) == best])
        found += [(chart, shown)] if shown else []
    return found


def stills(run: Run, found: Iterable[tuple[Chart, Sequence[Record]]]) -> dict[str, str]:
    """SVG by the chart's name, of those that are not too large."""
    drawn = {chart.name: _drawn(chart, heading.engines(run), records) for chart, records in found}
    return {name: svg for name, svg in drawn.items() if len(svg) <= MOST_BYTES}


def _unpacked(found: Mapping[str, Any]) -> Iterator[Record]:
    """As the page's program does it."""
    return (dict(zip(found["names"], row, strict=True)) for row in found["rows"])


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
    engines = list(dict.fromkeys(record["engine"] for record in records))[: display_limits.ROWS]
    return [record for record in records if record["engine"] in engines]


def _drawn(chart: Chart, engines: Sequence[str], records: Sequence[Record]) -> str:
    vl_convert = draw.load("the report needs vl-convert; install it by")

    spec = chart.spec(engines, unit_of(records[0]))
    parts = spec.get("vconcat")
    for part in parts or [spec]:
        part["width"] = WIDTH - CONCAT_MARGIN if parts else WIDTH
    _narrowed(spec, {record["engine"] for record in records})
    made = vl_convert.vegalite_to_vega({**spec, "data": {"values": list(records)}, "config": LIGHT})
    if not parts:
        made["autosize"] = {"type": "fit-x", "contains": "padding"}
    drawn: str = vl_convert.vega_to_svg(made)
    # Tags alone: the texts between them are names of the run's, with versions in them.
    return re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], chart.file), drawn)


def _tag(tag: str, prefix: str) -> str:
    """A tag of a drawing as the page has it."""
    for colour, variable in COLOURS.items():
        tag = tag.replace(f'"{colour}"', f'"{variable}"')
    # It is hidden from screen readers: the element around it says what it shows.
    tag = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", tag)
    tag = re.sub(r"\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", tag)
    # Several stand in one page, and each numbers what it refers to from the beginning.
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", tag)


def _narrowed(spec: Any, engines: set[str]) -> None:
    """What `narrowed` is in figure.js."""
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        _narrowed(part, engines)
    if isinstance(spec, dict) and spec.get("field") == "engine" and spec.get("legend"):
        spec["legend"]["values"] = [name for name in spec["scale"]["domain"] if name in engines]
