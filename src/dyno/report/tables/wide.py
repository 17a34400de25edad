"""A suite's own table: a line for each cell, with figures of several phases, as the layout in the run file says.

Such a layout is there where readers look for a parameter rather than for an engine. What a line says of its phases
stands in the tables by phase too, with more; nothing is computed here that is not there or in the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dyno.contracts.model import TIERS, Fact, Tier
from dyno.contracts.sample import Cell
from dyno.report.tables import units
from dyno.report.tables.table import Group, Row, varying
from dyno.results import Run
from dyno.stats.summary import CellSummary

INTERVAL = "±"
MEANING = f"{INTERVAL}: how far the 95 % interval of the figures before it reaches at most, as a part of the median"
RATES = ("rate", "operations", "bandwidth")
REMARKS = "remarks"


@dataclass(frozen=True)
class Line:
    """One cell."""

    cell: Cell
    cells: tuple[str, ...]
    """A text for each of the heads."""
    valid: bool
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Wide:
    """The cells of one tier, which may be compared."""

    tier: Tier | None
    heads: tuple[str, ...]
    words: frozenset[str]
    """Heads of columns that are no figures."""
    keys: frozenset[str]
    """Heads of columns that tell one line from another."""
    lines: tuple[Line, ...]
    floor: str
    """What null engines reached; empty where there are none."""
    title: str = ""


@dataclass(frozen=True)
class _Column:
    head: str
    text: Callable[[Mapping[str, Row], Cell], str]
    word: bool = False
    key: bool = False
    """Whether it tells one line from another."""


def phases(run: Run) -> list[str]:
    """Those of which the table has figures; nothing for a run without one."""
    wanted = [column["name"] for column in _columns(run) if column["of"] in RATES]
    return [phase for phase in run.plan["phases"] if phase in wanted]


def legend(run: Run) -> list[str]:
    """What the columns mean."""
    return [*(run.header.get("layout") or {}).get("legend", ()), *([] if beside(run) else [MEANING])]


def beside(run: Run) -> bool:
    """Whether it stands under the tables by phase, and not in their place."""
    return bool((run.header.get("layout") or {}).get("beside"))


def tables(run: Run, found: Sequence[Group]) -> list[Wide]:
    """A table for each tier; none for a run without a layout. `found`: all groups of the run."""
    if not _columns(run):
        return []
    rows: dict[int, dict[str, Row]] = {}
    for group in found:
        for row in group.rows:
            rows.setdefault(id(row.summary.cell), {})[group.phase] = row
    tiers = [tier for tier in TIERS if any(cell.tier is tier and not cell.floor for cell in run.cells)]
    return [_table(run, tier, rows) for tier in tiers]


def _columns(run: Run) -> list[dict[str, Any]]:
    return list((run.header.get("layout") or {}).get("columns", ()))


def _table(run: Run, tier: Tier | None, rows: Mapping[int, Mapping[str, Row]]) -> Wide:
    mine = [cell for cell in run.cells if cell.tier is tier]
    combinations = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in mine))}
    cells = sorted((cell for cell in mine if not cell.floor), key=lambda cell: combinations[cell.combination])
    columns = [*_leading(run), *_asked(run)]
    texts = [[column.text(rows.get(id(cell), {}), cell) for cell in cells] for column in columns]
    # Without what no cell has: figures of a phase that was left out.
    kept = [at for at, found in enumerate(texts) if set(found) != {units.UNKNOWN}]
    of = phases(run)
    lines = []
    for place, cell in enumerate(cells):
        shown = {phase: row for phase, row in rows.get(id(cell), {}).items() if phase in of}
        valid = all(row.summary.valid for row in shown.values())
        # Beside the tables by phase, these have them.
        remarks = () if beside(run) else tuple(_remarks(shown))
        lines.append(Line(cell, tuple(texts[at][place] for at in kept), valid, remarks))
    return Wide(
        tier,
        tuple(columns[at].head for at in kept),
        frozenset(columns[at].head for at in kept if columns[at].word),
        frozenset(columns[at].head for at in kept if columns[at].key),
        tuple(lines),
        _floor([rows.get(id(cell), {}) for cell in mine if cell.floor], of),
        (run.header.get("layout") or {}).get("title", ""),
    )


def _leading(run: Run) -> list[_Column]:
    """What tells cells apart beside the layout's own columns: the engine, and further parameters, where they vary."""
    named = {column["name"] for column in _columns(run) if column["of"] == "param"}
    several = len({cell.label for cell in run.cells if not cell.floor}) > 1
    found = [_Column("engine", lambda _, cell: cell.label, word=True, key=True)] if several else []
    return found + [_param(run, name, name) for name in varying(run) if name not in named]


