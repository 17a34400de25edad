"""Trial of the suite `volume`: conformance checks, the test for a steady rate, and the job of each phase."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import linear_regression, mean

from dyno.contracts.model import Absent, Fact, Phase, Refused, Tier, Wrong
from dyno.contracts.roles import PayloadWorkload, PlacedWorkload
from dyno.contracts.suite import Job, Opened, Report, Reported, Work, by_name
from dyno.suites._shared.store import OnStore, brief
from dyno.suites.volume import COPIES, FLUSH, IO, MIXED, RANDOM, SINGLE, UNWRITTEN, WARM_UP, WHOLE, Round, Volume

SECOND_NS = 1_000_000_000
LEAST_ROUND_NS, ROUNDS = 250_000_000, 60
"""Minimum length of a round, and number of rounds in a warm-up. A short warm-up has fewer rounds."""
MIB = 1 << 20
WHOLE_MOST = 32
"""Jobs of a pass over the whole area, and their depth. Smaller areas have fewer."""
MOST_COPIED = 8_192
"""Maximum number of blocks below 1 MiB that dd copies, since it has no time limit and waits for each block with
oflag=direct."""

WINDOW = 5
RANGE = 0.20
SLOPE = 0.10
"""A rate is steady if the last five rounds lie within 20 % of their mean, and their regression line rises or falls by
at most 10 % of it. This is the test of the Solid State Storage Performance Test Specification (SNIA, 2020). SNIA's
rounds last at least a minute; here they can be shorter."""


def explain_unsteady(rounds: Sequence[Round], block_size: int, size: int) -> str | None:
    """Returns why a warm-up is not steady; None if it is: every block was written before the last five rounds, and
    their rate is steady. fio writes each block once before it writes any block again."""
    last = [each.per_second for each in rounds[-WINDOW:]]
    middle = 0.0
    if len(last) == WINDOW:
        middle = mean(last)
    if not middle or sum(each.operations for each in rounds[:-WINDOW]) * block_size < size:
        return f"not every block was written {WINDOW} rounds before the end"
    if max(last) - min(last) > RANGE * middle:
        return f"the last {WINDOW} rounds differ by more than {RANGE:.0%} of their mean"
    if abs(linear_regression(range(WINDOW), last).slope) * (WINDOW - 1) > SLOPE * middle:
        return f"the last {WINDOW} rounds rise or fall by more than {SLOPE:.0%} of their mean"
    return None


def steady_facts(rounds: Sequence[Round], block_size: int, size: int) -> dict[str, Fact]:
    """Returns the facts of a warm-up. Those that need a steady rate are None if the rate never became steady."""

    def rate(of: Sequence[Round]) -> float | None:
        lasted = sum(each.lasts_ns for each in of)
        if lasted:
            return sum(each.operations for each in of) / lasted * 1e9
        return None

    why = explain_unsteady(rounds, block_size, size)
    whole = why is None
    written = list(accumulate(each.operations * block_size for each in rounds))
    # The first pass ends with the round in which every block has been written once.
    fresh = rate(rounds[: bisect_left(written, size) + 1])
    end = None
    after_ns = None
    if whole:
        end = rate(rounds[-WINDOW:])
        after_ns = rounds[-WINDOW].ends_ns - rounds[-WINDOW].lasts_ns
    penalty = None
    if end is not None and fresh is not None:
        penalty = (1 - fresh / end) * 100
    return {
        "steady": whole,
        "unsteady": why,
        "steady_after_ns": after_ns,
        "fresh_per_second": fresh,
        "steady_per_second": end,
        "penalty_percent": penalty,
        "passes": sum(written[-1:]) / size,
    }


# -- conformance --------------------------------------------------------------------------------------------------

SIZE = MIB
BLOCK = 4096
LIMIT_NS = 100_000_000


def check_report(report: Report, io: IO) -> int:
    """Checks a report. Returns the number of compared figures. Raises Wrong if they contradict each other."""
    if report.first_error is not None:
        raise Wrong(f"{report.tool} ended early: {report.first_error}")
    if report.bytes != report.items * io.block_size:
        raise Wrong(f"{report.items:,} requests of {io.block_size:,} bytes can't have moved {report.bytes:,} bytes")
    if report.latencies and (counted := sum(times for _, times in report.latencies)) != report.operations:
        raise Wrong(f"the histogram has {counted:,} latencies of {report.operations:,} operations")
    if io.mixed and report.by_kind.keys() != MIXED.keys():
        kinds = ", ".join(report.by_kind) or "no kinds"
        raise Wrong(f"the report of a mixed pattern has {kinds}, expected {' and '.join(MIXED)}")
    if report.latencies:
        return 2
    return 1


def integrity(opened: Opened[Volume], tier: Tier | None, size: int = SIZE) -> None:
    """Data reads back as it was written, by the tool's own checksums."""
    with opened("integrity") as volume:
        if (wrong := volume.verify(size)) is not None:
            raise Wrong(f"data did not read back as written: {wrong}")


