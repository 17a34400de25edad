"""Comparisons as sections of rows, which are printed on a terminal or as Markdown, and as JSON for programs.

docs/compare-json.md documents every key; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import median
from typing import Any

from dyno.contracts.sample import Cell
from dyno.report.export import markdown_text
from dyno.report.tables import heading, row_titles, units, wording
from dyno.report.tables.table import bandwidth, costs, varying
from dyno.report.tables.wording import LEVEL
from dyno.results import Run
from dyno.stats import gate
from dyno.stats.compare import Comparison, Table, against
from dyno.stats.gate import GateResult
from dyno.stats.metric import BANDWIDTH, THROUGHPUT, Metric, speeds
from dyno.stats.summary import CellSummary
from dyno.stats.two_runs import Between, Change, Difference
from dyno.stats.verdict import CONFIDENCE, Verdict

SCHEMA = 1
STATES = {"slower": "FAIL", "fine": "pass", "unclear": "unclear"}
WITHIN = (
    f"Ratios of speed, block by block, with {LEVEL} intervals. Of 100 comparisons between equals, one is called a"
    " difference by chance."
)
GATE_LEVEL = f"{gate.CONFIDENCE * 100:g} %"
APART = (
    "Ratios of speed, after to before, with {level} intervals. The runs were not measured in turns: a drift of the"
    " machine from one to the other is in the ratio and not in its interval."
)
IN_TURNS = "Measured in turns: ratios of speed, after to before, block by block, with {level} intervals."


@dataclass(frozen=True)
class Section:
    """A title and a table under it."""

    title: str
    remark: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ("engine", "parameters", "verdict", "")
    """Columns of words."""
    keys: Sequence[str] = ("engine", "parameters")
    """Columns that name a row; where a table is too wide they are repeated."""


def within(run: Run, found: Sequence[Table], baseline: str | None, margin: float) -> list[Section]:
    """A section for each table that has the baseline, or for each if that is its best row."""
    changing = varying(run)
    sections = []
    for table in found:
        if comparisons := against(table, baseline, margin):
            params = units.params({name: table.params[name] for name in changing})
            mixed = len(table.tiers) > 1

            def named(cell: Cell, mixed: bool = mixed) -> str:
                return row_titles.engine(cell.label, cell.tier) if mixed else cell.label

            base = named(comparisons[0].baseline)
            which = f"against {base}{'' if baseline else ', the fastest'}{_by(table.metric)}{_warm(table)}"
            which += f"; the tiers differ: {row_titles.ACROSS}" if mixed else ""
            heads = ("engine", "ratio", f"[{LEVEL}]", "samples", "verdict")
            rows = [
                (named(c.engine), *_figures(c.verdict), str(c.verdict.blocks), wording.verdict(c.verdict))
                for c in comparisons
            ]
            tool = _tool(table.reported_by)
            title = row_titles.named(table.phase, row_titles.tiers(table.tiers), params, tool, between="  ")
            sections.append(Section(title, which, heads, rows))
    return sections


def _figures(verdict: Verdict) -> tuple[str, str]:
    return wording.point(verdict), wording.interval(verdict)


def _warm(table: Table) -> str:
    return f"; without {', '.join(c.label for c in table.warm)}, not proven to be cold" if table.warm else ""


def _by(metric: Metric) -> str:
    the = "the " if metric.inverse else ""
    shorter = ": a ratio over 1 is a shorter time" if metric.inverse else ""
    return "" if metric is THROUGHPUT else f", by {the}{metric.title}{shorter}"


def _tool(reported_by: str | None) -> str:
    return f"reported by {reported_by}" if reported_by else ""


def changed(before: Run, after: Run, differences: Sequence[Difference]) -> Section:
    """What differs between two runs."""
    rows = [(d.where, d.what, _shown(d.before), _shown(d.after)) for d in differences]
    remark = f"from {_named(before)} to {_named(after)}{'' if rows else ': nothing that is recorded'}"
    heads = ("where", "what", "before", "after")
    return Section("What differs", remark, heads, rows, left=heads, keys=heads[:2])


def _named(run: Run) -> str:
    created = run.header.get("created")
    return f"{run.path} ({created[:16].replace('T', ' ') if created else 'at an unknown time'})"


def _shown(value: Any) -> str:
    if value is None:
        return units.UNKNOWN
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def between(found: Between, changing: Sequence[str]) -> list[Section]:
    """A section for each phase and tier with a row in both runs."""
    return _by_phase([(change, [wording.verdict(change.verdict)]) for change in found.changes], ["verdict"], changing)


def gated(found: Sequence[GateResult], changing: Sequence[str]) -> list[Section]:
    """The same for a gate, with what came of each row."""
    rows = [
        (replace(judged.change, verdict=judged.verdict), [wording.gated(judged.verdict), STATES[judged.state]])
        for judged in found
    ]
    return _by_phase(rows, ["verdict", ""], changing, GATE_LEVEL)


def _by_phase(
    rows: Sequence[tuple[Change, list[str]]], last: Sequence[str], changing: Sequence[str], level: str = LEVEL
) -> list[Section]:
    def place(row: tuple[Change, list[str]]) -> tuple[str, str | None, str | None, Metric]:
        after = row[0].after
        return after.phase, after.cell.tier_name, after.reported_by, row[0].metric

    params = ["parameters"] if changing else []
    apart = any(row.server is not None for change, _ in rows for row in (change.before, change.after))
    sections = []
    for (phase, tier, tool, metric), found in groupby(rows, key=place):
        group = list(found)
        changes = [change for change, _ in group]
        more = {} if metric.inverse else {**_bandwidths(changes, metric), **_costs(changes, apart)}
        lines = [
            _line(change, words_, changing, [column[at] for column in more.values()])
            for at, (change, words_) in enumerate(group)
        ]
        title = row_titles.named(phase, row_titles.tier(tier), _tool(tool), between="  ")
        heads = ["engine", *params, "before", "after", *more, "ratio", f"[{level}]", *last]
        sections.append(Section(title, _by(metric).removeprefix(", "), heads, lines))
    return sections


def _costs(changes: Sequence[Change], apart: bool) -> dict[str, list[str]]:
    """Columns of CPU time for each item, before and after; without those that have nothing to tell."""
    found = [(costs(change.before, apart), costs(change.after, apart)) for change in changes]
    columns = {
        who if who == "cpu" else f"{who} cpu": [_from_to(was[who], is_[who]) for was, is_ in found]
        for who in found[0][0]
    }
    return {who: cells for who, cells in columns.items() if any(cells)}


def _bandwidths(changes: Sequence[Change], metric: Metric) -> dict[str, list[str]]:
    """A column, where there is anything to tell that the figures do not."""
    cells = [_from_to(bandwidth(change.before), bandwidth(change.after)) for change in changes]
    return {"bandwidth": cells} if any(cells) and metric is not BANDWIDTH else {}


def _from_to(was: str, is_: str) -> str:
    return f"{was or units.UNKNOWN} → {is_ or units.UNKNOWN}" if was or is_ else ""


def _line(change: Change, last: Sequence[str], changing: Sequence[str], cpu: Sequence[str]) -> list[str]:
    cell = change.after.cell
    params = [units.params({name: cell.params[name] for name in changing})] if changing else []
    was, is_ = (_value(row, change.metric) for row in (change.before, change.after))
    tiers = [row.cell.tier_name or "" for row in (change.before, change.after)]
    moved = f" ({' → '.join(tiers)})" if tiers[0] != tiers[1] else ""
    return [f"{cell.label}{moved}", *params, was, is_, *cpu, *_figures(change.verdict), *last]


def _value(row: CellSummary, metric: Metric) -> str:
    """The median over trials, of which the ratio is."""
    middle = median(speeds(row, metric).values())
    if metric is BANDWIDTH:
        return units.bandwidth(middle)
    return units.duration(1 / middle) if metric.inverse else f"{units.rate(middle)} {row.unit}/s"


def how(paired: bool, level: str = LEVEL) -> str:
    """What the ratios of two runs are worth."""
    return (IN_TURNS if paired else APART).format(level=level)


def conditions(run: Run) -> list[str]:
    """What holds of every figure; of two runs, of both."""
    return [f"Measured with the {heading.AWAKE}."] if run.plan.get("awake") else []


def equal(margin: float) -> str:
    """What it takes for no difference."""
    return f"Rows are called equal where a difference of over {margin * 100:g} % can be ruled out."


def gone(found: Between) -> list[str]:
    """One line for every row that has a number in one of the runs only."""
    lost = [f"{_name(row.cell)}, {row.phase}: only before; after: {why}" for row, why in found.lost]
    return lost + [f"{_name(row.cell)}, {row.phase}: only after" for row in found.new]


def _name(cell: Cell) -> str:
    return row_titles.engine(cell.label, cell.tier)


def summary(states: list[str], lost: int, margin: float, strict: bool) -> str:
    """What came of a gate."""
    parts = [f"{states.count('slower')} of {len(states)} rows slower by more than {margin * 100:g} %"]
    if lost:
        parts.append(f"{lost} without a number now")
    if unclear := states.count("unclear"):
        told = "which fails under --strict" if strict else "which passes without --strict"
        parts.append(f"{unclear} that can't be told, {told}: more --samples would")
    return "; ".join(parts) + "."


def markdown(sections: Sequence[Section], lines: Sequence[str] = ()) -> str:
    """Tables for a README, an issue or a pull request."""
    parts = []
    for section in sections:
        title = markdown_text.plain(section.title.replace("  ", ", "))
        parts.append(f"**{title}**" + (f", {markdown_text.plain(section.remark)}" if section.remark else ""))
        if section.rows:
            columns = dict(zip(section.heads, zip(*section.rows, strict=True), strict=True))
            parts.append(markdown_text.table(columns, section.left))
    if lines:
        parts.append(markdown_text.bullets(map(markdown_text.plain, lines)))
    return "\n\n".join(parts) + "\n"


def within_data(run: Run, found: Sequence[Table], baseline: str | None, margin: float) -> dict[str, Any]:
    comparisons = [comparison for table in found for comparison in against(table, baseline, margin)]
    return {
        **_head(margin),
        "run": str(run.path),
        "awake": bool(run.plan.get("awake")),
        "comparisons": [_comparison(comparison) for comparison in comparisons],
    }


def _head(margin: float) -> dict[str, Any]:
    return {"schema": SCHEMA, "confidence": CONFIDENCE, "margin": margin}


def _comparison(found: Comparison) -> dict[str, Any]:
    row = _row_data(found.phase, found.engine, found.metric, found.reported_by)
    return {**row, "baseline": found.baseline.asked, "baseline_tier": found.baseline.tier_name, **_verdict(found)}


def _row_data(phase: str, cell: Cell, metric: Metric, reported_by: str | None) -> dict[str, Any]:
    return {
        "phase": phase,
        "tier": cell.tier_name,
        "params": dict(cell.params),
        "metric": metric.name,
        "reported_by": reported_by,
        "engine": cell.asked,
    }


def _verdict(found: Comparison | Change) -> dict[str, Any]:
    return {**asdict(found.verdict), "text": wording.verdict(found.verdict)}


def between_data(
    before: Run, after: Run, found: Between, margin: float, judged: Sequence[GateResult] = ()
) -> dict[str, Any]:
    """`judged`: of a gate, for each change."""
    rows = [_change(change) for change in found.changes]
    if judged:
        rows = [
            {**row, **asdict(one.verdict), "text": wording.gated(one.verdict), "state": one.state}
            for row, one in zip(rows, judged, strict=True)
        ]
    return {
        **_head(margin),
        **({"confidence": gate.CONFIDENCE} if judged else {}),
        "before": str(before.path),
        "after": str(after.path),
        "awake": bool(after.plan.get("awake")),
        "in_turns": found.paired,
        "differences": [asdict(difference) for difference in found.differences],
        "changes": rows,
        "lost": [{**_place(row.phase, row.cell), "why": why} for row, why in found.lost],
        "new": [_place(row.phase, row.cell) for row in found.new],
    }


def _place(phase: str, cell: Cell) -> dict[str, Any]:
    return {"phase": phase, "tier": cell.tier_name, "params": dict(cell.params), "engine": cell.asked}


def _cpu(row: CellSummary) -> dict[str, float | None]:
    return {"client": row.client_cpu_ns, "server": row.server_cpu_ns}


def _change(found: Change) -> dict[str, Any]:
    rates = {"before": found.before.throughput, "after": found.after.throughput}
    moved = {"before": found.before.bandwidth, "after": found.after.bandwidth}
    throughputs, bandwidths = (
        {name: None if rate is None else asdict(rate) for name, rate in each.items()} for each in (rates, moved)
    )
    return {
        **_row_data(found.after.phase, found.after.cell, found.metric, found.after.reported_by),
        **throughputs,
        "bandwidth": bandwidths,
        "cpu_ns_per_item": {"before": _cpu(found.before), "after": _cpu(found.after)},
        **_verdict(found),
    }
