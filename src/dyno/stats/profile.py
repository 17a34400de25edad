"""Where the CPU time of a row's phase went, by library and by function, from its profiled trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TypeVar

from dyno.contracts.cell import Cell
from dyno.contracts.profile import CALLS, CLIENT, CPU, SERVER, Frame, PhaseProfile
from dyno.results import Run
from dyno.results.run import is_reference
from dyno.stats.cache import cache_by_run
from dyno.stats.matching import matched_rows

T = TypeVar("T")


@dataclass(frozen=True)
class RowProfile:
    """The profile of one phase of a row."""

    cell: Cell
    phase: str
    profile: PhaseProfile | None
    """From the trial with CPU samples; None if there is none."""
    counted: PhaseProfile | None = None
    """From the trial whose system calls were counted; None if there is none."""

    @property
    def samples(self) -> int:
        return sum(self.stacks.values())

    @cached_property
    def stacks(self) -> Mapping[tuple[Frame, ...], int]:
        """Number of samples of each stack, the outermost function first. With a server, `client` or `server` comes
        before all functions."""
        if self.profile is None:
            return {}
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
        for stack, count in self.stacks.items():
            counted[stack[-1][0]] += count
        return _shares(counted)

    def functions(self) -> dict[Frame, float]:
        """Returns the share of the CPU time in each function itself, largest first."""
        counted = Counter[Frame]()
        for stack, count in self.stacks.items():
            counted[stack[-1]] += count
        return _shares(counted)

    @property
    def waits_seen(self) -> int:
        """Number of times that a session of the server was seen busy."""
        if self.profile is None:
            return 0
        return sum((self.profile.wait_events or {}).values())

    def waits(self) -> dict[str, float] | None:
        """Returns the share of each event that the server's busy sessions were seen waiting for, and of `running`,
        largest first; None if unknown."""
        if self.profile is None or self.profile.wait_events is None:
            return None
        return _shares(Counter(self.profile.wait_events))

    def calls(self) -> dict[str, float]:
        """Returns the number of system calls of an item, by name, the most frequent first; empty if unknown."""
        counted = self.counted
        if counted is None or not counted.system_calls or not counted.items:
            return {}
        ordered = sorted(counted.system_calls.items(), key=lambda call: (-call[1], call[0]))
        return {name: count / counted.items for name, count in ordered}


@dataclass(frozen=True)
class ProfileChange:
    """The profiles of one row in two runs."""

    before: RowProfile
    after: RowProfile

    def libraries(self) -> dict[str, tuple[float, float]]:
        """Returns each library's share of the CPU time before and after, those that differ most first."""
        return _order_changes(self.before.libraries(), self.after.libraries())

    def functions(self) -> dict[Frame, tuple[float, float]]:
        """Returns each function's share of the CPU time before and after, those that differ most first."""
        return _order_changes(self.before.functions(), self.after.functions())


def _order_changes(before: Mapping[T, float], after: Mapping[T, float]) -> dict[T, tuple[float, float]]:
    names = dict.fromkeys([*after, *before])
    changes = {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in names}
    return dict(sorted(changes.items(), key=lambda change: -abs(change[1][1] - change[1][0])))


def _shares(counted: Counter[T]) -> dict[T, float]:
    total = counted.total()
    return {name: count / total for name, count in counted.most_common()}


@cache_by_run
def list_profiles(run: Run) -> Sequence[RowProfile]:
    """Returns the profiles of a run's rows, in the order of the phases. Null engines are left out."""
    by_what = {
        (profiled.cell, profiled.what, each.phase): each for profiled in run.profiled for each in profiled.phases
    }
    rows = []
    for phase, (number, cell) in product(run.plan.phases, enumerate(run.cells)):
        sampled, counted = (by_what.get((number, what, phase)) for what in (CPU, CALLS))
        if (sampled or counted) and not is_reference(run.cells, cell):
            rows.append(RowProfile(cell, phase, sampled, counted))
    return rows


def match_profiles(before: Run, after: Run) -> list[ProfileChange]:
    """Returns the profiles of the rows that have one in both runs."""
    rows_before, rows_after = matched_rows([before, after])
    earlier, later = _by_row(before), _by_row(after)
    changes = []
    for key, row in rows_after.items():
        if key not in rows_before:
            continue
        old = earlier.get((id(rows_before[key].cell), row.phase))
        new = later.get((id(row.cell), row.phase))
        if old is not None and new is not None:
            changes.append(ProfileChange(old, new))
    return changes


def _by_row(run: Run) -> dict[tuple[int, str], RowProfile]:
    return {(id(profile.cell), profile.phase): profile for profile in list_profiles(run) if profile.samples}
