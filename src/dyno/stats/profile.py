"""Where the CPU time of a row's phase went, by library and by function, from its profiled trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from dyno.contracts.cell import Cell
from dyno.contracts.profile import Frame, PhaseProfile
from dyno.results import Run
from dyno.results.run import is_reference

CLIENT, SERVER = "client", "server"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowProfile:
    """The profile of one phase of a row."""

    cell: Cell
    profile: PhaseProfile

    @property
    def phase(self) -> str:
        return self.profile.phase

    @property
    def samples(self) -> int:
        return sum(self.stacks().values())

    def stacks(self) -> Mapping[tuple[Frame, ...], int]:
        """Returns the number of samples of each stack, the outermost function first. With a server, `client` or
        `server` comes before all functions."""
        sides = {CLIENT: self.profile.client, SERVER: self.profile.server}
        known = {side: stacks for side, stacks in sides.items() if stacks is not None}
        counted = Counter[tuple[Frame, ...]]()
        for side, stacks in known.items():
            root: tuple[Frame, ...] = ((side, side),) if len(known) > 1 else ()
            for stack, count in stacks.named():
                counted[(*root, *stack)] += count
        return counted

    def libraries(self) -> dict[str, float]:
        """Returns the share of the CPU time in each library's own functions, largest first."""
        counted = Counter[str]()
        for stack, count in self.stacks().items():
            counted[stack[-1][0]] += count
        return _shares(counted)

    def functions(self) -> dict[Frame, float]:
        """Returns the share of the CPU time in each function itself, largest first."""
        counted = Counter[Frame]()
        for stack, count in self.stacks().items():
            counted[stack[-1]] += count
        return _shares(counted)

    def calls(self) -> dict[str, float]:
        """Returns the number of system calls of an item, by name, the most frequent first; empty if unknown."""
        items = self.profile.items
        if not self.profile.calls or not items:
            return {}
        ordered = sorted(self.profile.calls.items(), key=lambda call: (-call[1], call[0]))
        return {name: count / items for name, count in ordered}


def _shares(counted: Counter[T]) -> dict[T, float]:
    total = counted.total()
    return {name: count / total for name, count in counted.most_common()}


def list_profiles(run: Run) -> list[RowProfile]:
    """Returns the profiles of a run's rows, in the order of the phases. Null engines are left out."""
    of = {profiled.cell: profiled for profiled in run.profiled}
    return [
        RowProfile(cell, profile)
        for phase in run.plan.phases
        for number, cell in enumerate(run.cells)
        if number in of and not is_reference(run.cells, cell)
        for profile in of[number].phases
        if profile.phase == phase
    ]
