"""The overview of a run: for each tier and combination of parameters, a table with a line for each engine and a
column for each phase. It shows which phases each engine leads and which figures have doubts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from urllib.parse import urlencode

from dyno.contracts.model import Tier
from dyno.report.tables import display, units, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import BY, Group, Row, costs, figure, groups, reported_by_text, varying_params
from dyno.results import Run
from dyno.stats.compare import Comparison, Table, compare_with_baseline, tables
from dyno.stats.doubts import TAIL, Doubt
from dyno.stats.metric import THROUGHPUT, Metric
from dyno.stats.summary import NOT_YET, group_values
from dyno.stats.verdict import FEWEST_BLOCKS

LEADS, DOUBTED = "*", "?"
MARKS = {
    LEADS: f"{LEADS} the fastest, or not shown to be slower than it",
    DOUBTED: f"{DOUBTED} the figure has a doubt",
}
BEST = "bold green"
Place = tuple[str, str | None, str | None, str]
"""Phase, outside tool that measured, tier and parameters. Rows with equal places may be compared."""


@dataclass(frozen=True)
class Ranking:
    """The rows of one place, the best first, and the comparison of each with the best."""

    table: Table
    seen: Mapping[str, Comparison]

    @property
    def best(self) -> str:
        return self.table.rows[0][0].cell.label


@dataclass(frozen=True)
class Figure:
    """A cell of the overview's table."""

    value: str
    """The figure by which the row is ranked, or the kind of error."""
    valid: bool
    standing: str
    """'fastest', 'equally fast' or "can't tell"; empty for a slower row."""
    verdict: str
    """The comparison with the best; for a row without a number, the reason."""
    cost: str
    """CPU time per item, of the client and, if there is a server, of the server."""
    doubts: tuple[Doubt, ...]
    p99: str = ""
    """The p99 of single operations in a closed loop; empty if it is unknown."""
    share: float | None = None
    """Share of the best speed in the phase; None if unknown."""


@dataclass(frozen=True)
class Line:
    """The figures of one phase."""

    at: Place
    phase: str
    """Name of the phase, with the tool if several tools measured the phase."""
    unit: str
    figures: tuple[Figure | None, ...]
    """A figure for each engine; None if the phase makes no sense for the engine."""


@dataclass(frozen=True)
class Overview:
    """The table of one tier and one combination of parameters."""

    tier: Tier | None
    params: Mapping[str, object]
    """The parameters that vary in the run."""
    engines: tuple[str, ...]
    """Engines by their mean rank over the phases, the best first."""
    lines: tuple[Line, ...]
    rest: str
    """Sentence about engines that are left out."""

    @property
    def empty(self) -> bool:
        """Whether no phase was measured yet."""
        figures = (figure for line in self.lines for figure in line.figures if figure is not None)
        return all(figure.verdict == NOT_YET for figure in figures)


def address(run: int, phase: str, view: Overview) -> str:
    """Returns the address of this phase in the page's program: see state.js."""
    params = {}
    for name, value in view.params.items():
        # Formatted like JavaScript formats the value.
        whole = value
        if isinstance(value, float) and value.is_integer():
            whole = int(value)
        params[f"p.{name}"] = str(value).lower() if isinstance(value, bool) else str(whole)
    return "#" + urlencode({"run": run, "phase": phase, "tier": view.tier.value if view.tier else "", **params})


def place(row: Row) -> Place:
    cell = row.summary.cell
    return row.summary.phase, row.tool, cell.tier_name, units.params(cell.params)


def phase_aliases(run: Run) -> dict[str, str]:
    """Returns the aliases of phases, by name."""
    return {phase.name: phase.alias for phase in run.header.phases or () if phase.alias}


def rankings(run: Run) -> dict[Place, Ranking]:
    rankings = {}
    for table in tables(run):
        seen = {comparison.engine.label: comparison for comparison in compare_with_baseline(table, None)}
        cell = table.rows[0][0].cell
        rankings[table.phase, table.reported_by, cell.tier_name, units.params(cell.params)] = Ranking(table, seen)
    return rankings


