"""The tally of a client in a phase, and the merging of several clients' tallies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno import fields
from dyno.contracts.equality import positions
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Fact, Wrong
from dyno.contracts.pace import LIBRARY_LOAD
from dyno.contracts.suite import Failure
from dyno.fields import FIELDS, Counted
from dyno.host.usage import NOTHING
from dyno.measure.loop import Times
from dyno.measure.series import Series

Good = slice | NDArray[np.bool_]
"""Selects the operations that succeeded."""
ALL = slice(None)
START = {
    **dict.fromkeys(("operations", "items", "elapsed_ns", "busy_ns", "wall_ns", "errors", "checked"), 0),
    "ended_by": "count",
}


def succeeded(answers: Sequence[Any], failures: int) -> Good:
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


class Tally(Counted):
    """The work of one client, or of all together, in a phase: the counts of a sample, and recorders for the
    latencies."""

    def __init__(self, **counts: Any) -> None:
        super().__init__(**{**START, **counts})
        self.latency = Recorder()
        self.by_kind: dict[str, Recorder] = {}
        self.by_part: dict[str, Recorder] = {}
        self.response: Recorder | None = None
        self.late: Recorder | None = None
        self.slowest: tuple[int, int] | None = None
        """Latency of the slowest operation, and its begin, counted from the start of the phase."""
        self.series = Series()
        self.usage = NOTHING
        self.warm = True
        """Whether the untimed round that the phase requested was completed."""
        self.check_ns = 0
        """Time of checks of answers, which is not part of elapsed_ns. For several clients, the longest."""
        self.paused = (0, 0)
        """User and system CPU time of the client's thread in pauses, for inputs and checks."""
        self.paused_waits = 0
        """Number of times that the client's thread gave up its core in pauses, to wait."""
        self.last_begun_ns = 0
        """When this client's last operation began, counted from the start of the phase."""
        self.pause_process_ns = self.pause_server_ns = 0
        """CPU time of the whole process, and of the server, in pauses."""
        self.points: tuple[Mapping[str, int], ...] = ()
        """The series that an outside tool reported."""
        self.load = LIBRARY_LOAD
        """Whether the engine's library or native load sent the operations."""
        self.processes = 1
        """Processes of the clients."""
        self.facts: Mapping[str, Fact] = {}
        """Facts that an outside tool reported."""

    @property
    def pause_cpu_ns(self) -> int:
        """CPU time in pauses that inputs and checks did not use: that of the engine's background threads and of its
        server."""
        # A difference may be negative: the CPU time of a process that ended meanwhile is missing.
        return max(self.pause_process_ns - sum(self.paused), 0) + max(self.pause_server_ns, 0)

    def merge(self, other: Tally) -> None:
        """Merges the tally of another client that ran at the same time."""
        for each in FIELDS:
            if each.merge:
                merged = _MERGES[each.merge](getattr(self, each.tally), getattr(other, each.tally))
                setattr(self, each.tally, merged)
        self.check_ns = max(self.check_ns, other.check_ns)
        self.warm = self.warm and other.warm
        self.paused = (self.paused[0] + other.paused[0], self.paused[1] + other.paused[1])
        self.paused_waits += other.paused_waits
        self.pause_process_ns += other.pause_process_ns
        self.pause_server_ns += other.pause_server_ns

    def count(self, elapsed_ns: int, busy_ns: int, failures: Sequence[Failure]) -> None:
        self.elapsed_ns += elapsed_ns
        self.busy_ns += busy_ns
        self.errors += len(failures)
        if failures and self.first_error is None:
            self.first_error = failures[0].error

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
        return int(punctual[-1] + spans[-1]) if len(spans) else free_ns

    def add_due(self, responses: Times, late: Times) -> None:
        """Adds operations of an open loop that do not wait for each other: the response times of those that
        succeeded, and how late each began."""
        self.response, self.late = self.response or Recorder(), self.late or Recorder()
        self.response.add(responses)
        self.late.add(late)


def _sum(mine: Any, other: Any) -> Any:
    if mine is None or other is None:
        return other if mine is None else mine
    return mine + other


def _merged(mine: Any, other: Any) -> Any:
    """Merges recorders, tables of recorders by name, or series; None if both are None."""
    if isinstance(mine, dict):
        for name, recorder in other.items():
            mine.setdefault(name, Recorder()).merge(recorder)
    elif mine is None or other is None:
        return mine or other
    else:
        mine.merge(other)
    return mine


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    fields.SUM: _sum,
    fields.LONGEST: lambda mine, other: max(mine or 0, other or 0),
    fields.FIRST: lambda mine, other: mine or other,
    fields.ANY: lambda mine, other: mine or other,
    # 'budget' and 'duration' exclude each other; 'count' yields to all others.
    fields.REASON: partial(max, key=("count", "budget", "duration", "checks").index),
    fields.SLOWEST: lambda mine, other: max(filter(None, (mine, other)), default=None),
    fields.TOGETHER: _merged,
}
