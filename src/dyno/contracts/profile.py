"""Measurements of a profiled trial, by phase: stacks of CPU samples, waits of a server, numbers of system calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from dyno.contracts.decoded_types import Count, Positive, Text

OTHERS = "(others)"
"""Library and function of the samples whose functions were left out."""
MOST_FRAMES = 10_000
MOST_STACKS = 10_000
MOST_DEPTH = 128
"""Maximum number of a profile's functions, of its stacks, and of a stack's functions."""

CPU, CALLS = "processor", "system_calls"
"""What a profiled trial collects: stacks of CPU samples, or the number of system calls, which takes much time."""

CLIENT, SERVER = "client", "server"
"""The sides of a profile."""

Frame = tuple[str, str]
"""A library and a function in it."""


class Stacks(Struct, frozen=True):
    """CPU samples of processes, by stack."""

    frames: Annotated[list[tuple[Text, Text]], Meta(max_length=MOST_FRAMES)]
    """Libraries, each with a function in it."""
    stacks: Annotated[
        list[Annotated[list[Count], Meta(min_length=1, max_length=MOST_DEPTH)]], Meta(max_length=MOST_STACKS)
    ]
    """Positions in `frames`, from the outermost function to the one that ran."""
    counts: Annotated[list[Positive], Meta(max_length=MOST_STACKS)]
    """Number of samples of each stack."""

    @property
    def samples(self) -> int:
        return sum(self.counts)

    def named(self) -> Iterator[tuple[list[Frame], int]]:
        """Yields each stack with its number of samples."""
        for stack, count in zip(self.stacks, self.counts, strict=True):
            yield [self.frames[at] for at in stack], count


class PhaseProfile(Struct, frozen=True, kw_only=True):
    """The profile of a phase. Null is unknown."""

    phase: Text
    items: Count
    """Number of items that the phase did while it was profiled."""
    client: Stacks | None = None
    """CPU samples of the clients' processes, 999 a second of CPU time."""
    server: Stacks | None = None
    """CPU samples of the server's processes; null without a server."""
    wait_events: Mapping[Text, Positive] | None = None
    """Number of times that a busy session of the server was seen waiting for each event, or `running`. Sampled 20
    times a second; null if the server doesn't record it."""
    system_calls: Mapping[Text, Count] | None = None
    """Number of system calls of clients and server, by name."""


class ProfiledTrial(Struct, frozen=True, kw_only=True):
    """A trial after the last block, whose times are in no figure."""

    cell: Count
    what: Text = CPU
    """`processor`, or `system_calls` for a trial whose system calls were counted."""
    outcome: Text
    """As a trial's."""
    why: Text | None = None
    started: Text
    """UTC, ISO 8601."""
    duration_ns: Count
    phases: list[PhaseProfile] = []
    missing: list[Text] = []
    """What could not be profiled, a line each."""


def check_profile(profile: PhaseProfile) -> None:
    """Raises ValueError for stacks that contradict each other."""
    for stacks in (profile.client, profile.server):
        if stacks is None:
            continue
        if len(stacks.stacks) != len(stacks.counts):
            raise ValueError(f"phase {profile.phase}: {len(stacks.stacks)} stacks, but {len(stacks.counts)} counts")
        if any(at >= len(stacks.frames) for stack in stacks.stacks for at in stack):
            raise ValueError(f"phase {profile.phase}: a stack has a function that is not listed")