def _param(run: Run, head: str, name: str) -> _Column:
    word = any(isinstance(cell.params.get(name), str) for cell in run.cells)
    return _Column(head, lambda _, cell: str(cell.params.get(name, units.UNKNOWN)), word, key=True)


def _asked(run: Run) -> Iterable[_Column]:
    """The layout's columns, and after those of one phase how far their interval reaches."""
    asked = _columns(run)
    for at, column in enumerate(asked):
        head, of, name = column["title"], column["of"], column["name"]
        if of == "param":
            yield _param(run, head, name)
        elif of == "fact":
            yield _fact(head, name, column.get("kind", "text"))
        elif of in RATES:
            yield _Column(head, _rate(name, of))
            following = asked[at + 1] if at + 1 < len(asked) else {}
            # Tables by phase have the intervals.
            if not beside(run) and not (following.get("of") in RATES and following.get("name") == name):
                yield _Column(f"{INTERVAL} {name}", _reach(name))


def _fact(head: str, name: str, kind: str) -> _Column:
    def text(rows: Mapping[str, Row], cell: Cell) -> str:
        return _written(fact(rows, name), kind)

    return _Column(head, text, word=kind == "text")


def fact(rows: Mapping[str, Row], name: str) -> Fact:
    """Of a cell, by the phases that it has: from the last that tells it."""
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
    """Operations a second that did not raise, by the median over trials."""
    rates = [(s.operations - s.errors) / s.elapsed_ns * 1e9 for s in summary.samples if s.elapsed_ns > 0]
    return median(rates) if rates else None


def _reach(phase: str) -> Callable[[Mapping[str, Row], Cell], str]:
    def text(rows: Mapping[str, Row], cell: Cell) -> str:
        found = rows[phase].summary.throughput if phase in rows else None
        if found is None or found.low is None or found.high is None:
            return units.UNKNOWN
        part = max(found.high - found.median, found.median - found.low) / found.median * 100
        return f"{part:.0f} %" if part >= 9.5 else f"{part:.1f} %"

    return text


def _written(value: Fact, kind: str) -> str:
    if value is None or isinstance(value, str):
        return value or units.UNKNOWN
    writers: Mapping[str, Callable[[float], str]] = {
        "count": lambda number: units.count(int(number)),
        "bytes": lambda number: units.size(int(number)),
        "ratio": lambda number: f"{number:.2f}",
        "rate": units.rate,
        "ns": units.duration,
        "bandwidth": units.bandwidth,
    }
    return writers.get(kind, str)(value)


def _remarks(rows: Mapping[str, Row]) -> list[str]:
    """What stands beside the figures of all phases once, and of some with their names."""
    said: dict[str, list[str]] = {}
    for phase, row in rows.items():
        for remark in row.remarks():
            said.setdefault(remark, []).append(phase)
    return [text if len(of) == len(rows) else f"{' and '.join(of)}: {text}" for text, of in said.items()]


def _floor(cells: Sequence[Mapping[str, Row]], of: Sequence[str]) -> str:
    """'floor (nullkv): gets 5,466,751 – 7,609,597 op/s'. What the harness costs hardly depends on parameters."""
    parts = []
    for phase in of:
        found = [rows[phase].summary for rows in cells if phase in rows]
        rates = [summary.throughput.median for summary in found if summary.throughput is not None]
        if rates:
            parts.append(f"{phase} {units.interval(min(rates), max(rates))} {found[0].unit}/s")
    names = dict.fromkeys(row.summary.cell.label for rows in cells for row in rows.values())
    return f"floor ({', '.join(names)}): {'; '.join(parts)}" if parts else ""
