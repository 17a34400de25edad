"""One trial of the suite volume: what is asked of the tool in each phase, and what is told beside its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase, Refused
from dyno.contracts.suite import Job, Report, Reported, Work, Workload
from dyno.suites._shared.conformance import brief
from dyno.suites.volume import conformance, steady
from dyno.suites.volume.conformance import BRIEF, SIZE
from dyno.suites.volume.params import COPIES, FLUSH, PATTERNS, SINGLE, UNWRITTEN, WARM_UP
from dyno.suites.volume.port import IO, Volume

SECOND_NS = 1_000_000_000
LEAST_ROUND_NS, ROUNDS = 250_000_000, 60
"""Of a warm-up: as many rounds, if each has at least this."""
MOST_COPIED = 8_192
"""Blocks that dd writes: it knows no time, and waits for each of them with oflag=direct."""


class VolumeWorkload(Workload):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        self._job, self._engine = job, job.open(job.home)
        params = {name: int(value) for name, value in job.params.items()}
        self._block, self._depth, self._jobs = params["block_size"], params["depth"], params["jobs"]
        self._mix, self._warm_ns = params["mix"], params["warm"] * SECOND_NS
        self._area = params["area"] // self._block * self._block
        if self._area < self._block * self._jobs:
            raise Refused(f"area={params['area']} is less than a block of each job")
        self._laid = False
        self._made: dict[str, str] = {}

    # -- the volume -----------------------------------------------------------------------------------------

    def conformance(self) -> None:
        if not self._job.spec.floor:
            with self.connect() as volume:
                volume.fits(self._area)
            checks = {name: partial(check, size=min(SIZE, self._area)) for name, check in BRIEF.items()}
            brief(checks, lambda name: self.connect(), self._job.tier)

    @contextmanager
    def connect(self) -> Iterator[Volume]:
        with closing(self._job.port(self._engine)) as volume:
            yield volume

    def engine(self) -> Engine:
        return self._engine

    def release(self) -> None:
        pass

    def place(self) -> Path | None:
        with self.connect() as volume:
            return volume.place()

    def close(self) -> None:
        self._engine.close()

    def prepare(self, phase: Phase) -> None:
        if phase.name in SINGLE and (self._depth, self._jobs) != (1, 1):
            raise Absent("it has one request in flight, and is measured where depth and jobs are 1")
        if self._depth > 1 and self._engine.settings().get("waits"):
            raise Absent("this ioengine waits for each request: there is no depth but 1")
        if phase.name in COPIES:
            return
        with self.connect() as volume:
            if phase.name in (UNWRITTEN, WARM_UP):
                self._made[phase.name], self._laid = volume.fresh(self._area), False
            elif not self._laid:
                volume.lay(self._area)
                self._laid = True

    # -- the phases -----------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        call: Callable[[int], Report]
        io = self._io(phase)
        if phase.name in COPIES:
            size = min(self._area, MOST_COPIED * self._block)
            call = partial(self._copied, port, COPIES[phase.name], size)
        elif phase.name == WARM_UP:
            call = partial(self._warmed, port, io)
        else:
            call = partial(self._done, port, io)
        floor = self._job.spec.floor
        yield Reported(call, lambda report: 0 if floor else conformance.whole(report, io))

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

    def _done(self, volume: Volume, io: IO, limit_ns: int) -> Report:
        return volume.run(io, limit_ns, SECOND_NS)

    def _warmed(self, volume: Volume, io: IO, limit_ns: int) -> Report:
        """Not by the budget of a phase, which is the same for those that are steady from the begin on: but a null
        engine does not become so either."""
        longest = min(self._warm_ns, limit_ns) if self._job.spec.floor else self._warm_ns
        lasts = max(LEAST_ROUND_NS, longest // ROUNDS)
        seen: list[Any] = []

        def enough(rounds: Any) -> bool:
            seen[:] = rounds
            return steady.enough(rounds, self._block, self._area)

        report = volume.run(io, longest, lasts, enough)
        told = {} if self._job.spec.floor else steady.facts(seen, self._block, self._area)
        return replace(report, facts={**report.facts, **told, "round_ns": lasts})

    def _copied(self, volume: Volume, how: str, size: int, limit_ns: int) -> Report:
        return volume.copy(how, self._block, size)

    # -- afterwards -----------------------------------------------------------------------------------------

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        return items * self._block if phase.writes and not phase.kinds else None

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        made = self._made.get(phase.name)
        return {} if made is None else {"fresh_by": made}