def overviews(run: Run, of: Sequence[Group], ranked: Mapping[Place, Ranking]) -> tuple[list[Overview], str]:
    """Returns the tables in the order of the run's cells, without null engines, and a sentence about tables that are
    left out."""
    rows: dict[Place, dict[str, Row]] = {}
    measured: dict[tuple[str, str | None], None] = {}
    for row in (row for group in of for row in group.rows if not row.summary.cell.floor):
        rows.setdefault(place(row), {})[row.name] = row
        measured[row.summary.phase, row.tool] = None
    cells = group_values(((cell.tier, units.params(cell.params)), cell) for cell in run.cells if not cell.floor)
    where = "the charts can show any place, the CSV has all"
    shown, rest = display.take_first(list(cells), display.VIEWS, "tables", where)
    views = []
    for tier, text in shown:
        first, labels = cells[tier, text][0], [cell.label for cell in cells[tier, text]]
        params = {name: first.params[name] for name in varying_params(run)}
        here = {at: rows.get(at, {}) for by in measured for at in [(*by, first.tier_name, text)]}
        placed = [ranked[at].table.places for at in here if at in ranked]
        # Engines are ordered by the mean of their ranks. Engines without a rank in half of the phases come last.
        # Ranks are used because figures of hot phases, cold phases and others can't be averaged.
        places = {name: [each[name] for each in placed if name in each] for name in labels}
        order = {name: (len(at) * 2 < len(placed), fmean(at or [0])) for name, at in places.items()}
        engines, others = _engines(sorted(places, key=lambda name: order[name]), here.values())
        lines = []
        for at, of_phase in here.items():
            ranking = ranked.get(at)
            if ranking is None:
                by = THROUGHPUT
            else:
                by = ranking.table.metric
            if by is THROUGHPUT:
                unit = next((f"{row.summary.unit}/s" for row in of_phase.values()), "")
            else:
                unit = by.title
            name = next((row.place for row in of_phase.values()), at[0])
            tool = next(filter(None, (reported_by_text(row.summary.reported_by) for row in of_phase.values())), "")
            figures = tuple(_figure(of_phase[e], ranking, by) if e in of_phase else None for e in engines)
            if any(figures):
                lines.append(Line(at, name, display.join_parts(unit, tool), figures))
        views.append(Overview(tier, params, tuple(engines), tuple(lines), others))
    return views, rest


def _engines(names: Sequence[str], rows_by_phase: Iterable[Mapping[str, Row]]) -> tuple[list[str], str]:
    """Returns all engines, or if there are very many, those that rank best in any phase."""
    if len(names) <= display.VIEWS:
        return list(names), ""
    best: dict[str, int] = {}
    for rows in rows_by_phase:
        for at, name in enumerate(rows):
            best[name] = min(at, best.get(name, at))
    chosen = set(sorted(best, key=lambda name: best[name])[: display.VIEWS])
    rest = f"The best {display.VIEWS} of {len(names):,} engines: the results below and the CSV have more."
    return [name for name in names if name in chosen], rest


def _figure(row: Row, ranking: Ranking | None, by: Metric) -> Figure:
    summary = row.summary
    if summary.throughput is None:
        why = summary.why or "not measured"
        return Figure(why.split(":", 1)[0], False, "", why, "", row.doubts)
    standing = ""
    verdict = ""
    share = None
    if ranking is not None and row.name in ranking.seen:
        seen = ranking.seen[row.name].verdict
        if seen.ratio is None:
            share = None
        else:
            share = min(seen.ratio, 1.0)
        verdict = f"seen from {ranking.best}: {wording.verdict(seen, by)}"
        standing = wording.name_standing(seen.kind)
    elif ranking is not None and row.name == ranking.best and ranking.seen:
        standing, share = wording.best_standing(each.verdict.kind for each in ranking.seen.values()), 1.0
    elif summary.suspicion is not None:
        verdict = wording.explain_suspicion(summary.suspicion)
    elif summary.limit is not None:
        verdict = wording.not_compared(summary.limit)
    parts = costs(summary, apart=summary.server is not None).values()
    if any(part not in ("", units.UNKNOWN) for part in parts):
        cost = " + ".join(parts)
    else:
        cost = ""
    doubts = tuple(doubt for doubt in row.doubts if doubt.code != TAIL)
    # The figure of an open loop is a response time itself.
    if by.pooled is not None:
        p99 = None
    else:
        p99 = summary.latency_ns["p99"]
    tail = "" if p99 is None else units.duration(p99)
    return Figure(figure(summary, by), True, standing, verdict, cost, doubts, tail, share)


