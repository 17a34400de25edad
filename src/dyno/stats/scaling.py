"""How throughput grows with clients: what so many do together, of what one does; and where it no longer grows.

No name of a suite may be put here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dyno.contracts.sample import Cell
from dyno.results import Run
from dyno.stats.metric import THROUGHPUT
from dyno.stats.sweep import Sweep, sweeps

CLIENTS = "clients"
KNEE = 0.95
"""Of the highest throughput: the least number of clients that reaches so much is the knee."""


@dataclass(frozen=True)
class Scaling:
    """One engine in a sweep over clients, of medians over trials."""

    sweep: Sweep
    cell: Cell
    points: tuple[tuple[int, float], ...]
    """How many clients, and what they do together, of what one client does."""
    knee: int
    """The least number of clients that reaches nearly the highest throughput."""

    @property
    def flat(self) -> bool:
        """Whether anybody was measured with more clients than at the knee: else it may lie further on."""
        return self.points[-1][0] > self.knee


def scalings(run: Run) -> Iterator[Scaling]:
    """Of engines that were measured with one client and with more, where rows are compared by throughput."""
    for sweep in sweeps(run, CLIENTS, THROUGHPUT):
        cells: dict[str, Cell] = {}
        found: dict[str, list[tuple[int, float]]] = {}
        for value, table in sweep.points:
            for row, _ in table.rows:
                if row.throughput is not None:
                    cells.setdefault(row.cell.asked, row.cell)
                    found.setdefault(row.cell.asked, []).append((int(value), row.throughput.median))
        for asked, figures in found.items():
            (first, alone), most = figures[0], max(rate for _, rate in figures)
            if first == 1 and len(figures) > 1 and alone > 0:
                knee = next(clients for clients, rate in figures if rate >= KNEE * most)
                yield Scaling(sweep, cells[asked], tuple((n, rate / alone) for n, rate in figures), knee)
