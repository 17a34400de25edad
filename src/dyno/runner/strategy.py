"""Decides which trials a run has: how many blocks, and which cells each block has. Also forecasts the time that they
take.

A null engine's cell has a trial in each of the first blocks, and in further blocks while its interval is wide. A
`StopRule` judges the widths.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from dyno import results
from dyno.contracts.model import Trial
from dyno.results import FLOOR_BLOCKS, Attempt, Run, is_reference
from dyno.runner.plan import Plan

FLOOR_MOST = 9
"""Null engines stop after this many blocks, however wide their interval: on a busy machine it stays wide."""


@dataclass(frozen=True)
class StopRule:
    """Decides whether more samples are needed. The default never asks for more."""

    wanting: Callable[[Run, float], str | None] = lambda run, until: None
    """Returns a text with the intervals that are wider than `until`; None if there are none."""
    unsure: Callable[[Run], Collection[int]] = lambda run: ()
    """Returns the numbers of the null engines' cells whose intervals are wide."""


def numbers(plan: Plan, path: Path, rule: StopRule, extended: Callable[[int, str], object]) -> Iterator[int]:
    """Yields the numbers of the blocks to run. Without `until`, these are the planned blocks. With `until`, blocks
    are added until all intervals are narrow or the time is up. Before each further block, `extended` is called with
    the number of blocks and the wide intervals."""
    if plan.until is None or plan.within is None:
        yield from range(plan.samples)
        return
    began, longest = time.monotonic(), 0.0
    # A resumed run completes its interrupted block before widths are judged.
    least = max(plan.samples, results.load(path).blocks)
    for number in count():
        started = time.monotonic()
        if number >= plan.least and started - began + longest > plan.within:
            why = "time"
            break
        if number >= least:
            wide = rule.wanting(results.load(path), plan.until)
            if wide is None:
                why = "narrow"
                break
            extended(number + 1, wide)
        yield number
        longest = max(longest, time.monotonic() - started)
    if results.load(path).ending != why:
        results.end(path, why)


class Floors:
    """Chooses the null engines' cells of each block. A resumed run gets the same cells as an uninterrupted one."""

    def __init__(self, plan: Plan, path: Path, rule: StopRule) -> None:
        self._plan, self._path, self._rule = plan, path, rule
        self._open = {at for at, cell in enumerate(plan.cells) if is_reference(plan.cells, cell)}

    def trials(self, number: int, attempts: Sequence[Attempt]) -> list[Trial]:
        """Returns the trials of the block. A cell that is left out of a block is left out of all later ones."""
        if number >= FLOOR_MOST:
            self._open.clear()
        if number >= FLOOR_BLOCKS and self._open:
            before = tuple(attempt for attempt in attempts if attempt.block < number)
            self._open &= set(self._rule.unsure(replace(results.load(self._path), attempts=before)))
        trials, cells = self._plan.block(number), self._plan.cells
        return [t for t in trials if t.cell in self._open or not is_reference(cells, cells[t.cell])]


def forecast_time(plan: Plan) -> tuple[int, float]:
    """Forecasts a run that stops after its planned blocks. Returns the number of trials, null engines' included, and
    the maximum time of measuring and warm-up in s, without starting, loading and checking."""
    trials, total = 0, 0.0
    for cell in plan.cells:
        blocks = min(plan.samples, FLOOR_BLOCKS) if is_reference(plan.cells, cell) else plan.samples
        pace = plan.pace(cell)
        each = pace["warmup_ns"] + (pace["budget_ns"] if pace["duration_ns"] is None else pace["duration_ns"])
        trials += blocks
        total += blocks * len(plan.phases) * each / 1e9
    return trials, total
