"""The overview of a run: a table of phases and engines for each tier and combination of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from dyno.model import Cell, Tier
from dyno.report import places, units, words
from dyno.report.table import Group, Row, costs, reported, varying, written
from dyno.results import Run
from dyno.stats.compare import Comparison, Table, against, tables
from dyno.stats.doubts import Doubt
from dyno.stats.metric import RESPONSE, THROUGHPUT, Metric, estimated
from dyno.stats.summary import CellSummary

Place = tuple[str, str | None, str | None, str]
"""Phase, the tool that measured if Dyno did not, tier and parameters: the rows of one place may be compared."""


@dataclass(frozen=True)
class Ranking:
    """The rows of one place, and how each stands as seen from the best, which is the first."""

    table: Table
    seen: Mapping[str, Comparison]

    @property
    def best(self) -> str:
        return self.table.rows[0][0].cell.asked


@dataclass(frozen=True)
class Figure:
    """One cell of the overview."""

    value: str
    """What the row is ranked by, or in a word why there is nothing."""
    valid: bool
    standing: str
    """'best', 'alike' or 'not told apart'; nothing for what is slower."""
    verdict: str
    """As seen from the best; for a row that is not valid, why not."""
    cost: str
    """CPU time for each item, of the client and of the server that there may be."""
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True)
class Line:
    """One phase."""

    phase: str
    """With the tool, where the phase has rows of several."""
    unit: str
    figures: tuple[Figure | None, ...]
    """For each engine; None where the phase makes no sense for it."""


@dataclass(frozen=True)
class Overview:
    """One tier and one combination of parameters."""

    tier: Tier | None
    params: Mapping[str, object]
    """Those that vary in the run."""
    engines: tuple[str, ...]
    lines: tuple[Line, ...]


def address(run: int, phase: str, view: Overview) -> str:
    """What the page's program takes for the choice of this phase: see state.js."""
    params = {f"p.{name}": _in_script(value) for name, value in view.params.items()}
    return "#" + urlencode({"run": run, "phase": phase, "tier": view.tier.value if view.tier else "", **params})


def _in_script(value: object) -> str:
    """As JavaScript writes it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def place(row: Row) -> Place:
    return _place(row.summary.phase, row.tool, row.summary.cell)


def _place(phase: str, tool: str | None, cell: Cell) -> Place:
    return phase, tool, cell.tier_name, units.params(cell.params)


def rankings(run: Run) -> dict[Place, Ranking]:
    found = {}
    for table in tables(run):
        seen = {comparison.engine.asked: comparison for comparison in against(table, None)}
        found[_place(table.phase, table.reported_by, table.rows[0][0].cell)] = Ranking(table, seen)
    return found


def overviews(run: Run, found: Sequence[Group], ranked: Mapping[Place, Ranking]) -> list[Overview]:
    """In the order of the run's cells, which is that of the answers. Without null engines."""
    rows = [row for group in found for row in group.rows if not row.summary.cell.floor]
    cells = [cell for cell in run.cells if not cell.floor]
    made = []
    for tier, text in dict.fromkeys((cell.tier, units.params(cell.params)) for cell in cells):
        mine = [cell for cell in cells if cell.tier is tier and units.params(cell.params) == text]
        engines = tuple(dict.fromkeys(cell.asked for cell in mine))
        params = {name: mine[0].params[name] for name in varying(run)}
        measured = dict.fromkeys((row.summary.phase, row.tool) for row in rows)
        lines = [_line((*by, mine[0].tier_name, text), engines, rows, ranked) for by in measured]
        made.append(Overview(tier, params, engines, tuple(line for line in lines if any(line.figures))))
    return made


def _line(at: Place, engines: Sequence[str], rows: Sequence[Row], ranked: Mapping[Place, Ranking]) -> Line:
    mine = {row.name: row for row in rows if place(row) == at}
    ranking = ranked.get(at)
    by = THROUGHPUT if ranking is None else ranking.table.metric
    unit = next((f"{row.summary.unit}/s" for row in mine.values()), "") if by is THROUGHPUT else by.title
    name = next((row.place for row in mine.values()), at[0])
    tool = next((reported(row.summary) for row in mine.values() if row.summary.reported_by), "")
    figures = tuple(_figure(mine[engine], ranking, by) if engine in mine else None for engine in engines)
    return Line(name, places.named(unit, tool), figures)


def _figure(row: Row, ranking: Ranking | None, by: Metric) -> Figure:
    summary = row.summary
    if summary.throughput is None:
        why = summary.why or "not measured"
        return Figure(why.split(":", 1)[0], False, "", why, "", row.doubts)
    found = estimated(summary, by)
    value = units.UNKNOWN if found is None else written(found, by.kind)[0]
    if by is RESPONSE:
        # Of all samples together, as in every table.
        value = units.duration(summary.response_ns["p99"])
    standing, verdict = "", ""
    if ranking is not None and row.name in ranking.seen:
        seen = ranking.seen[row.name].verdict
        verdict = f"seen from {ranking.best}: {words.verdict(seen)}"
        standing = {"alike": "alike", "unclear": "not told apart"}.get(seen.kind, "")
    elif ranking is not None and row.name == ranking.best and ranking.seen:
        standing = "best"
    return Figure(value, True, standing, verdict, _cost(summary), row.doubts)


def _cost(summary: CellSummary) -> str:
    parts = costs(summary, apart=summary.server is not None).values()
    return " + ".join(parts) if any(part not in ("", units.UNKNOWN) for part in parts) else ""