# -- as sections --------------------------------------------------------------------------------------------


def sections(run: Run) -> Iterator[Section]:
    """Yields a table for each tier, and for each set of phases and units in it. The legend of marks follows the last
    table."""
    views, rest = overviews(run, groups(run), rankings(run))
    names, used = phase_aliases(run), set[str]()
    for tier, of_tier in groupby(views, key=lambda view: view.tier):
        title, of = "" if tier is None else display.plain(tier), list(of_tier)
        if empty := dict.fromkeys(engine for view in of if view.empty for engine in view.engines):
            yield Section(title, lines=[f"Nothing was measured of {display.join_names(list(empty))}."])
            title = ""
        measured = [view for view in of if not view.empty]
        for _, alike in groupby(measured, key=lambda view: [(line.phase, line.unit) for line in view.lines]):
            yield _section(title, list(alike), names, run.blocks >= FEWEST_BLOCKS, used)
            title = ""
    text = "; ".join(text for mark, text in MARKS.items() if mark in used)
    aliases = [f"{alias} is {name}" for name, alias in names.items() if name != alias and name in run.plan.phases]
    if aliases:
        also = f"In the other tables {', '.join(aliases)}"
    else:
        also = ""
    if legend := [line for line in (rest, text, also) if line]:
        yield Section("", legend=legend)


def _section(
    title: str, views: Sequence[Overview], names: Mapping[str, str], enough: bool, used: set[str]
) -> Section:
    """Returns a table, and adds its marks to `used`. `enough`: whether there are enough blocks to say which engine
    leads."""
    if any(view.params for view in views):
        keys = ["engine", "parameters"]
    else:
        keys = ["engine"]
    heads, leading = list(keys), list[str]()
    for line in views[0].lines:
        name, comma, tool = line.phase.partition(BY)
        heads.append(f"{names.get(name, name)}{comma}{tool}")
    # Phases with a p99, whose columns follow those of all phases.
    tails = [
        at
        for at in range(len(views[0].lines))
        if any(figure is not None and figure.p99 for view in views for figure in view.lines[at].figures)
    ]
    rows = [[*[""] * len(keys), *(line.unit for line in views[0].lines), *[""] * len(tails)]]
    for view in views:
        for at, engine in enumerate(view.engines):
            row = [engine, units.params(view.params)][: len(keys)]
            figures = [line.figures[at] for line in view.lines]
            for cell in figures:
                text, marks = units.UNKNOWN, ""
                if cell is not None and cell.valid:
                    text = cell.value
                    marks = DOUBTED * bool(cell.doubts) + LEADS * (enough and bool(cell.standing))
                elif cell is not None:
                    # Only the first word of the reason, because the whole reason is printed below.
                    text = cell.value.split(" ", 1)[0]
                row.append(text + marks)
                used.update(marks)
                leading += [text + marks] if LEADS in marks else []
            timed = [figures[at] for at in tails]
            row += [units.UNKNOWN if cell is None else cell.p99 or units.UNKNOWN for cell in timed]
            rows.append(row)
    heads += [f"{heads[len(keys) + at]} p99" for at in tails]
    styles = ["dim", *[""] * (len(rows) - 1)]
    best = dict.fromkeys(leading, BEST)
    return Section(title, "", heads, rows, left=keys, keys=keys, rigid=keys, row_styles=styles, marks=best)
