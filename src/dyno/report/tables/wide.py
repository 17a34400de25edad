"""A suite's own table: a line for each cell with figures of several phases, in the layout that the run file declares.

It is for readers who compare parameters rather than engines. All its figures are also in the tables by phase or in
the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dyno.contracts.cell import Cell
from dyno.contracts.model import TIERS, Fact, Tier
from dyno.report.tables import row_titles, units
from dyno.report.tables.sections import REMARKS, Section
from dyno.report.tables.table import Group, Row, varying
from dyno.results import Run
from dyno.stats.summary import CellSummary

INTERVAL = "±"
MEANING = f"{INTERVAL}: the longer side of the 95 % interval of the figures before it, in percent of the median"
RATES = ("rate", "operations", "bandwidth")


@dataclass(frozen=True)
class Line:
    """The line of one cell."""

    cell: Cell
    cells: tuple[str, ...]
    """A text for each head."""
    valid: bool
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Wide:
    """The cells of one tier, which may be compared."""

    tier: Tier | None
    heads: tuple[str, ...]
    words: frozenset[str]
    """Heads of columns of words."""
    keys: frozenset[str]
    """Heads of columns that name a line."""
    lines: tuple[Line, ...]
    floor: str
    """The rates of null engines; empty if there are none."""
    title: str = ""


@dataclass(frozen=True)
class _Column:
    head: str
    text: Callable[[Mapping[str, Row], Cell], str]
    word: bool = False
    key: bool = False


def _layout(run: Run) -> Mapping[str, Any]:
    return run.header.get("layout") or {}


def _columns(run: Run) -> list[dict[str, Any]]:
    return list(_layout(run).get("columns", ()))


def phases(run: Run) -> list[str]:
    """Returns the phases with figures in the table; empty for a run without such a table."""
    names = [column["name"] for column in _columns(run) if column["of"] in RATES]
    return [phase for phase in run.plan["phases"] if phase in names]


def legend(run: Run) -> list[str]:
    return [*_layout(run).get("legend", ()), *([] if beside(run) else [MEANING])]


def beside(run: Run) -> bool:
    """Returns whether the table is shown below the tables by phase. If not, it replaces them."""
    return bool(_layout(run).get("beside"))


def tables(run: Run, of: Sequence[Group]) -> list[Wide]:
    """Returns a table for each tier; empty for a run without a layout. `of`: all groups of the run."""
    if not _columns(run):
        return []
    rows: dict[int, dict[str, Row]] = {}
    for group in of:
        for row in group.rows:
            rows.setdefault(id(row.summary.cell), {})[group.phase] = row
    tiers = [tier for tier in TIERS if any(cell.tier is tier and not cell.floor for cell in run.cells)]
    return [_table(run, tier, rows) for tier in tiers]


def sections(of: Sequence[Wide]) -> Iterator[Section]:
    for wide in of:
        remarks = any(line.remarks for line in wide.lines)
        yield Section(
            row_titles.named(wide.title, row_titles.tier(wide.tier)),
            row_titles.meaning(wide.tier),
            [*wide.heads, *([REMARKS] if remarks else [])],
            [[*line.cells, *([", ".join(line.remarks)] if remarks else [])] for line in wide.lines],
            left=[*wide.words, REMARKS],
            keys=wide.keys,
            legend=[wide.floor] if wide.floor else [],
            row_styles=["" if line.valid else "red" for line in wide.lines],
            rigid=wide.words,
        )


def _table(run: Run, tier: Tier | None, rows: Mapping[int, Mapping[str, Row]]) -> Wide:
    of_tier = [cell for cell in run.cells if cell.tier is tier]
    combinations = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in of_tier))}
    cells = sorted((cell for cell in of_tier if not cell.floor), key=lambda cell: combinations[cell.combination])
    columns = [*_leading_columns(run), *_layout_columns(run)]
    texts = [[column.text(rows.get(id(cell), {}), cell) for cell in cells] for column in columns]
    # Columns of a phase that was left out have no figures.
    used = [at for at, column in enumerate(texts) if set(column) != {units.UNKNOWN}]
    shown_phases, lines = phases(run), []
    for place, cell in enumerate(cells):
        shown = {phase: row for phase, row in rows.get(id(cell), {}).items() if phase in shown_phases}
        valid = all(row.summary.valid for row in shown.values())
        # If the tables by phase are shown, they have the remarks.
        remarks = () if beside(run) else tuple(_remarks(shown))
        lines.append(Line(cell, tuple(texts[at][place] for at in used), valid, remarks))
    return Wide(
        tier,
        tuple(columns[at].head for at in used),
        frozenset(columns[at].head for at in used if columns[at].word),
        frozenset(columns[at].head for at in used if columns[at].key),
        tuple(lines),
        _floor([rows.get(id(cell), {}) for cell in of_tier if cell.floor], shown_phases),
        _layout(run).get("title", ""),
    )


def _leading_columns(run: Run) -> Iterator[_Column]:
    """Yields the engine and the parameters that vary, unless the layout has them."""
    in_layout = {column["name"] for column in _columns(run) if column["of"] == "param"}
    if len({cell.label for cell in run.cells if not cell.floor}) > 1:
        yield _Column("engine", lambda _, cell: cell.label, word=True, key=True)
    yield from (_param(run, name, name) for name in varying(run) if name not in in_layout)


def _layout_columns(run: Run) -> Iterable[_Column]:
    """Yields the layout's columns, with a column for the interval after those of each phase."""
    columns = _columns(run)
    for column, following in zip(columns, [*columns[1:], {}], strict=True):
        head, of, name = column["title"], column["of"], column["name"]
        if of == "param":
            yield _param(run, head, name)
        elif of == "fact":
            yield _fact(head, name, column.get("kind", "text"))
        elif of in RATES:
            yield _Column(head, _rate(name, of))
            # If the tables by phase are shown, they have the intervals.
            if not beside(run) and not (following.get("of") in RATES and following.get("name") == name):
                yield _Column(f"{INTERVAL} {name}", _reach(name))


