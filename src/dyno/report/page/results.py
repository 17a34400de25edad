"""All results as text for static tables, with counts of their doubts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dyno.report.tables import display_limits, units
from dyno.report.tables.overview import Place, Ranking, place
from dyno.report.tables.table import Group, cells
from dyno.stats.doubts import MEANINGS

MOST_FLOORS = 4
FIGURES = {
    "rate": "{unit}/s",
    "bandwidth": "bandwidth",
    "interval": "95 % interval",
    "cpu": "CPU/{unit}",
    "client": "client CPU/{unit}",
    "server": "server CPU/{unit}",
    "trials": "trials",
    **{name: name for name in ("p50", "p99", "p99.99", "max")},
    "resp p50": "response p50",
    "resp p99": "response p99",
    "on disk": "on disk",
}
"""Title of each figure, by the column of `table.cells`."""


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
    figures = [{**cells(row, None, changing, apart), "trials": str(len(row.summary.samples))} for row in shown]
    valid = [texts for row, texts in zip(shown, figures, strict=True) if row.summary.throughput is not None]
    known = [name for name in FIGURES if any(texts[name] not in ("", units.UNKNOWN) for texts in valid)]
    rows = []
    for row, texts in zip(shown, figures, strict=True):
        ranking, summary = ranked.get(place(row)), row.summary
        measured = summary.throughput is not None
        rows.append(
            Result(
                name=row.name,
                best=ranking is not None and bool(ranking.seen) and ranking.best == row.name,
                params=tuple(str(summary.cell.params[name]) for name in changing),
                figures=tuple(texts[name] or units.UNKNOWN for name in known) if measured else (),
                why="" if measured else summary.why or "not measured",
                remarks=tuple(row.remarks()),
            )
        )
    heads = tuple(FIGURES[name].format(unit=group.rows[0].summary.unit) for name in known)
    # The floors show the harness's own cost. Of many, only the first and the last are named.
    floors = [row.summary for row in group.rows if row.summary.cell.floor]
    floor_texts = []
    for floor in floors if len(floors) <= MOST_FLOORS else [floors[0], floors[-1]]:
        params = units.params(floor.cell.params, changing)
        figure = floor.why or "not measured"
        if floor.throughput is not None:
            figure = f"{units.rate(floor.throughput.median)} {floor.unit}/s"
        floor_texts.append(f"{floor.cell.label}{f' with {params}' if params else ''} {figure}")
    which = "" if len(floors) <= MOST_FLOORS else f", of {len(floors):,} the first and the last"
    sentence = f"Floors, which do nothing{which}: {', '.join(floor_texts)}." if floor_texts else ""
    return Results(group, heads, tuple(rows), rest, sentence)


def against(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """Returns the doubts of all rows without null engines: how many rows have each, and its meaning."""
    rows = [row for group in groups for row in group.rows if not row.summary.cell.floor]
    missing = sum(not row.summary.valid for row in rows)
    lines = [(f"{missing} of {len(rows)}", "have no number: the results say why")] if missing else []
    counts = Counter(code for row in rows for code in {doubt.code for doubt in row.doubts})
    return lines + [(f"{counts[code]} of {len(rows)}", text) for code, text in MEANINGS.items() if counts[code]]
