"""Charts of the first place that are drawn when the page is built, so that they are visible before any program runs,
and without one. The program replaces them with its own charts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dyno.report.charts import draw, theme, vega
from dyno.report.charts.chart import Chart, Record, unit_of
from dyno.report.tables import display_limits, heading
from dyno.results import Run

WIDTH = 1_340
"""Width in pixels; narrower windows scale the drawing down."""
MOST_BYTES = 40_000
"""Maximum size of a drawing. Larger ones are left to the program, because pages of large runs would exceed 2 MB."""
CONCAT_MARGIN = 104
"""The same value as in figure.js."""
LIGHT = theme.config(dark=False)
# Colours that the page's style defines, so that they change in dark mode: see page.css.
TEXT, DIM, GRID = (LIGHT["axis"][name] for name in ("labelColor", "titleColor", "gridColor"))
COLOURS = {TEXT: "var(--ink)", DIM: "var(--dim)", GRID: "var(--line)"}


def chosen(run: Run, charts: Sequence[Chart], payload: Mapping[str, Any]) -> list[tuple[Chart, list[Record]]]:
    """Returns the records to draw, by chart. `payload`: the run's data for the page's program."""
    start = payload["start"]
    best = next((row["engine"] for row in payload["rows"] if row["best"] and _is_here(row, start, ())), None)
    by_chart = []
    for chart in charts:
        here = partial(_is_here, start=start, spans=chart.spans)
        if payload["brief"] and chart.brief:
            records = list(chart.selected(run, here))
        else:
            packed = payload["records"][chart.name]
            unpacked = (dict(zip(packed["names"], row, strict=True)) for row in packed["rows"])
            records = list(filter(here, unpacked))
        records = [record for record in records if record.get("baseline", best) == best]
        engines = list(dict.fromkeys(record["engine"] for record in records))[: display_limits.ROWS]
        if records := [record for record in records if record["engine"] in engines]:
            by_chart.append((chart, records))
    return by_chart


def stills(run: Run, by_chart: Iterable[tuple[Chart, Sequence[Record]]]) -> dict[str, str]:
    """Returns SVGs by the charts' names, without those that are too large."""
    drawings = {chart.name: _drawn(chart, heading.engines(run), records) for chart, records in by_chart}
    return {name: svg for name, svg in drawings.items() if len(svg) <= MOST_BYTES}


def _is_here(record: Mapping[str, Any], start: Mapping[str, Any], spans: Sequence[str]) -> bool:
    """Returns whether the record belongs to the first place. It does the same as `isHere` in state.js, without
    floors."""
    params = {name: value for name, value in record["params"].items() if name not in spans}
    return (
        not record["floor"]
        and (record["phase"], record["tier"] or "") == (start["phase"], start["tier"])
        and all(start["params"][name] == value for name, value in params.items())
    )


def _drawn(chart: Chart, engines: Sequence[str], records: Sequence[Record]) -> str:
    vl_convert = draw.load("the report needs vl-convert; install it by")

    spec = chart.spec(engines, unit_of(records[0]))
    panels = spec.get("vconcat")
    for panel in panels or [spec]:
        panel["width"] = WIDTH - CONCAT_MARGIN if panels else WIDTH
    shown = {record["engine"] for record in records}
    vega.limit_legends(spec, [engine for engine in engines if engine in shown])
    converted = vl_convert.vegalite_to_vega({**spec, "data": {"values": list(records)}, "config": LIGHT})
    if not panels:
        converted["autosize"] = {"type": "fit-x", "contains": "padding"}
    svg: str = vl_convert.vega_to_svg(converted)

    def on_page(tag: re.Match[str]) -> str:
        """Converts a tag for the page: with the page's colours, short numbers and unique ids."""
        text = tag[0]
        for colour, variable in COLOURS.items():
            text = text.replace(f'"{colour}"', f'"{variable}"')
        # The element around the drawing has the description for screen readers.
        text = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", text)
        text = re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", text)
        # All drawings of the page number their ids from the same start.
        return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{chart.file}-", text)

    # Only tags are changed: the texts between them may contain versions, which look like numbers.
    return re.sub(r"<[^>]*>", on_page, svg)
