"""Which trials a run has: blocks as planned or until nothing is wanting, and in each of them which cells.

A null engine's cell is measured as often as its interval needs: in the first blocks, and then while that is wide.
What is wide and what is wanting is not said here: it is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Protocol

from dyno import results
from dyno.contracts.model import Trial
from dyno.results import FLOOR_BLOCKS, Attempt, Run, beside
from dyno.runner.plan import Plan

FLOOR_MOST = 9
"""In no more blocks has a null engine a trial, be its interval as wide as it is: on a busy machine it stays so."""
Wanting = Callable[[Run, float], str | None]
"""What is not yet as narrow as the plan wants, in words; None where all is."""
Unsure = Callable[[Run], Collection[int]]
"""The null engines' cells, by number, whose intervals are wide."""


@dataclass(frozen=True)
class StopRule:
    """Who looks at what was measured so far. By itself nothing is ever wanting."""

    wanting: Wanting = lambda run, until: None
    unsure: Unsure = lambda run: ()


NOBODY = StopRule()


class Extended(Protocol):
    """Who wants to know of blocks that are added."""

    def extended(self, blocks: int, why: str) -> None: ...


def numbers(plan: Plan, path: Path, observer: Extended, wanting: Wanting) -> Iterator[int]:
    """The blocks to be done: as many as planned; with `until`, until nothing is wanting or the time is up."""
    if plan.until is None or plan.within is None:
        yield from range(plan.samples)
        return
    began, longest = time.monotonic(), 0.0
    # One that was interrupted is ended first: half a block is no reason to stop.
    least = max(plan.samples, results.load(path).blocks)
    for number in count():
        started = time.monotonic()
        if number >= plan.least and started - began + longest > plan.within:
            why = "time"
            break
        if number >= least:
            lacking = wanting(results.load(path), plan.until)
            if lacking is None:
                why = "narrow"
                break
            observer.extended(number + 1, lacking)
        yield number
        longest = max(longest, time.monotonic() - started)
    if results.load(path).ending != why:
        results.end(path, why)


class Floors:
    """Which null engines' cells a block has: the same ones when a run is resumed as when it goes on."""

    def __init__(self, plan: Plan, path: Path, unsure: Unsure) -> None:
        self._plan, self._path, self._unsure = plan, path, unsure
        self._open = {at for at, cell in enumerate(plan.cells) if beside(plan.cells, cell)}

    def trials(self, number: int, attempts: Sequence[Attempt]) -> list[Trial]:
        """The block's trials. One that is left out of a block is in none of the later ones."""
        if number >= FLOOR_MOST:
            self._open.clear()
        if number >= FLOOR_BLOCKS and self._open:
            before = tuple(attempt for attempt in attempts if attempt.block < number)
            self._open &= set(self._unsure(replace(results.load(self._path), attempts=before)))
        wanted, cells = self._plan.block(number), self._plan.cells
        return [t for t in wanted if t.cell in self._open or not beside(cells, cells[t.cell])]
