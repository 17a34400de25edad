"""Data for the page's program: the choices in its filters, and the records of the charts. Also the charts of the
first place, drawn when the page is built, so that they are visible before any program runs, and without one; the
program replaces them with its own charts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from dyno.report.charts import bars, plot, vega
from dyno.report.charts.chart import Chart, Record, unit_of
from dyno.report.charts.chart import common as common_keys
from dyno.report.tables import display, notes, units
from dyno.report.tables.overview import Place, Ranking, called, place
from dyno.report.tables.table import Group, Row, varying
from dyno.results import Run
from dyno.stats import answer


def common(charts: Iterable[Chart]) -> dict[str, Any]:
    """Returns charts and looks, which are the same for all runs of the page."""
    keys = ("name", "file", "title", "spans", "needs")
    return {
        "charts": [
            {**{key: getattr(chart, key) for key in keys}, "columns": [asdict(column) for column in chart.columns]}
            for chart in charts
        ],
        "config": {"light": vega.config(dark=False), "dark": vega.config(dark=True)},
        "paper": {"light": vega.LIGHT, "dark": vega.DARK},
        "unknown": units.UNKNOWN,
        "most": {"rows": display.ROWS, "lines": display.LINES},
    }


def of_run(
    run: Run, name: str, groups: Sequence[Group], ranked: Mapping[Place, Ranking], charts: Sequence[Chart]
) -> dict[str, Any]:
    """Returns the choices, the rows with their remarks, and the records of every chart."""
    rows = [row for group in groups for row in group.rows]
    changing = varying(run)
    # Curves with all their points would be most of a large page.
    brief = len(rows) > display.CURVES
    packed, specs = dict[str, Any](), dict[str, Any]()
    # One chart at a time: the records of all charts together would take most of the memory for a large page.
    for chart in charts:
        records = (chart.brief if brief and chart.brief else chart.records)(run)
        # Packed as rows of values, with the names stored once.
        names = list(dict.fromkeys(key for record in records for key in record))
        packed[chart.name] = {"names": names, "rows": [[record.get(key) for key in names] for record in records]}
        specs[chart.name] = {
            unit: chart.spec(notes.engines(run), unit) for unit in dict.fromkeys(map(unit_of, records))
        }
    row_data = []
    for row in rows:
        cell, throughput, ranking = row.summary.cell, row.summary.throughput, ranked.get(place(row))
        of_row = {
            **common_keys(cell, row.place, changing),
            "best": ranking is not None and ranking.best == cell.label,
            "rate": None if throughput is None else throughput.median,
            "why": row.summary.why,
            "doubts": [doubt.text for doubt in row.doubts],
            "caveats": [caveat.text for caveat in row.summary.caveats if not cell.floor],
        }
        row_data.append(of_row)
    return {
        "name": name,
        "engines": [
            {"name": engine, "floor": floor}
            for engine, floor in {cell.label: cell.floor for cell in run.cells}.items()
        ],
        "phases": list(dict.fromkeys(row.place for row in rows)),
        "names": called(run),
        "tiers": list(dict.fromkeys(group.tier.value if group.tier else "" for group in groups)),
        "start": _start(run, rows, changing),
        "params": {param: list(dict.fromkeys(cell.params[param] for cell in run.cells)) for param in changing},
        "rows": row_data,
        "records": packed,
        "specs": specs,
        "brief": brief,
        "baselines": bars.has_all(run),
        "says": {chart.name: says for chart in charts if (says := chart.says(run))},
    }


def _start(run: Run, rows: Sequence[Row], changing: Sequence[str]) -> dict[str, Any]:
    """Returns the place that the page shows first: that of the first answer, in a phase with latencies if there is
    one."""
    first = next(iter(answer.answers(run)), None)
    tier, params = (first.best.tier, first.params) if first else (run.cells[0].tier, run.cells[0].params)
    places = {r.summary.phase: r.place for r in reversed(rows) if first is None or r.tool == first.reported_by}
    phases = [places[phase] for phase in first.phases] if first else list(places.values())
    timed = {row.place for row in rows if row.summary.latency_ns["p50"] is not None}
    phase = next((phase for phase in phases if phase in timed), phases[0])
    return {"phase": phase, "tier": tier.value if tier else "", "params": {name: params[name] for name in changing}}


# -- drawn charts -------------------------------------------------------------------------------------------

WIDTH = 1_340
"""Width in pixels; narrower windows scale the drawing down."""
MOST_BYTES = 40_000
"""Maximum size of a drawing. Larger ones are left to the program, because pages of large runs would exceed 2 MB."""
CONCAT_MARGIN = 104
"""The same value as in figure.js."""
LIGHT = vega.config(dark=False)
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
        engines = list(dict.fromkeys(record["engine"] for record in records))[: display.ROWS]
        if records := [record for record in records if record["engine"] in engines]:
            by_chart.append((chart, records))
    return by_chart


def stills(run: Run, by_chart: Iterable[tuple[Chart, Sequence[Record]]]) -> dict[str, str]:
    """Returns SVGs by the charts' names, without those that are too large."""
    drawings = {chart.name: _drawn(chart, notes.engines(run), records) for chart, records in by_chart}
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
    vl_convert = plot.load("the report needs vl-convert; install it by")

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
