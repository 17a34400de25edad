"""All results as text for static tables, with counts of their doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dyno.report.tables import display_limits, units
from dyno.report.tables.overview import Place, Ranking, place
from dyno.report.tables.table import Group, Row, bandwidth, costs, interval, tails
from dyno.stats.doubts import MEANINGS

MOST_FLOORS = 4


@dataclass(frozen=True)
class Result:
    """A row of a table of results."""

    name: str
    best: bool
    params: tuple[str, ...]
    figures: tuple[str, ...]
    """Texts by `Results.heads`; empty for an invalid row."""
    why: str
    """Why the row is invalid."""
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """The table of one phase at one tier."""

    group: Group
    heads: tuple[str, ...]
    """Titles of the figures that at least one row has."""
    rows: tuple[Result, ...]
    rest: str
    """Sentence about rows that are left out."""
    floors: str
    """Sentence with the figures of null engines."""


def results(
    group: Group,
    changing: Sequence[str],
    ranked: Mapping[Place, Ranking],
    apart: bool,
    most: int = display_limits.RESULTS,
) -> Results:
    """Returns the table of a group. `apart`: whether the CPU times of clients and servers have separate columns.
    `most`: maximum number of rows."""
    engines = [row for row in group.rows if not row.summary.cell.floor]
    shown, rest = display_limits.first(engines, most, "rows", "the CSV among the downloads has all")
    figures = [_figures(row, apart) for row in shown]
    known = dict.fromkeys(head for row in figures for head, text in row.items() if text != units.UNKNOWN)
    heads = [head for head in next(filter(None, figures), {}) if head in known]
    rows = []
    for row, texts in zip(shown, figures, strict=True):
        ranking = ranked.get(place(row))
        rows.append(
            Result(
                name=row.name,
                best=ranking is not None and bool(ranking.seen) and ranking.best == row.name,
                params=tuple(str(row.summary.cell.params[name]) for name in changing),
                figures=tuple(texts[head] for head in heads if head in texts),
                why="" if texts else row.summary.why or "not measured",
                remarks=tuple(row.remarks()),
            )
        )
    return Results(group, tuple(heads), tuple(rows), rest, _floors(group, changing))


def _floors(group: Group, changing: Sequence[str]) -> str:
    """Returns a sentence with the harness's own cost. If there are many null engines, it names only the first and the
    last."""
    rows = [row for row in group.rows if row.summary.cell.floor]
    texts = []
    for row in rows if len(rows) <= MOST_FLOORS else [rows[0], rows[-1]]:
        throughput, cell = row.summary.throughput, row.summary.cell
        params = units.params({name: cell.params[name] for name in changing})
        figure = row.summary.why or "not measured"
        if throughput is not None:
            figure = f"{units.rate(throughput.median)} {row.summary.unit}/s"
        texts.append(f"{cell.label}{f' with {params}' if params else ''} {figure}")
    which = "" if len(rows) <= MOST_FLOORS else f", of {len(rows):,} the first and the last"
    return f"Floors, which do nothing{which}: {', '.join(texts)}." if texts else ""


def _figures(row: Row, apart: bool) -> dict[str, str]:
    """Returns figures by title; empty for an invalid row."""
    summary, throughput = row.summary, row.summary.throughput
    if throughput is None:
        return {}
    cpu = {
        f"{'' if who == 'cpu' else f'{who} '}CPU/{summary.unit}": text for who, text in costs(summary, apart).items()
    }
    figures = {
        f"{summary.unit}/s": units.rate(throughput.median),
        "bandwidth": bandwidth(summary),
        "95 % interval": interval(summary),
        **cpu,
        "trials": str(len(summary.samples)),
        **{name: units.duration(summary.latency_ns[name]) for name in ("p50", "p99")},
        **tails(summary),
        **{f"response {name}": units.duration(summary.response_ns[name]) for name in ("p50", "p99")},
        "on disk": units.size(summary.bytes_on_disk),
    }
    return {head: text or units.UNKNOWN for head, text in figures.items()}


def against(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """Returns the doubts of all rows without null engines: how many rows have each, and its meaning."""
    rows = [row for group in groups for row in group.rows if not row.summary.cell.floor]
    missing = sum(not row.summary.valid for row in rows)
    lines = [(f"{missing} of {len(rows)}", "have no number: the results say why")] if missing else []
    counts = Counter(code for row in rows for code in {doubt.code for doubt in row.doubts})
    return lines + [(f"{counts[code]} of {len(rows)}", text) for code, text in MEANINGS.items() if counts[code]]
