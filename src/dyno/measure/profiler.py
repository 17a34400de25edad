"""Profiles the phases of a trial: samples the stacks of its clients and of its server, and what the server's sessions
wait for, while the clients work; or counts their system calls."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from dyno.contracts.profile import (
    CALLS,
    CLIENT,
    MOST_FRAMES,
    MOST_STACKS,
    OTHERS,
    SERVER,
    Frame,
    PhaseProfile,
    Stacks,
)
from dyno.contracts.suite import Job
from dyno.host.perf import CannotProfile, Recording
from dyno.host.strace import CallCounter
from dyno.host.usage import with_descendants
from dyno.measure.wait_sampler import WaitSampler

MOST_BYTES = 80_000
"""Size of a row's profiles in the run file, about: the stacks of all phases, of client and server."""
FRAME_BYTES, NUMBER_BYTES = 10, 4
"""Bytes of JSON of a function besides its names, and of a number."""


class Profiler:
    """The profiles of a trial's phases. `what`: CPU or CALLS."""

    def __init__(self, job: Job, phases: int, what: str) -> None:
        self._job = job
        self._home = job.home
        self._what = what
        self._counter: CallCounter | None = None
        # Half of it for the client, half for the server.
        self._most_bytes = MOST_BYTES // (2 * max(phases, 1))
        self._recordings: dict[str, Recording] = {}
        self._waits: WaitSampler | None = None
        self._has_waits = job.server is not None and job.spec.waits is not None
        self._trouble: list[str] = []
        self._lasting_trouble: list[str] = []
        """Trouble of the whole trial, which is reported once."""

    def begin(self, server: Sequence[int]) -> None:
        """Begins to record. `server`: ids of the server's processes."""
        served = with_descendants(server)
        clients = [pid for pid in with_descendants([os.getpid()]) if pid not in served]
        if self._what == CALLS:
            self._begin_counting([*clients, *served])
            return
        # First, so that the sampler's process and its session on the server are in no recording.
        self._begin_waits()
        # The client last: its recording includes processes that this one starts later, such as another perf.
        for side, pids in ((SERVER, served), (CLIENT, clients)):
            if not pids:
                continue
            try:
                self._recordings[side] = Recording(pids, self._home.with_suffix(f".{side}"))
            except CannotProfile as error:
                self._trouble.append(f"{side}: {error}")

    def _begin_waits(self) -> None:
        if not self._has_waits:
            return
        try:
            self._waits = WaitSampler(self._job)
        except CannotProfile as error:
            # It would fail in each phase.
            self._has_waits = False
            self._lasting_trouble.append(f"waits: {error}")

    def _begin_counting(self, pids: Sequence[int]) -> None:
        try:
            self._counter = CallCounter(pids, self._home.with_suffix(f".{CALLS}"))
        except CannotProfile as error:
            self._trouble.append(str(error))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Ends the recording at the end of the block."""
        try:
            yield
        finally:
            for recording in self._recordings.values():
                recording.stop()
            if self._waits is not None:
                self._waits.stop()
            if self._counter is not None:
                self._counter.stop()

    def read(self, phase: str, items: int) -> tuple[PhaseProfile, list[str]]:
        """Returns the profile of the phase that was recorded, and a line for each part that is missing."""
        sides: dict[str, Stacks] = {}
        for side, recording in self._recordings.items():
            try:
                sides[side] = reduce_stacks(recording.read(), self._most_bytes)
            except CannotProfile as error:
                self._trouble.append(f"{side}: {error}")
        calls = None
        if self._counter is not None:
            try:
                calls = self._counter.read()
            except CannotProfile as error:
                self._trouble.append(str(error))
        waits = None
        if self._waits is not None:
            try:
                waits = self._waits.read()
            except CannotProfile as error:
                self._trouble.append(f"waits: {error}")
        missing = [*self._lasting_trouble, *(f"{phase}, {line}" for line in self._trouble)]
        self._recordings = {}
        self._counter = None
        self._waits = None
        self._trouble = []
        self._lasting_trouble = []
        profile = PhaseProfile(
            phase=phase,
            items=items,
            client=sides.get(CLIENT),
            server=sides.get(SERVER),
            wait_events=waits,
            system_calls=calls,
        )
        return profile, missing


def reduce_stacks(samples: Mapping[tuple[Frame, ...], int], most_bytes: int) -> Stacks:
    """Returns the most frequent stacks, as many as fit into about `most_bytes` of JSON. Of the others it has only the
    functions that ran, so that each function's share of the samples stays right."""
    numbers: dict[Frame, int] = {}
    chosen = Counter[tuple[Frame, ...]]()
    left = Counter[tuple[Frame, ...]]()
    used = 0
    # Half of the space is for the functions of the stacks that don't fit.
    for stack, count in sorted(samples.items(), key=lambda item: (-item[1], item[0])):
        size = _size(stack, numbers)
        too_many = len(numbers) + len(stack) > MOST_FRAMES / 2 or len(chosen) >= MOST_STACKS / 2
        if left or too_many or used + size > most_bytes / 2:
            left[stack[-1:]] += count
            continue
        used += size
        chosen[stack] += count
        for frame in stack:
            numbers.setdefault(frame, len(numbers))
    for stack, count in sorted(left.items(), key=lambda item: (-item[1], item[0])):
        size = _size(stack, numbers)
        if used + size > most_bytes or len(numbers) >= MOST_FRAMES - 1 or len(chosen) >= MOST_STACKS - 1:
            stack = ((OTHERS, OTHERS),)
        else:
            used += size
        chosen[stack] += count
        for frame in stack:
            numbers.setdefault(frame, len(numbers))
    return Stacks(
        frames=list(numbers),
        stacks=[[numbers[frame] for frame in stack] for stack in chosen],
        counts=list(chosen.values()),
    )


def _size(stack: Iterable[Frame], known: Mapping[Frame, int]) -> int:
    """Returns about the number of bytes that a stack adds to the JSON."""
    stack = list(stack)
    added = sum(len(library) + len(function) + FRAME_BYTES for library, function in set(stack) - known.keys())
    return added + NUMBER_BYTES * (len(stack) + 2)
