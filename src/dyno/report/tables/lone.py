"""Sentences on engines without a competitor: their own figures, in the words of the suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyno.contracts.model import Tier, Value
from dyno.report.tables import display, units
from dyno.report.tables.table import figure, ranked_by_bandwidth
from dyno.results import Run
from dyno.results.header import Ceilings
from dyno.stats.machine import share_of_ceilings
from dyno.stats.metric import BANDWIDTH, METRICS, THROUGHPUT, rank
from dyno.stats.summary import CellSummary, summarize

MOST_FIGURES = 3
"""Maximum number of figures of a suite that does not say how to state them."""
MOST_WORDS = 30
LEAST_MEMORY_SHARE = 0.1
"""Least share of the memory's bandwidth that is worth a word: a disk's is small on every machine."""


class _Number(int):
    """A parameter that a phase's text may format as a size: '{block_size:size}'."""

    def __format__(self, kind: str) -> str:
        if kind == "size":
            return units.size(self)
        return super().__format__(kind or ",")


def describe_engine(run: Run, label: str, tier: Tier | None, tool: str | None, names: Mapping[str, str]) -> str:
    """Returns 'fio: 12,300 random reads of 4 KiB a second at depth 1, p99 240 µs; a flush takes 1.1 ms.' `tool`: the
    outside tool that measured. `names`: printed names of phases."""
    rows = [row for row in summarize(run) if (row.cell.label, row.cell.tier, row.reported_by) == (label, tier, tool)]
    rows = [row for row in rows if row.valid and row.throughput is not None]
    by_phase = {phase: [row for row in rows if row.phase == phase] for phase in run.plan.phases}
    ceilings = run.header.host.ceilings
    stated = [_fill(of_phase, ceilings) for of_phase in by_phase.values() if of_phase and of_phase[0].about.says]
    if not stated:
        measured = [of_phase[0] for of_phase in by_phase.values() if of_phase]
        stated = [f"{names.get(row.phase, row.phase)} {_figure(row)}" for row in measured[:MOST_FIGURES]]
    name = display.engine(label, tier)
    if tool and tool.startswith(label):
        name = display.engine(tool, tier)
    elif tool:
        name += f", as reported by {tool}"
    sentence = f"{name}: {stated[0]}"
    for text in stated[1:]:
        if len(f"{sentence}; {text}".split()) <= MOST_WORDS:
            sentence += f"; {text}"
    return f"{sentence}."


def _describe_share(row: CellSummary, ceilings: Ceilings | None) -> str:
    """Returns ' (82 % of the flushes that this machine reaches)', or the same of its memory; empty without a
    share."""
    if ceilings is None:
        return ""
    share = share_of_ceilings(row, ceilings)
    if share.flushes is not None:
        return f" ({100 * share.flushes:.0f} % of the flushes that this machine reaches)"
    if share.memory is not None and share.memory >= LEAST_MEMORY_SHARE:
        return f" ({100 * share.memory:.0f} % of the memory's bandwidth)"
    return ""


def _fill(rows: Sequence[CellSummary], ceilings: Ceilings | None) -> str:
    """Fills the text of a phase: with the figures of the first combination of parameters, or if it has {range}, with
    the lowest and the highest figure of all. `ceilings`: the machine's, if they were probed."""
    first = rows[0]
    text = first.about.says
    ranked = sorted(rows, key=lambda row: rank(row) or 0.0)
    ends = [_figure(ranked[0]), _figure(ranked[-1])]
    if METRICS.get(first.about.metric, THROUGHPUT).inverse:
        # The best time is the lowest figure.
        ends.reverse()
    several = "{range}" in text
    described = first
    if several:
        described = ranked[-1]
    values: dict[str, str | _Number] = {}
    for name, value in first.cell.params.items():
        if several:
            values[name] = _join_ends(_parameter(value), _parameter(rows[-1].cell.params[name]))
        else:
            values[name] = _parameter(value)
    # Last, because a parameter may have one of these names.
    values |= {"figure": _figure(first), "range": _join_ends(*ends)}
    for name in ("p50", "p99"):
        latency_ns = first.latency_ns.get(name)
        if latency_ns is None:
            # Too few operations, or a single call.
            text = text.replace(f", {name} {{{name}}}", "")
        values[name] = units.duration(latency_ns)
    return text.format_map(values) + _describe_share(described, ceilings)


def _parameter(value: Value) -> _Number | str:
    if type(value) is int:
        return _Number(value)
    return str(value)


def _join_ends(low: _Number | str, high: _Number | str) -> _Number | str:
    if low == high:
        return low
    return f"{low} to {high}"


def _figure(row: CellSummary) -> str:
    if ranked_by_bandwidth(row):
        return figure(row, BANDWIDTH)
    by = METRICS.get(row.about.metric, THROUGHPUT)
    text = figure(row, by)
    if by is THROUGHPUT and not row.about.says:
        return f"{text} {row.unit}/s"
    return text
