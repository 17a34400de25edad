"""Made-up profiles of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyno.contracts.profile import PhaseProfile, ProfiledTrial, Stacks
from dyno.results import Run

Counts = Mapping[str, int]
"""Numbers of samples by stack, as 'lib`outer;lib`inner'."""


def a_stacks(counts: Counts) -> Stacks:
    stacks = [[tuple(frame.split("`")) for frame in stack.split(";")] for stack in counts]
    frames = list(dict.fromkeys((library, function) for stack in stacks for library, function in stack))
    numbered = [[frames.index((library, function)) for library, function in stack] for stack in stacks]
    return Stacks(frames=frames, stacks=numbered, counts=list(counts.values()))


def with_profiles(
    run: Run,
    phase: str,
    of_cells: Sequence[Counts],
    server: Counts | None = None,
    waits: Mapping[str, int] | None = None,
) -> Run:
    """The run with a profiled trial of each of the first cells. `server`, `waits`: samples of each cell's server."""
    profiled = tuple(
        ProfiledTrial(
            cell=number,
            outcome="ok",
            started="2026-01-01T00:00:00+00:00",
            duration_ns=10**9,
            phases=[
                PhaseProfile(
                    phase=phase,
                    items=1000,
                    client=a_stacks(counts),
                    server=None if server is None else a_stacks(server),
                    wait_events=waits,
                )
            ],
        )
        for number, counts in enumerate(of_cells)
    )
    return replace(run, profiled=profiled)
