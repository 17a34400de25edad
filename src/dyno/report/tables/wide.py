"""A suite's own table: a line for each cell with figures of several phases, in the layout that the run file declares.

It is for readers who compare parameters rather than engines. All its figures are also in the tables by phase or in
the samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dyno.contracts.cell import Cell
from dyno.contracts.model import TIERS, Fact, Tier
from dyno.contracts.presentation import Layout
from dyno.report.tables import display, units
from dyno.report.tables.sections import REMARKS, Section
from dyno.report.tables.table import Group, Row, varying_params
from dyno.results import Run
from dyno.stats.summary import CellSummary, group_values

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


def _layout(run: Run) -> Layout:
    return run.header.layout or Layout()


def phases(run: Run) -> list[str]:
    """Returns the phases with figures in the table; empty for a run without such a table."""
    names = [column.name for column in _layout(run).columns if column.of in RATES]
    return [phase for phase in run.plan.phases if phase in names]


def legend(run: Run) -> list[str]:
    return [*_layout(run).legend, *([] if is_shown_below(run) else [MEANING])]


def is_shown_below(run: Run) -> bool:
    """Returns whether the table is shown below the tables by phase. If not, it replaces them."""
    return _layout(run).beside


def tables(run: Run, of: Sequence[Group]) -> list[Wide]:
    """Returns a table for each tier; empty for a run without a layout. `of`: all groups of the run."""
    if not _layout(run).columns:
        return []
    rows: dict[int, dict[str, Row]] = {}
    for group in of:
        for row in group.rows:
            rows.setdefault(id(row.summary.cell), {})[group.phase] = row
    tiers = [tier for tier in TIERS if any(cell.tier is tier and not cell.floor for cell in run.cells)]
    # A table of names alone has no figures.
    return [table for tier in tiers if set((table := _table(run, tier, rows)).heads) - table.keys and table.lines]


def sections(of: Sequence[Wide]) -> Iterator[Section]:
    for wide in of:
        remarks = any(line.remarks for line in wide.lines)
        yield Section(
            display.join_parts(wide.title, display.tier(wide.tier)),
            display.meaning(wide.tier),
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
    columns = _layout(run).columns
    rows_by_cell = [rows.get(id(cell), {}) for cell in cells]
    if any(column.of == "phase" for column in columns):
        pairs = list(zip(cells, rows_by_cell, strict=True))
        cells = [cell for cell, of in pairs for row in of.values() if row.summary.facts]
        rows_by_cell = [{phase: row} for of in rows_by_cell for phase, row in of.items() if row.summary.facts]
    texts, words, keys = dict[str, list[str]](), set[str](), set[str]()

    def add_param(head: str, name: str) -> None:
        texts[head] = [str(cell.params.get(name, units.UNKNOWN)) for cell in cells]
        keys.add(head)
        if any(isinstance(cell.params.get(name), str) for cell in run.cells):
            words.add(head)

    # First the engine and the parameters that vary, unless the layout has them.
    if len({cell.label for cell in run.cells if not cell.floor}) > 1:
        texts["engine"] = [cell.label for cell in cells]
        words.add("engine")
        keys.add("engine")
    for name in varying_params(run):
        if name not in {column.name for column in columns if column.of == "param"}:
            add_param(name, name)
    for column, following in zip(columns, [*columns[1:], None], strict=True):
        head = column.title
        of = column.of
        name = column.name
        if of == "param":
            add_param(head, name)
        elif of in ("phase", "facts"):
            texts[head] = [_facts(by_phase, name) if name else next(iter(by_phase)) for by_phase in rows_by_cell]
            words.add(head)
            keys |= set() if name else {head}
        elif of == "fact":
            texts[head] = [units.fact(fact(by_phase, name), column.kind) for by_phase in rows_by_cell]
            words |= {head} if column.kind == "text" else set()
        elif of in RATES:
            summaries = [by_phase[name].summary if name in by_phase else None for by_phase in rows_by_cell]
            texts[head] = [_rate(summary, of) for summary in summaries]
            # The interval follows the last rate of a phase. If the tables by phase are shown, they have it.
            repeated = following is not None and following.of in RATES and following.name == name
            if not is_shown_below(run) and not repeated:
                texts[f"{INTERVAL} {name}"] = list(map(_reach, summaries))
    # Columns of a phase that was left out have no figures.
    heads = [head for head, column_texts in texts.items() if set(column_texts) != {units.UNKNOWN}]
    shown_phases, lines = phases(run), []
    for at, (cell, by_phase) in enumerate(zip(cells, rows_by_cell, strict=True)):
        shown = {phase: row for phase, row in by_phase.items() if phase in shown_phases}
        valid = all(row.summary.valid for row in shown.values())
        # If the tables by phase are shown, they have the remarks.
        remarks = () if is_shown_below(run) else tuple(_remarks(shown))
        lines.append(Line(cell, tuple(texts[head][at] for head in heads), valid, remarks))
    floor = _floor([rows.get(id(cell), {}) for cell in of_tier if cell.floor], shown_phases)
    title = _layout(run).title
    return Wide(tier, tuple(heads), frozenset(words), frozenset(keys), tuple(lines), floor, title)


def fact(rows: Mapping[str, Row], name: str) -> Fact:
    """Returns a cell's fact, from its last phase that has it."""
    return next((v for row in reversed(list(rows.values())) if (v := row.summary.facts.get(name)) is not None), None)


def _facts(rows: Mapping[str, Row], prefix: str) -> str:
    """Returns a cell's facts of these names with their medians: '200: 270, 503: 30'. A fact that some trials lack has
    no median."""
    facts = {name: value for row in rows.values() for name, value in row.summary.facts.items()}
    texts = {name.removeprefix(prefix): value for name, value in facts.items() if name.startswith(prefix)}
    parts = [f"{name}: {units.fact(value, 'count')}" for name, value in texts.items()]
    return ", ".join(parts) or units.UNKNOWN


def _rate(summary: CellSummary | None, of: str) -> str:
    if summary is None:
        return units.UNKNOWN
    if summary.throughput is None:
        return (summary.why or "not measured").split(":", 1)[0].split(" ", 1)[0]
    if of == "bandwidth":
        return units.bandwidth(None if summary.bandwidth is None else summary.bandwidth.median)
    if of == "rate":
        return units.rate(summary.throughput.median)
    # Successful operations.
    rates = [(s.operations - s.errors) / s.elapsed_ns * 1e9 for s in summary.samples if s.elapsed_ns > 0]
    return units.rate(median(rates) if rates else None)


def _reach(summary: CellSummary | None) -> str:
    if summary is None or summary.throughput is None:
        reach = None
    else:
        reach = summary.throughput.reach
    if reach is None:
        return units.UNKNOWN
    if reach * 100 >= 9.5:
        return f"{reach * 100:.0f} %"
    return f"{reach * 100:.1f} %"


def _remarks(rows: Mapping[str, Row]) -> list[str]:
    """Returns the remarks of the phases. A remark has the names of its phases, unless all phases have it."""
    phases = group_values((remark, phase) for phase, row in rows.items() for remark in row.remarks())
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
    if parts:
        return f"floor ({', '.join(names)}): {'; '.join(parts)}"
    return ""
