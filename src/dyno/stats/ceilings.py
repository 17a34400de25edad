"""The share of the machine's probed ceilings that each row reaches: see `dyno.host.ceilings`.

Nothing here looks at the machine that it runs on, and no suite's name may be used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from dyno.contracts.model import Tier
from dyno.contracts.sample import Sample
from dyno.results import Run
from dyno.stats.summary import CellSummary, summarize


@dataclass(frozen=True)
class CeilingShare:
    """Shares of one row, medians over trials; None if unknown or meaningless."""

    row: CellSummary
    flushes: float | None
    """Operations of a phase that writes at tier power, divided by the flushes that one writer reaches. Over 1 if
    several operations share a flush; low if an operation needs several."""
    memory: float | None
    """Bandwidth, divided by the memory's."""
    cores: float | None
    """CPU time of client and server, divided by the time: 1 is one core."""


def probed(run: Run) -> Mapping[str, Any] | None:
    """The machine's ceilings; None if they were not probed."""
    ceilings: Mapping[str, Any] | None = run.header.get("host", {}).get("ceilings")
    return ceilings


def shares(run: Run) -> list[CeilingShare]:
    """Of every row with a number, without null engines; empty if the machine was not probed."""
    ceilings = probed(run)
    if ceilings is None:
        return []
    flushes, memory = ceilings.get("flushes_per_second"), ceilings.get("memory_bytes_per_second")
    rows = [row for row in summarize(run) if row.valid and row.samples and not row.cell.floor]
    return [_share(row, flushes, memory) for row in rows]


def _share(row: CellSummary, flushes: float | None, memory: float | None) -> CeilingShare:
    commits = row.cell.tier is Tier.POWER and row.about.writes and not any(sample.bulk for sample in row.samples)
    rate = median(sample.operations / max(sample.elapsed_ns, 1) * 1e9 for sample in row.samples)
    moved = None if row.bandwidth is None else row.bandwidth.median
    cores = [_cores(sample) for sample in row.samples]
    known = [each for each in cores if each is not None]
    return CeilingShare(
        row,
        rate / flushes if commits and flushes else None,
        moved / memory if moved and memory else None,
        median(known) if len(known) == len(cores) else None,
    )


def _cores(sample: Sample) -> float | None:
    used = [usage.get(name) for usage in (sample.client, sample.server) if usage for name in ("user_ns", "system_ns")]
    if not used or None in used or sample.elapsed_ns <= 0:
        return None
    return sum(ns or 0 for ns in used) / sample.elapsed_ns
