"""All results as text for static tables, and what speaks against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dyno.report.tables import display_limits, units
from dyno.report.tables.overview import Place, Ranking, place
from dyno.report.tables.table import Group, Row, bandwidth, costs, interval, tails
from dyno.stats.doubts import MEANINGS

Line = tuple[str, str]
MOST_FLOORS = 4


@dataclass(frozen=True)
class Result:
    """One row."""

    name: str
    best: bool
    params: tuple[str, ...]
    figures: tuple[str, ...]
    """None for a row that is not valid: then `why` says so."""
    why: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """One phase at one tier."""

    group: Group
    heads: tuple[str, ...]
    """Of the figures; those that no row has are left out."""
    rows: tuple[Result, ...]
    rest: str
    """Of rows that are left out."""
    floors: str
    """Null engines, in a line."""


def results(
    group: Group,
    changing: Sequence[str],
    ranked: Mapping[Place, Ranking],
    apart: bool,
    most: int = display_limits.RESULTS,
) -> Results:
    """`apart`: whether the CPU time of clients and servers stands apart, in all tables of the run. `most`: rows."""
    engines = [row for row in group.rows if not row.summary.cell.floor]
    shown, rest = display_limits.first(engines, most, "rows", "the CSV among the downloads has all")
    valid = {id(row): _figures(row, apart) for row in shown if row.summary.throughput is not None}
    known = {name for row in valid.values() for name, text in row if text != units.UNKNOWN}
    heads = [name for name, _ in next(iter(valid.values()), []) if name in known]
    rows = []
    for row in shown:
        figures = tuple(text for name, text in valid.get(id(row), []) if name in heads)
        summary = row.summary
        ranking = ranked.get(place(row))
        best = ranking is not None and bool(ranking.seen) and ranking.best == row.name
        params = tuple(str(summary.cell.params[name]) for name in changing)
        why = "" if figures else summary.why or "not measured"
        rows.append(Result(row.name, best, params, figures, why, tuple(row.remarks())))
    return Results(group, tuple(heads), tuple(rows), rest, _floors(group, changing))


def _floors(group: Group, changing: Sequence[str]) -> str:
    """What the harness itself could do: it is no row beside the others. The slowest and the fastest of very many."""
    rows = [row for row in group.rows if row.summary.cell.floor]
    told = []
    for row in rows if len(rows) <= MOST_FLOORS else [rows[0], rows[-1]]:
        found, cell = row.summary.throughput, row.summary.cell
        params = units.params({name: cell.params[name] for name in changing})
        figure = (
            row.summary.why or "not measured" if found is None else f"{units.rate(found.median)} {row.summary.unit}/s"
        )
        told.append(f"{cell.label}{f' with {params}' if params else ''} {figure}")
    which = "" if len(rows) <= MOST_FLOORS else f", of {len(rows):,} the first and the last"
    return f"Floors, which do nothing{which}: {', '.join(told)}." if told else ""


def _figures(row: Row, apart: bool) -> list[Line]:
    summary, found = row.summary, row.summary.throughput
    if found is None:
        return []
    return [
        (f"{summary.unit}/s", units.rate(found.median)),
        ("bandwidth", bandwidth(summary) or units.UNKNOWN),
        ("95 % interval", interval(summary)),
        *((_head(who, summary.unit), text or units.UNKNOWN) for who, text in costs(summary, apart).items()),
        ("trials", str(len(summary.samples))),
        *((name, units.duration(summary.latency_ns[name])) for name in ("p50", "p99")),
        *((name, text or units.UNKNOWN) for name, text in tails(summary).items()),
        *((f"response {name}", units.duration(summary.response_ns[name])) for name in ("p50", "p99")),
        ("on disk", units.size(summary.bytes_on_disk)),
    ]


def _head(who: str, unit: str) -> str:
    """Of a column of CPU time."""
    return f"CPU/{unit}" if who == "cpu" else f"{who} CPU/{unit}"


def against(found: Sequence[Group]) -> list[Line]:
    """The doubts of all rows, counted: how many figures, and what it means. Without null engines."""
    rows = [row for group in found for row in group.rows if not row.summary.cell.floor]
    without = sum(not row.summary.valid for row in rows)
    lines = [(f"{without} of {len(rows)}", "have no number: the results say why")] if without else []
    counts = Counter(code for row in rows for code in {doubt.code for doubt in row.doubts})
    return lines + [(f"{counts[code]} of {len(rows)}", text) for code, text in MEANINGS.items() if counts[code]]
