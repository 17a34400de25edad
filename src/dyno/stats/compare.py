"""Ratios between the rows of a run: block by block, so that a drift of the machine is in both parts of each."""

from __future__ import annotations

from dyno.model import UsageError, unknown
from dyno.results import Run


def ratios(run: Run, phase: str, engine: str, baseline: str) -> list[float]:
    """Throughput of `engine` as a share of that of `baseline` (both as they were asked for), for each block that has
    a valid sample of both. Raises UsageError for an engine that the run does not have, or has in several rows."""
    asked: dict[str, list[int]] = {}
    for at, cell in enumerate(run.cells):
        asked.setdefault(cell.asked, []).append(at)
    for name in (engine, baseline):
        if name not in asked:
            raise UsageError(unknown(f"{run.path}: engine", name, asked))
        if len(asked[name]) > 1:
            raise UsageError(f"{run.path}: engine {name} has {len(asked[name])} rows, of other tiers or parameters")
    rates: dict[tuple[int, int], float] = {}
    for attempt in run.final():
        for sample in attempt.samples:
            if sample.phase == phase and sample.per_second is not None:
                rates[attempt.cell, attempt.block] = sample.per_second
    (mine,), (base,) = asked[engine], asked[baseline]
    blocks = sorted({block for _, block in rates})
    return [
        rates[mine, block] / rates[base, block]
        for block in blocks
        if (mine, block) in rates and (base, block) in rates
    ]