def _param(run: Run, head: str, name: str) -> _Column:
    word = any(isinstance(cell.params.get(name), str) for cell in run.cells)
    return _Column(head, lambda _, cell: str(cell.params.get(name, units.UNKNOWN)), word, key=True)


def _fact(head: str, name: str, kind: str) -> _Column:
    return _Column(head, lambda rows, cell: units.fact(fact(rows, name), kind), word=kind == "text")


def fact(rows: Mapping[str, Row], name: str) -> Fact:
    """Returns a cell's fact, from its last phase that has it."""
    return next((v for row in reversed(list(rows.values())) if (v := row.summary.facts.get(name)) is not None), None)


def _rate(phase: str, of: str) -> Callable[[Mapping[str, Row], Cell], str]:
    def text(rows: Mapping[str, Row], cell: Cell) -> str:
        if phase not in rows:
            return units.UNKNOWN
        summary = rows[phase].summary
        if summary.throughput is None:
            return (summary.why or "not measured").split(":", 1)[0].split(" ", 1)[0]
        if of == "bandwidth":
            return units.bandwidth(None if summary.bandwidth is None else summary.bandwidth.median)
        return units.rate(summary.throughput.median if of == "rate" else operations(summary))

    return text


def operations(summary: CellSummary) -> float | None:
    """Returns the successful operations per second, as the median over trials."""
    rates = [(s.operations - s.errors) / s.elapsed_ns * 1e9 for s in summary.samples if s.elapsed_ns > 0]
    return median(rates) if rates else None


def _reach(phase: str) -> Callable[[Mapping[str, Row], Cell], str]:
    def text(rows: Mapping[str, Row], cell: Cell) -> str:
        reach = None
        if phase in rows and (rate := rows[phase].summary.throughput) is not None:
            reach = rate.reach
        if reach is None:
            return units.UNKNOWN
        return f"{reach * 100:.0f} %" if reach * 100 >= 9.5 else f"{reach * 100:.1f} %"

    return text


def _remarks(rows: Mapping[str, Row]) -> list[str]:
    """Returns the remarks of the phases. A remark has the names of its phases, unless all phases have it."""
    phases: dict[str, list[str]] = {}
    for phase, row in rows.items():
        for remark in row.remarks():
            phases.setdefault(remark, []).append(phase)
    return [text if len(of) == len(rows) else f"{' and '.join(of)}: {text}" for text, of in phases.items()]


def _floor(cells: Sequence[Mapping[str, Row]], phases: Sequence[str]) -> str:
    """Returns the rates of null engines: 'floor (nullkv): gets 5,466,751 – 7,609,597 op/s'. They are ranges over all
    parameters, because the harness's cost hardly depends on parameters."""
    parts = []
    for phase in phases:
        summaries = [rows[phase].summary for rows in cells if phase in rows]
        rates = [summary.throughput.median for summary in summaries if summary.throughput is not None]
        if rates:
            parts.append(f"{phase} {units.interval(min(rates), max(rates))} {summaries[0].unit}/s")
    names = dict.fromkeys(row.summary.cell.label for rows in cells for row in rows.values())
    return f"floor ({', '.join(names)}): {'; '.join(parts)}" if parts else ""
