"""The overview of a run: a table of phases and engines for each tier and combination of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from urllib.parse import urlencode

from dyno.contracts.model import Tier
from dyno.contracts.sample import Cell
from dyno.report.tables import display_limits, row_titles, units, wording
from dyno.report.tables.table import Group, Row, costs, figure, reported, varying
from dyno.results import Run
from dyno.stats.compare import Comparison, Table, against, tables
from dyno.stats.doubts import Doubt
from dyno.stats.metric import THROUGHPUT, Metric
from dyno.stats.summary import NOT_YET, CellSummary

Place = tuple[str, str | None, str | None, str]
"""Phase, the tool that measured if Dyno did not, tier and parameters: the rows of one place may be compared."""


@dataclass(frozen=True)
class Ranking:
    """The rows of one place, and how each stands as seen from the best, which is the first."""

    table: Table
    seen: Mapping[str, Comparison]

    @property
    def best(self) -> str:
        return self.table.rows[0][0].cell.label


@dataclass(frozen=True)
class Figure:
    """One cell of the overview."""

    value: str
    """What the row is ranked by, or in a word why there is nothing."""
    valid: bool
    standing: str
    """'fastest', 'equally fast' or "can't tell"; nothing for what is slower."""
    verdict: str
    """As seen from the best; for a row that is not valid, why not."""
    cost: str
    """CPU time for each item, of the client and of the server that there may be."""
    doubts: tuple[Doubt, ...]
    share: float | None = None
    """Of the speed of the phase's best; None where it can't be told."""


@dataclass(frozen=True)
class Line:
    """One phase."""

    at: Place
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
    """The one with the best places first."""
    lines: tuple[Line, ...]
    rest: str
    """Of engines that are left out."""

    @property
    def empty(self) -> bool:
        """Whether no phase was measured, with a figure or without."""
        figures = (figure for line in self.lines for figure in line.figures if figure is not None)
        return all(figure.verdict == NOT_YET for figure in figures)


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
        seen = {comparison.engine.label: comparison for comparison in against(table, None)}
        found[_place(table.phase, table.reported_by, table.rows[0][0].cell)] = Ranking(table, seen)
    return found


def overviews(run: Run, found: Sequence[Group], ranked: Mapping[Place, Ranking]) -> tuple[list[Overview], str]:
    """In the order of the run's cells, which is that of the answers. Without null engines. With what is to be said of
    those that are left out."""
    rows: dict[Place, dict[str, Row]] = {}
    measured: dict[tuple[str, str | None], None] = {}
    for row in (row for group in found for row in group.rows if not row.summary.cell.floor):
        rows.setdefault(place(row), {})[row.name] = row
        measured[row.summary.phase, row.tool] = None
    cells: dict[tuple[Tier | None, str], list[Cell]] = {}
    for cell in run.cells:
        if not cell.floor:
            cells.setdefault((cell.tier, units.params(cell.params)), []).append(cell)
    shown, rest = display_limits.first(
        list(cells), display_limits.VIEWS, "tables", "the charts can show any place, the CSV has all"
    )
    made = []
    for tier, text in shown:
        mine = cells[tier, text]
        params = {name: mine[0].params[name] for name in varying(run)}
        here = {at: rows.get(at, {}) for by in measured for at in [(*by, mine[0].tier_name, text)]}
        placed = [ranked[at].table.places for at in here if at in ranked]
        engines, others = _engines(_by_places([cell.label for cell in mine], placed), here.values())
        lines = [_line(at, engines, rows_, ranked.get(at)) for at, rows_ in here.items()]
        lines = [line for line in lines if any(line.figures)]
        made.append(Overview(tier, params, tuple(engines), tuple(lines), others))
    return made, rest


def _by_places(asked: Iterable[str], found: Sequence[Mapping[str, int]]) -> list[str]:
    """Those whose places are the best; last, those that have none in half of the phases. Places, and not figures:
    what was read hot, what was read cold and what was neither are in no mean."""
    places_ = {name: [placed[name] for placed in found if name in placed] for name in asked}
    return sorted(places_, key=lambda name: (len(places_[name]) * 2 < len(found), fmean(places_[name] or [0])))


def _engines(asked: Sequence[str], found: Iterable[Mapping[str, Row]]) -> tuple[list[str], str]:
    """All; of very many, those that are among the best of a phase."""
    names = list(asked)
    if len(names) <= display_limits.VIEWS:
        return names, ""
    best: dict[str, int] = {}
    for rows in found:
        for at, name in enumerate(rows):
            best[name] = min(at, best.get(name, at))
    chosen = set(sorted(best, key=lambda name: best[name])[: display_limits.VIEWS])
    rest = f"The best {display_limits.VIEWS} of {len(names):,} engines: the results below and the CSV have more."
    return [name for name in names if name in chosen], rest


def _line(at: Place, engines: Sequence[str], mine: Mapping[str, Row], ranking: Ranking | None) -> Line:
    by = THROUGHPUT if ranking is None else ranking.table.metric
    unit = next((f"{row.summary.unit}/s" for row in mine.values()), "") if by is THROUGHPUT else by.title
    name = next((row.place for row in mine.values()), at[0])
    tool = next((reported(row.summary) for row in mine.values() if row.summary.reported_by), "")
    figures = tuple(_figure(mine[engine], ranking, by) if engine in mine else None for engine in engines)
    return Line(at, name, row_titles.named(unit, tool), figures)


def _figure(row: Row, ranking: Ranking | None, by: Metric) -> Figure:
    summary = row.summary
    if summary.throughput is None:
        why = summary.why or "not measured"
        return Figure(why.split(":", 1)[0], False, "", why, "", row.doubts)
    standing, verdict, share = "", "", None
    if ranking is not None and row.name in ranking.seen:
        seen = ranking.seen[row.name].verdict
        share = None if seen.ratio is None else min(seen.ratio, 1.0)
        verdict = f"seen from {ranking.best}: {wording.verdict(seen)}"
        standing = wording.standing(seen.kind)
    elif ranking is not None and row.name == ranking.best and ranking.seen:
        standing, share = wording.first(each.verdict.kind for each in ranking.seen.values()), 1.0
    return Figure(figure(summary, by), True, standing, verdict, _cost(summary), row.doubts, share)


def _cost(summary: CellSummary) -> str:
    parts = costs(summary, apart=summary.server is not None).values()
    return " + ".join(parts) if any(part not in ("", units.UNKNOWN) for part in parts) else ""
