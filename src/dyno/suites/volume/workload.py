"""One trial of the suite volume: the tool's job in each phase, and the facts beside its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase, Refused
from dyno.contracts.suite import Job, Report, Reported, Work, Workload
from dyno.suites._shared.store import brief
from dyno.suites.volume import (
    COPIES,
    FLUSH,
    IO,
    PATTERNS,
    SINGLE,
    UNWRITTEN,
    WARM_UP,
    Round,
    Volume,
    conformance,
    steady,
)
from dyno.suites.volume.conformance import BRIEF, SIZE

SECOND_NS = 1_000_000_000
LEAST_ROUND_NS, ROUNDS = 250_000_000, 60
"""A warm-up has 60 rounds, or fewer of this length."""
MOST_COPIED = 8_192
"""Largest number of blocks that dd writes: it has no time limit, and waits for each with oflag=direct."""


class VolumeWorkload(Workload):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        self._job, self._engine = job, job.open(job.home)
        params = {name: int(value) for name, value in job.params.items()}
        self._block, self._depth, self._jobs = params["block_size"], params["depth"], params["jobs"]
        self._mix, self._warm_ns = params["mix"], params["warm"] * SECOND_NS
        self._area = params["area"] // self._block * self._block
        if self._area < self._block * self._jobs:
            raise Refused(f"area={params['area']} is less than a block for each job")
        self._laid = False
        self._fresh_by: dict[str, str] = {}

    # -- the volume -----------------------------------------------------------------------------------------

    def conformance(self) -> None:
        if not self._job.spec.floor:
            with self.connect() as volume:
                volume.fits(self._area)
            checks = {name: partial(check, size=min(SIZE, self._area)) for name, check in BRIEF.items()}
            brief(checks, lambda name: self.connect(), self._job.tier)

    def connect(self) -> AbstractContextManager[Volume]:
        return closing(self._job.port(self._engine))

    def engine(self) -> Engine:
        return self._engine

    def release(self) -> None:
        return None

    def place(self) -> Path | None:
        with self.connect() as volume:
            return volume.place()

    def close(self) -> None:
        self._engine.close()

    def prepare(self, phase: Phase) -> None:
        if phase.name in SINGLE and (self._depth, self._jobs) != (1, 1):
            raise Absent("it has one request in flight: measured with depth=1 and jobs=1 only")
        if self._depth > 1 and self._engine.settings().get("waits"):
            raise Absent("this ioengine waits for each request: only depth=1 is possible")
        if phase.name in COPIES:
            return
        with self.connect() as volume:
            if phase.name in (UNWRITTEN, WARM_UP):
                self._fresh_by[phase.name], self._laid = volume.fresh(self._area), False
            elif not self._laid:
                volume.lay(self._area)
                self._laid = True

    # -- the phases -----------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        call: Callable[[int], Report]
        io = self._io(phase)
        if phase.name in COPIES:
            size = min(self._area, MOST_COPIED * self._block)
            call = partial(self._copy, port, COPIES[phase.name], size)
        elif phase.name == WARM_UP:
            call = partial(self._warm_up, port, io)
        else:
            call = partial(port.run, io, round_ns=SECOND_NS)
        floor = self._job.spec.floor
        yield Reported(call, lambda report: 0 if floor else conformance.check_report(report, io))

    def _io(self, phase: Phase) -> IO:
        return IO(
            pattern=PATTERNS.get(phase.name, "write"),
            block_size=self._block,
            size=self._area,
            depth=self._depth,
            jobs=self._jobs,
            read_percent=self._mix,
            flush=phase.name == FLUSH,
            seed=self._job.seed,
        )

    def _copy(self, volume: Volume, how: str, size: int, limit_ns: int) -> Report:
        return volume.copy(how, self._block, size)

    def _warm_up(self, volume: Volume, io: IO, limit_ns: int) -> Report:
        """Runs until the rate is steady, for the parameter `warm` rather than the phase's budget; a null engine never
        becomes steady and keeps to the budget."""
        longest = min(self._warm_ns, limit_ns) if self._job.spec.floor else self._warm_ns
        round_ns = max(LEAST_ROUND_NS, longest // ROUNDS)
        rounds: list[Round] = []

        def enough(so_far: Sequence[Round]) -> bool:
            rounds[:] = so_far
            return steady.enough(so_far, self._block, self._area)

        report = volume.run(io, longest, round_ns, enough)
        facts = {} if self._job.spec.floor else steady.facts(rounds, self._block, self._area)
        return replace(report, facts={**report.facts, **facts, "round_ns": round_ns})

    # -- afterwards -----------------------------------------------------------------------------------------

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        return items * self._block if phase.writes and not phase.kinds else None

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        fresh_by = self._fresh_by.get(phase.name)
        return {} if fresh_by is None else {"fresh_by": fresh_by}


WORKLOAD = VolumeWorkload
