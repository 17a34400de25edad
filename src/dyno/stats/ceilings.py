"""What share of the machine's own ceilings a row reaches, where these were probed: see `dyno.host.ceilings`.

Nothing here may look at the machine that it runs on, and no name of a suite may be put here.
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
    """Of one row, medians over trials; None where it is not known or makes no sense."""

    row: CellSummary
    flushes: float | None
    """Operations of a phase that writes at tier power, of the flushes that one writer reaches. Over 1 where several
    share a flush; less than one would expect where an operation takes several."""
    memory: float | None
    """Bandwidth, of that of the memory."""
    cores: float | None
    """CPU time of client and server, of the time: 1 is one core."""


def probed(run: Run) -> Mapping[str, Any] | None:
    """None where the machine was not."""
    found: Mapping[str, Any] | None = run.header.get("host", {}).get("ceilings")
    return found


def shares(run: Run) -> list[CeilingShare]:
    """Of every row with a number, null engines left out; nothing where the machine was not probed."""
    found = probed(run)
    if found is None:
        return []
    rows = [row for row in summarize(run) if row.valid and row.samples and not row.cell.floor]
    return [_share(row, found.get("flushes_per_second"), found.get("memory_bytes_per_second")) for row in rows]


def _share(row: CellSummary, flushes: float | None, memory: float | None) -> CeilingShare:
    commits = row.cell.tier is Tier.POWER and row.about.writes and not any(sample.bulk for sample in row.samples)
    rate = median(sample.operations / max(sample.elapsed_ns, 1) * 1e9 for sample in row.samples)
    moved = None if row.bandwidth is None else row.bandwidth.median
    busy = [_cores(sample) for sample in row.samples]
    known = [each for each in busy if each is not None]
    return CeilingShare(
        row,
        rate / flushes if commits and flushes else None,
        moved / memory if moved and memory else None,
        median(known) if len(known) == len(busy) else None,
    )


def _cores(sample: Sample) -> float | None:
    used = [found.get(name) for found in (sample.client, sample.server) if found for name in ("user_ns", "system_ns")]
    if not used or None in used or sample.elapsed_ns <= 0:
        return None
    return sum(ns or 0 for ns in used) / sample.elapsed_ns
