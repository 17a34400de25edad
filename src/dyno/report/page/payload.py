"""What the page's program draws from: what there is to choose, and the records of the charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dyno.contracts.model import Tier
from dyno.report.charts import ratios, theme
from dyno.report.charts.chart import Chart, Record, unit_of
from dyno.report.tables import display_limits, heading, units
from dyno.report.tables.overview import Place, Ranking, called, place
from dyno.report.tables.table import Group, Row, varying
from dyno.results import Run
from dyno.stats import answer


def common(found: Iterable[Chart]) -> dict[str, Any]:
    """What does not depend on the run: the charts and their looks."""
    return {
        "charts": [_chart(chart) for chart in found],
        "config": {"light": theme.config(dark=False), "dark": theme.config(dark=True)},
        "paper": {"light": theme.LIGHT, "dark": theme.DARK},
        "unknown": units.UNKNOWN,
        "most": {"rows": display_limits.ROWS, "lines": display_limits.LINES},
    }


def _chart(chart: Chart) -> dict[str, Any]:
    plain = ("name", "file", "title", "spans", "needs")
    columns = [asdict(column) for column in chart.columns]
    return {**{name: getattr(chart, name) for name in plain}, "columns": columns}


def of_run(
    run: Run, name: str, found: Sequence[Group], ranked: Mapping[Place, Ranking], charts: Sequence[Chart]
) -> dict[str, Any]:
    """What there is to choose from, every row's remarks, and the records of every chart."""
    rows = [row for group in found for row in group.rows]
    changing = varying(run)
    engines = {cell.label: cell.floor for cell in run.cells}
    phases = dict.fromkeys(row.place for row in rows)
    # With all their points they would be most of a large page.
    brief = len(rows) > display_limits.CURVES
    records, specs = dict[str, Any](), dict[str, Any]()
    # One chart after the other: those of all of them together would be most of the memory of a large page.
    for chart in charts:
        drawn = (chart.brief if brief and chart.brief else chart.records)(run)
        records[chart.name] = _packed(drawn)
        units_ = dict.fromkeys(map(unit_of, drawn))
        specs[chart.name] = {unit: chart.spec(heading.engines(run), unit) for unit in units_}
    return {
        "name": name,
        "engines": [{"name": engine, "floor": floor} for engine, floor in engines.items()],
        "phases": list(phases),
        "names": called(run),
        "tiers": list(dict.fromkeys(_tier(group.tier) for group in found)),
        "start": _start(run, rows, changing),
        "params": {param: list(dict.fromkeys(cell.params[param] for cell in run.cells)) for param in changing},
        "rows": [_row(row, changing, ranked) for row in rows],
        "records": records,
        "specs": specs,
        "brief": brief,
        "baselines": ratios.has_all(run),
        "says": {chart.name: said for chart in charts if (said := chart.says(run))},
    }


def _start(run: Run, rows: Sequence[Row], changing: Sequence[str]) -> dict[str, Any]:
    """Where the page begins: at the place of the first answer, in a phase that has latencies if one has."""
    found = answer.answers(run)
    tier, params = (found[0].best.tier, found[0].params) if found else (run.cells[0].tier, run.cells[0].params)
    first = {row.summary.phase: row.place for row in reversed(rows) if not found or row.tool == found[0].reported_by}
    phases = [first[phase] for phase in found[0].phases] if found else list(first.values())
    timed = {row.place for row in rows if row.summary.latency_ns["p50"] is not None}
    phase = next((phase for phase in phases if phase in timed), phases[0])
    return {"phase": phase, "tier": _tier(tier), "params": {name: params[name] for name in changing}}


def _tier(tier: Tier | None) -> str:
    """As the program chooses it: nothing where there is none."""
    return "" if tier is None else tier.value


def _packed(records: Sequence[Record]) -> dict[str, Any]:
    """As columns of names and rows of values: the names need not stand in every record."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return {"names": names, "rows": [[record.get(name) for name in names] for record in records]}


def _row(row: Row, changing: Sequence[str], ranked: Mapping[Place, Ranking]) -> dict[str, Any]:
    cell = row.summary.cell
    ranking = ranked.get(place(row))
    return {
        "engine": cell.label,
        "phase": row.place,
        "tier": cell.tier_name,
        "params": {name: cell.params[name] for name in changing},
        "floor": cell.floor,
        "best": ranking is not None and ranking.best == cell.label,
        "rate": None if row.summary.throughput is None else row.summary.throughput.median,
        "why": row.summary.why,
        "doubts": [doubt.text for doubt in row.doubts],
        "caveats": [caveat.text for caveat in row.summary.caveats if not cell.floor],
    }