def reports(opened: Opened[Volume], tier: Tier | None) -> None:
    """The report of each pattern, and of flushed writes, is consistent."""
    with opened("reports") as volume:
        volume.fresh(SIZE)
        volume.lay(SIZE)
        for pattern in ("read", "write", "rw", "randread", "randwrite", "randrw", FLUSH):
            flush = pattern == FLUSH
            io = IO("write" if flush else pattern, BLOCK, SIZE, read_percent=50, flush=flush)
            report = volume.run(io, LIMIT_NS, 0)
            check_report(report, io)
            if not report.operations:
                raise Wrong(f"{pattern}: nothing was done")


def copies(opened: Opened[Volume], tier: Tier | None) -> None:
    """dd copies as much as requested, in each way."""
    with opened("copies") as volume:
        volume.lay(SIZE)
        for how in COPIES.values():
            report = volume.copy(how, BLOCK, SIZE)
            check_report(report, IO("write", BLOCK, SIZE))
            if report.bytes != SIZE:
                raise Wrong(f"dd, {how}: copied {report.bytes:,} bytes, expected {SIZE:,}")


CHECKS = by_name(integrity, reports, copies)
BRIEF = {"integrity": integrity}
"""Checks before measuring. The others take as long as a phase, whose report is checked in the same way."""


# -- trial --------------------------------------------------------------------------------------------------------


class VolumeWorkload(OnStore, PayloadWorkload, PlacedWorkload):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = {name: int(value) for name, value in job.params.items()}
        self._block = params["block_size"]
        self._depth = params["depth"]
        self._jobs = params["jobs"]
        self._mix, self._warm_ns = params["mix"], params["warm"] * SECOND_NS
        self._area = params["area"] // self._block * self._block
        if self._area < self._block * self._jobs:
            raise Refused(f"area={params['area']} is less than a block for each job")
        self._laid = False
        self._fresh_by: dict[str, str] = {}

    def conformance(self) -> None:
        with self.connect() as volume:
            volume.fits(self._area)
        checks = {name: partial(check, size=min(SIZE, self._area)) for name, check in BRIEF.items()}
        brief(checks, lambda name: self.connect(), self._job.tier)

    def place(self) -> Path | None:
        volume: Volume
        with self.connect() as volume:
            return volume.place()

    def prepare(self, phase: Phase) -> None:
        if phase.name in SINGLE and (self._depth, self._jobs) != (1, 1):
            raise Absent("has its own depth and jobs in this phase: measured with depth=1 and jobs=1 only")
        if self._depth > 1 and self.engine().settings().get("waits"):
            raise Absent("has an ioengine that waits for each request: only depth=1 is possible")
        if phase.name in WHOLE and self._block != MIB:
            raise Absent("passes over a volume in requests of 1 MiB: measured with block_size=1m only")
        if phase.name in COPIES and phase.writes:
            return
        with self.connect() as volume:
            if phase.name in (UNWRITTEN, WARM_UP):
                self._fresh_by[phase.name], self._laid = volume.fresh(self._area), False
            elif not self._laid:
                volume.lay(self._area)
                self._laid = True

    def work(self, phase: Phase, port: Volume, client: int, clients: int, round: int) -> Iterator[Work]:
        call: Callable[[int], Report]

        def copy(limit_ns: int) -> Report:
            if self._block >= MIB:
                most = self._area
            else:
                most = MOST_COPIED * self._block
            return port.copy(COPIES[phase.name], self._block, min(self._area, most))

        whole, blocks = phase.name in WHOLE, self._area // self._block
        jobs = self._jobs
        depth = self._depth
        if whole:
            jobs = min(WHOLE_MOST, blocks)
            depth = min(WHOLE_MOST, blocks // jobs)
        pattern = "read"
        if phase.writes:
            pattern = "write"
        if phase.kinds:
            pattern = "rw"
        io = IO(
            pattern="rand" * (phase.name in RANDOM) + pattern,
            block_size=self._block,
            size=self._area,
            depth=depth,
            jobs=jobs,
            read_percent=self._mix,
            flush=phase.name == FLUSH,
            seed=self._job.seed,
            once=whole,
        )
        if phase.name in COPIES:
            call = copy
        elif phase.name == WARM_UP:
            call = partial(self._warm_up, port, io)
        else:
            call = partial(port.run, io, round_ns=SECOND_NS)
        floor = self._job.spec.floor
        yield Reported(call, lambda report: 0 if floor else check_report(report, io))

    def _warm_up(self, volume: Volume, io: IO, limit_ns: int) -> Report:
        """Runs until the rate is steady, but at most for the parameter `warm`, which replaces the phase's budget. A
        null engine never becomes steady, so it keeps to the budget."""
        if self._job.spec.floor:
            longest = min(self._warm_ns, limit_ns)
        else:
            longest = self._warm_ns
        round_ns = max(LEAST_ROUND_NS, longest // ROUNDS)
        rounds: list[Round] = []

        def is_steady(so_far: Sequence[Round]) -> bool:
            rounds[:] = so_far
            return explain_unsteady(so_far, self._block, self._area) is None

        report = volume.run(io, longest, round_ns, is_steady)
        if self._job.spec.floor:
            facts = {}
        else:
            facts = steady_facts(rounds, self._block, self._area)
        return replace(report, facts={**report.facts, **facts, "round_ns": round_ns})

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if phase.writes and not phase.kinds:
            return items * self._block
        return None

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        fresh_by = self._fresh_by.get(phase.name)
        if fresh_by is None:
            return {}
        return {"fresh_by": fresh_by}


WORKLOAD = VolumeWorkload
