"""Data for the page's program: the choices in its filters, and the records of the charts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dyno.report.charts import ratios, theme
from dyno.report.charts.chart import Chart, unit_of
from dyno.report.charts.chart import common as common_keys
from dyno.report.tables import display_limits, heading, units
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
        "config": {"light": theme.config(dark=False), "dark": theme.config(dark=True)},
        "paper": {"light": theme.LIGHT, "dark": theme.DARK},
        "unknown": units.UNKNOWN,
        "most": {"rows": display_limits.ROWS, "lines": display_limits.LINES},
    }


def of_run(
    run: Run, name: str, groups: Sequence[Group], ranked: Mapping[Place, Ranking], charts: Sequence[Chart]
) -> dict[str, Any]:
    """Returns the choices, the rows with their remarks, and the records of every chart."""
    rows = [row for group in groups for row in group.rows]
    changing = varying(run)
    # Curves with all their points would be most of a large page.
    brief = len(rows) > display_limits.CURVES
    packed, specs = dict[str, Any](), dict[str, Any]()
    # One chart at a time: the records of all charts together would take most of the memory for a large page.
    for chart in charts:
        records = (chart.brief if brief and chart.brief else chart.records)(run)
        # Packed as rows of values, with the names stored once.
        names = list(dict.fromkeys(key for record in records for key in record))
        packed[chart.name] = {"names": names, "rows": [[record.get(key) for key in names] for record in records]}
        specs[chart.name] = {
            unit: chart.spec(heading.engines(run), unit) for unit in dict.fromkeys(map(unit_of, records))
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
        "baselines": ratios.has_all(run),
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
