"""The run as Markdown, for a README or an issue: tables as GitHub shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyno.report.export.markdown_text import bullets, code, plain, table
from dyno.report.tables import heading, row_titles, units, wide, wording
from dyno.report.tables.evidence import evidence
from dyno.report.tables.table import (
    Group,
    absent,
    bandwidth,
    costs,
    failures,
    groups,
    interval,
    legend,
    meaning,
    served,
    tails,
    varying,
)
from dyno.results import Run
from dyno.stats.doubts import machine
from dyno.stats.summary import CellSummary


def as_markdown(run: Run) -> str:
    """What was asked and where, the answers, a table for each phase and tier, and what speaks against the numbers.

    In place of the tables by phase stands the suite's own, where it has one.
    """
    found, changing = groups(run), varying(run)
    apart = served(found)
    own = wide.tables(run, found)
    if own and not wide.beside(run):
        tables = [_own(each) for each in own]
        remarks = legend([group for group in found if group.phase in wide.phases(run)]) + wide.legend(run)
    else:
        tables = [*(_group(group, changing, apart) for group in found), *map(_own, own)]
        remarks = legend(found) + meaning(found) + (wide.legend(run) if own else [])
    answers = bullets(map(plain, wording.answers(run)))
    return "\n\n".join([_heading(run), *filter(None, [answers]), *tables, *_remarks(run, found, remarks)]) + "\n"


def _own(found: wide.Wide) -> str:
    columns = {head: [line.cells[at] for line in found.lines] for at, head in enumerate(found.heads)}
    columns[wide.REMARKS] = [", ".join(line.remarks) for line in found.lines]
    below = f"\n\n{plain(found.floor)}" if found.floor else ""
    heads = [f"**{plain(head)}**\n\n" for head in (found.title, row_titles.tier(found.tier)) if head]
    above = "".join(heads)
    return f"{above}{table(columns, {*found.words, wide.REMARKS})}{below}"


def _heading(run: Run) -> str:
    facts = [
        f"asked: {code(heading.fixed(run))}; {heading.length(run)}; seed {run.plan['seed']}",
        f"machine: {plain(heading.machine(run))}",
    ]
    if memory := heading.peaks(run):
        facts.append(plain(memory))
    if (made := heading.maker(run)) is not None:
        facts.append(f"measured: {plain(made)}")
    engines = plain(", ".join(heading.engines(run)))
    return f"**{plain(run.plan['suite'])}**: {engines}. {heading.trials(run)}.\n\n{bullets(facts)}"


def _remarks(run: Run, found: Sequence[Group], remarks: Sequence[str]) -> list[str]:
    tiers = dict.fromkeys(filter(None, (row_titles.explained(group.tier) for group in found)))
    lines = [
        *(f"no number: {line}" for line in failures(found)),
        *(f"not measured: {line}" for line in absent(run)),
        *tiers,
        *remarks,
        *evidence(run),
        *(f"this machine: {finding.text}" for finding in machine(run)),
    ]
    cut = f"**Not complete**: {len(run.final())} trials have ended, of more that were asked for."
    return [*([] if run.complete else [cut]), bullets(map(plain, lines))]


def _group(group: Group, changing: Sequence[str], apart: bool) -> str:
    title = row_titles.named(f"**{plain(group.place)}**", row_titles.tier(group.tier))
    return f"{title}\n\n{table(*columns(group, changing, apart))}"


def columns(group: Group, changing: Sequence[str], apart: bool) -> tuple[dict[str, list[str]], set[str]]:
    """A group's cells by the heading of their column, and the headings of those that are words."""
    rows = [row.summary for row in group.rows]
    found = [costs(row, apart) for row in rows]
    cells = {
        "engine": [row.name for row in group.rows],
        **{name: [str(row.cell.params[name]) for row in rows] for name in changing},
        f"{rows[0].unit}/s": [_rate(row) for row in rows],
        "bandwidth": [bandwidth(row) or units.UNKNOWN for row in rows],
        "95 %": [interval(row) for row in rows],
        **{name: [each[name] or units.UNKNOWN for each in found] for name in found[0]},
        **_latencies("", [row.latency_ns for row in rows]),
        **{name: [tails(row)[name] or units.UNKNOWN for row in rows] for name in ("p99.99", "max")},
        **_latencies("resp ", [row.response_ns for row in rows]),
        "on disk": [units.size(row.bytes_on_disk) for row in rows],
        "remarks": [", ".join(row.remarks()) for row in group.rows],
    }
    # Without what no row has: latencies of a bulk phase, sizes of engines in memory.
    kept = {name: found for name, found in cells.items() if name == "95 %" or set(found) != {units.UNKNOWN}}
    texts = {name for name in changing if any(isinstance(row.cell.params[name], str) for row in rows)}
    return kept, {"engine", "remarks", *texts}


def _rate(row: CellSummary) -> str:
    if row.throughput is not None:
        return units.rate(row.throughput.median)
    return (row.why or "no number").split(":", 1)[0]


def _latencies(prefix: str, found: Sequence[Mapping[str, int | None]]) -> dict[str, list[str]]:
    return {f"{prefix}{name}": [units.duration(times[name]) for times in found] for name in ("p50", "p99")}
