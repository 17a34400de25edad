"""The tally of a client in a phase, and the merging of several clients' tallies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, median
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dyno import fields
from dyno.contracts.declarations import checked_count, checked_text
from dyno.contracts.equality import positions
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Fact, Phase, Wrong
from dyno.contracts.pace import FOREVER_NS, LIBRARY_LOAD, Pace
from dyno.contracts.rank import rank
from dyno.contracts.suite import Failure, Operations, Report, Reported, Workload
from dyno.fields import FIELDS, Counted
from dyno.host.usage import NOTHING, Usage, measure_own, of_ended_children
from dyno.measure.loop import Times
from dyno.measure.series import Series

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Machine, Point

Good = slice | NDArray[np.bool_]
"""Selects the operations that succeeded."""
ALL = slice(None)
Ordered = TypeVar("Ordered", int, tuple[int, int])
ZERO = ("operations", "items", "elapsed_ns", "busy_ns", "wall_ns", "errors", "checked")
"""Counts that begin at 0."""


def select_succeeded(answers: Sequence[object], failures: int) -> Good:
    """Selects the operations that did not raise. Raises Wrong for an answer that is a Failure although its operation
    did not raise."""
    failed = positions(answers, Failure)
    if len(failed) != failures:
        raise Wrong("an answer says of itself that its operation raised, and it did not")
    if not failures:
        return ALL
    good = np.ones(len(answers), dtype=np.bool_)
    good[failed] = False
    return good


def check_answers(check: Callable[..., int], *arguments: object) -> int:
    """Returns the number of compared answers. Raises Wrong, also for an answer of a shape that the check can't
    handle."""
    try:
        return check(*arguments)
    except (Wrong, MemoryError):
        raise
    except Exception as error:
        raise Wrong(f"an answer that can't be checked: {type(error).__name__}: {error}") from error


class Tally(Counted):
    """The work of one client, or of all together, in a phase: the counts of a sample, and recorders for the
    latencies."""

    def __init__(self, **counts: Any) -> None:
        super().__init__(**{**dict.fromkeys(ZERO, 0), "ended_by": "count", **counts})
        self.latency = Recorder()
        self.by_kind: dict[str, Recorder] = {}
        self.by_part: dict[str, Recorder] = {}
        self.by_machine: dict[str, Recorder] = {}
        self.machines: Mapping[str, Machine] = {}
        """What `measure.remote_load` tells of each machine with clients."""
        self.response: Recorder | None = None
        self.late: Recorder | None = None
        self.slowest: tuple[int, int] | None = None
        """Latency of the slowest operation, and its begin, counted from the start of the phase."""
        self.series = Series()
        self.usage = NOTHING
        self.usage_until: Usage | None = None
        """This process's own counters at the end of `usage`, if the clients were its threads."""
        self.peak_bytes: int | None = None
        """Maximum resident memory of the clients' processes during the phase, each at its own peak."""
        self.child_peak_bytes: int | None = None
        """Maximum resident memory of the largest program that an operation ran. If not None, it replaces
        `peak_bytes`."""
        self.warm = True
        """Whether the untimed round that the phase requested was completed."""
        self.check_ns = 0
        """Time of checks of answers, which is not part of elapsed_ns. For several clients, the longest."""
        self.paused = (0, 0)
        """User and system CPU time of the client's thread in pauses, for inputs and checks."""
        self.paused_waits = 0
        self.paused_core_wait_ns = 0
        """Number of times that the client's thread gave up its core in pauses, to wait."""
        self.full_operations = 0
        """Operations of a closed loop that ended while all clients were at work..."""
        self.full_ns = 0
        """...and the time in which they all were."""
        self.last_begun_ns = 0
        """When this client's last operation began, counted from the start of the phase."""
        self.lag_ns = 0
        """By how much this client's last operation of an open loop began after it was due."""
        self.by_client: list[int] = []
        """Operations of each client that had any to do."""
        self.pause_process_ns = self.pause_server_ns = 0
        """CPU time of the whole process, and of the server, in pauses."""
        self.points: tuple[Point, ...] = ()
        """The series that an outside tool reported."""
        self.load = LIBRARY_LOAD
        """Whether the engine's library or native load sent the operations."""
        self.processes = 1
        """Processes of the clients."""
        self.places = 1
        """Operations that each client has under way at once."""
        self.facts: Mapping[str, Fact] = {}
        """Facts that an outside tool reported."""

    @property
    def pause_cpu_ns(self) -> int:
        """CPU time in pauses that inputs and checks did not use: that of the engine's background threads and of its
        server."""
        # A difference may be negative: the CPU time of a process that ended meanwhile is missing.
        return max(self.pause_process_ns - sum(self.paused), 0) + max(self.pause_server_ns, 0)

    @property
    def least_served(self) -> int | None:
        """Operations that no client of the least served tenth exceeded; None for a single client."""
        counts = sorted(self.by_client)
        if len(counts) > 1:
            return counts[rank(10, len(counts)) - 1]
        return None

    @property
    def fair_share(self) -> int | None:
        """Operations of a client if all were served alike: the larger of mean and median, since few clients may have
        got everything."""
        counts = self.by_client
        if len(counts) > 1:
            return int(max(fmean(counts), median(counts)))
        return None

    @property
    def client_peak_bytes(self) -> int | None:
        if self.child_peak_bytes is None:
            return self.peak_bytes
        return self.child_peak_bytes

    def merge(self, other: Tally) -> None:
        """Merges the tally of another client that ran at the same time."""
        for each in FIELDS:
            if each.merge:
                merged = _MERGES[each.merge](getattr(self, each.tally), getattr(other, each.tally))
                setattr(self, each.tally, merged)
        self.child_peak_bytes = _largest(self.child_peak_bytes, other.child_peak_bytes)
        self.full_operations += other.full_operations
        self.by_client += other.by_client
        self.full_ns = max(self.full_ns, other.full_ns)
        self.check_ns = max(self.check_ns, other.check_ns)
        self.warm = self.warm and other.warm
        self.paused = (self.paused[0] + other.paused[0], self.paused[1] + other.paused[1])
        self.paused_waits += other.paused_waits
        self.paused_core_wait_ns += other.paused_core_wait_ns
        self.pause_process_ns += other.pause_process_ns
        self.pause_server_ns += other.pause_server_ns

    def check(self, check: Callable[..., int], *arguments: object) -> None:
        """Runs a check, and adds its number of answers and its time. Raises Wrong."""
        begin = monotonic_ns()
        try:
            self.checked += check_answers(check, *arguments)
        finally:
            self.check_ns += monotonic_ns() - begin

    def count(self, elapsed_ns: int, busy_ns: int, failures: Sequence[Failure]) -> None:
        self.elapsed_ns += elapsed_ns
        self.busy_ns += busy_ns
        self.errors += len(failures)
        if failures and self.first_error is None:
            self.first_error = failures[0].error

    def count_full(self, ends: Times, full_ns: int) -> None:
        """Counts operations of a closed loop that ended in the first `full_ns` of a batch, in which all clients were
        at work. `ends` counts from the batch's start."""
        self.full_operations += int((ends <= full_ns).sum())

    def exclude_idle_time(self, clients: int) -> None:
        """Reduces the elapsed time to what all operations would have taken at the rate that the clients reached while
        all of them were at work.

        At the end of a batch, clients wait for the last answers of others, so fewer operations are under way than
        there are clients, and the time belongs to no closed loop of so many. The rate is one that was reached: that
        of an interval in which each client had all its operations under way. It is used if at least half of the
        operations ended in such intervals. No client with one operation at a time is busy for longer than the result.
        """
        if 2 * self.full_operations < max(self.operations, 1):
            return
        at_full_rate_ns = self.full_ns * self.operations // self.full_operations
        self.elapsed_ns = min(self.elapsed_ns, max(at_full_rate_ns, -(-self.busy_ns // (clients * self.places))))
        # The loop of operations in flight is busy for all of the time.
        self.busy_ns = min(self.busy_ns, clients * self.elapsed_ns)

    def add_details(self, work: Operations, answers: Sequence[object]) -> None:
        """Adds the bytes that a slice's operations moved, and the parts of their latencies, if the suite tells them.
        Failed operations are left out."""
        if work.sizes is None and work.parts is None:
            return
        good = [answer for answer in answers if type(answer) is not Failure]
        if callable(work.sizes):
            self.bytes = (self.bytes or 0) + (sum(work.sizes(good)) if good else 0)
        elif work.sizes is not None:
            sizes = zip(work.sizes, answers, strict=False)
            moved = sum(size for size, answer in sizes if type(answer) is not Failure)
            self.bytes = (self.bytes or 0) + moved
        if work.parts is not None and good:
            for part, spans in work.parts(good).items():
                self.by_part.setdefault(part, Recorder()).add(spans)

    def add_spans(self, ends: Times, spans: Times) -> None:
        """Adds operations that succeeded, in the order of their ends, which count from the start of the phase."""
        if not len(ends):
            return
        self.latency.add(spans)
        self.series.add(ends, spans)
        at = int(spans.argmax())
        self.slowest = max(self.slowest or (0, 0), (int(spans[at]), int(ends[at] - spans[at])))

    def add_kinds(self, kinds: Sequence[str], spans: Times, good: Good) -> None:
        """Adds the latencies of operations that succeeded, by the kind of each operation."""
        names, spans = np.asarray(kinds)[good], spans[good]
        for kind in dict.fromkeys(kinds):
            self.by_kind.setdefault(kind, Recorder()).add(spans[names == kind])

    def add_open(self, starts: Times, ends: Times, due: Times, free_ns: int, good: Good = ALL) -> int:
        """Adds a slice of an open loop. `due`, `starts` and `ends` are on one clock. Response times are those of the
        operations that succeeded.

        An operation is late by the time that it began after its punctual start, the start that it would have had if
        Dyno had never been late: when it was due and the engine was done with the operations before it. So an
        operation that waits behind a late one is late too. `free_ns` is when the engine would have been free for the
        first operation. Returns when it would have been done with the last.
        """
        self.response, self.late = self.response or Recorder(), self.late or Recorder()
        self.response.add((ends - due)[good])
        spans = ends - starts
        before = np.cumsum(spans) - spans
        punctual = before + np.maximum.accumulate(np.maximum(due - before, free_ns))
        self.late.add(np.maximum(starts - punctual, 0))
        if len(spans):
            return int(punctual[-1] + spans[-1])
        return free_ns

    def judge(self, pace: Pace, due: Times, responses: Times, good: Good) -> None:
        """Counts the operations of an open loop that broke each limit: they failed, or were answered too late. `due`
        counts from the start of the phase."""
        counted = due >= pace.settling_ns
        failed = np.ones(len(due), dtype=np.bool_)
        failed[good] = False
        self.judged = (self.judged or 0) + int(counted.sum())
        late = {
            name: failed | (responses > (FOREVER_NS if most is None else most)) for name, most in pace.limits.items()
        }
        self.broken = _sums(self.broken, {name: int((broke & counted).sum()) for name, broke in late.items()})

    def judge_unstarted(self, pace: Pace, count: int) -> None:
        """Counts operations that were due and never began. They broke every limit."""
        self.judged = (self.judged or 0) + count
        self.broken = _sums(self.broken, dict.fromkeys(pace.limits, count))

    def add_due(self, responses: Times, late: Times) -> None:
        """Adds operations of an open loop that do not wait for each other: the response times of those that
        succeeded, and how late each began."""
        self.response, self.late = self.response or Recorder(), self.late or Recorder()
        self.response.add(responses)
        self.late.add(late)


def _sum(mine: int | None, other: int | None) -> int | None:
    if mine is None:
        return other
    return mine + (other or 0)


def _largest(mine: Ordered | None, other: Ordered | None) -> Ordered | None:
    return max((value for value in (mine, other) if value is not None), default=None)


def _sums(mine: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: mine.get(name, 0) + other.get(name, 0) for name in {**mine, **other}}


def _merge_values(mine: Any, other: Any) -> object:
    """Merges recorders, tables of recorders by name, or series; None if both are None."""
    if isinstance(mine, dict):
        for name, recorder in other.items():
            mine.setdefault(name, Recorder()).merge(recorder)
    elif mine is None or other is None:
        return mine or other
    else:
        mine.merge(other)
    return mine


_MERGES: Mapping[str, Callable[[Any, Any], object]] = {
    fields.SUM: _sum,
    fields.SUM_OF_ALL: lambda mine, other: None if mine is None or other is None else mine + other,
    fields.SUMS: _sums,
    fields.LONGEST: lambda mine, other: max(mine or 0, other or 0),
    fields.FIRST: lambda mine, other: mine or other,
    fields.ANY: lambda mine, other: mine or other,
    # 'budget' and 'duration' exclude each other; 'count' yields to all others.
    fields.REASON: partial(max, key=("count", "budget", "duration", "checks").index),
    fields.SLOWEST: _largest,
    fields.TOGETHER: _merge_values,
}


# -- a phase that an outside tool executes and measures -----------------------------------------------------


def run_reported(workload: Workload, phase: Phase, pace: Pace, ready: Callable[[], object]) -> Tally:
    """Runs the tool for the whole phase, with the tool's own clients and at its own pace: a rate has no effect."""
    with workload.connect() as port:
        (work,) = workload.work(phase, port, 0, 1, 0)
        if not isinstance(work, Reported):
            raise TypeError(f"phase {phase.name} is declared `reported`, but its work is not")
        ready()
        before = of_ended_children()
        mine = measure_own()
        begin = monotonic_ns()
        report = work.call(pace.limit_ns)
        wall_ns, used = monotonic_ns() - begin, of_ended_children() - before
        tally = _tally(report, f"the report of phase {phase.name}")
        tally.wall_ns = wall_ns
        user, system = report.cpu_ns or (used.user_ns, used.system_ns)
        # The kernel adds the bytes of a child that has ended to its parent's.
        of_calls = measure_own() - mine
        tally.usage = replace(
            NOTHING,
            user_ns=user,
            system_ns=system,
            read_bytes=of_calls.read_bytes,
            core_wait_ns=None,
            device_wait_ns=None,
        )
        tally.usage = replace(tally.usage, **report.used)
        try:
            tally.checked = work.check(report)
        except Wrong as wrong:
            tally.void = str(wrong)
    return tally


def _tally(report: Report, where: str) -> Tally:
    names = ("operations", "items", "elapsed_ns", "errors")
    counts = {name: checked_count(getattr(report, name), f"{where}: {name}") for name in names}
    tally = Tally(
        **counts,
        busy_ns=counts["elapsed_ns"],
        first_error=None if report.first_error is None else checked_text(report.first_error, f"{where}: first_error"),
        bytes=None if report.bytes is None else checked_count(report.bytes, f"{where}: bytes"),
        reported_by=None if report.own else checked_text(report.tool, f"{where}: tool"),
    )
    tally.facts, tally.child_peak_bytes = report.facts, report.peak_bytes
    tally.latency = _record_values(report.latencies)
    tally.by_kind = {kind: _record_values(values) for kind, values in report.by_kind.items()}
    tally.by_part = {part: _record_values(values) for part, values in report.by_part.items()}
    tally.points = tuple(_check_point(point, f"{where}: series") for point in report.series)
    return tally


def _check_point(point: Mapping[str, int | None], where: str) -> Point:
    """Returns a point that a tool reported. Raises the errors of `checked_count`."""

    def check(name: str) -> int:
        return checked_count(point.get(name), f"{where}: {name}")

    return {
        "from_ns": check("from_ns"),
        "interval_ns": check("interval_ns"),
        "operations": check("operations"),
        "p50_ns": None if point.get("p50_ns") is None else check("p50_ns"),
        "p99_ns": check("p99_ns"),
    }


def _record_values(values: Iterable[tuple[int, int]]) -> Recorder:
    recorder = Recorder()
    for value_ns, times in values:
        recorder.add_many(value_ns, times)
    return recorder
