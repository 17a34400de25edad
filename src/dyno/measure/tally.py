"""What a client, or all of them together, did in a phase: counts that add up. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import positions
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Fact, Wrong
from dyno.contracts.suite import Failure
from dyno.host.usage import NOTHING, Usage
from dyno.measure.loop import Times
from dyno.measure.series import Series

Good = slice | NDArray[np.bool_]
"""Selects the operations that succeeded."""
ALL = slice(None)


def succeeded(answers: Sequence[Any], failures: int) -> Good:
    """The operations that did not raise. Raises Wrong for an answer that only claims to be a failure."""
    failed = positions(answers, Failure)
    if len(failed) != failures:
        raise Wrong("an answer says of itself that its operation raised, and it did not")
    if not failures:
        return ALL
    good = np.ones(len(answers), dtype=np.bool_)
    good[failed] = False
    return good


@dataclass
class Tally:
    """Times in ns."""

    operations: int = 0
    items: int = 0
    elapsed_ns: int = 0
    """Of several clients: the longest."""
    busy_ns: int = 0
    """Of several clients: the sum."""
    errors: int = 0
    checked: int = 0
    check_ns: int = 0
    """Time that checks of answers took, outside of elapsed_ns. Of several clients: the longest."""
    ended_by: str = "count"
    first_error: str | None = None
    void: str | None = None
    bulk: bool = False
    warm: bool = True
    """Whether the untimed round that the phase asked for was done whole."""
    latency: Recorder = field(default_factory=Recorder)
    by_kind: dict[str, Recorder] = field(default_factory=dict)
    slowest: tuple[int, int] | None = None
    """Latency of the slowest operation, and when it began, counted from the start of the phase."""
    response: Recorder | None = None
    late: Recorder | None = None
    series: Series = field(default_factory=Series)
    paused: tuple[int, int] = (0, 0)
    """User and system CPU time that the client's thread spent on inputs and checks."""
    paused_waits: int = 0
    """How often it gave up its core in pauses, to wait."""
    usage: Usage = NOTHING
    wall_ns: int = 0
    """Of several clients: the longest."""
    last_begun_ns: int = 0
    """When this client's last operation began, counted from the start of the phase."""
    due: int | None = None
    """Operations that were due, of an open loop."""
    pause_process_ns: int = 0
    """CPU time of the whole process, and of the server, while the clock stood still."""
    pause_server_ns: int = 0
    bytes: int | None = None
    by_part: dict[str, Recorder] = field(default_factory=dict)
    reported_by: str | None = None
    points: tuple[Mapping[str, int], ...] = ()
    """The series that an outside tool told."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What an outside tool told beside."""

    @property
    def pause_cpu_ns(self) -> int:
        """What worked while the clock stood still, and was neither the building of inputs nor the judging of answers:
        background threads of the engine's, and its server."""
        # A process that ended meanwhile took its time with it.
        return max(self.pause_process_ns - sum(self.paused), 0) + max(self.pause_server_ns, 0)

    def merge(self, other: Tally) -> None:
        """Takes in another client's tally, clients having run side by side."""
        self.operations += other.operations
        self.items += other.items
        self.elapsed_ns = max(self.elapsed_ns, other.elapsed_ns)
        self.busy_ns += other.busy_ns
        self.errors += other.errors
        self.checked += other.checked
        self.check_ns = max(self.check_ns, other.check_ns)
        # 'budget' and 'duration' exclude each other; 'count' gives way to all.
        self.ended_by = max(self.ended_by, other.ended_by, key=("count", "budget", "duration", "checks").index)
        self.first_error = self.first_error or other.first_error
        self.void = self.void or other.void
        self.bulk = self.bulk or other.bulk
        self.warm = self.warm and other.warm
        self.latency.merge(other.latency)
        self.slowest = max(filter(None, (self.slowest, other.slowest)), default=None)
        for kind, recorder in other.by_kind.items():
            self.by_kind.setdefault(kind, Recorder()).merge(recorder)
        self.response = _merged(self.response, other.response)
        self.late = _merged(self.late, other.late)
        self.series.merge(other.series)
        self.paused = (self.paused[0] + other.paused[0], self.paused[1] + other.paused[1])
        self.paused_waits += other.paused_waits
        self.usage = self.usage + other.usage
        self.wall_ns = max(self.wall_ns, other.wall_ns)
        self.due = _sum(self.due, other.due)
        self.pause_process_ns += other.pause_process_ns
        self.pause_server_ns += other.pause_server_ns
        self.bytes = _sum(self.bytes, other.bytes)
        for part, recorder in other.by_part.items():
            self.by_part.setdefault(part, Recorder()).merge(recorder)
        self.reported_by = self.reported_by or other.reported_by

    def count(self, elapsed_ns: int, busy_ns: int, failures: Sequence[Failure]) -> None:
        self.elapsed_ns += elapsed_ns
        self.busy_ns += busy_ns
        self.errors += len(failures)
        if failures and self.first_error is None:
            self.first_error = failures[0].error

    def add_spans(self, ends: Times, spans: Times) -> None:
        """Adds operations that succeeded, in the order of their ends, counted from the start of the phase."""
        if not len(ends):
            return
        self.latency.add(spans)
        self.series.add(ends, spans)
        at = int(spans.argmax())
        self.slowest = max(self.slowest or (0, 0), (int(spans[at]), int(ends[at] - spans[at])))

    def add_kinds(self, kinds: Sequence[str], spans: Times, good: Good) -> None:
        """Adds the latencies of the operations that succeeded, by the kind of each operation."""
        names, spans = np.asarray(kinds)[good], spans[good]
        for kind in dict.fromkeys(kinds):
            self.by_kind.setdefault(kind, Recorder()).add(spans[names == kind])

    def add_bytes(self, moved: int | None) -> None:
        """None where the suite does not tell."""
        if moved is not None:
            self.bytes = (self.bytes or 0) + moved

    def add_part(self, name: str, spans_ns: Sequence[int]) -> None:
        self.by_part.setdefault(name, Recorder()).add(spans_ns)

    def add_open(self, starts: Times, ends: Times, due: Times, free_ns: int, good: Good = ALL) -> int:
        """What an open loop adds of a slice: `due`, `starts` and `ends`, by one clock. Response times are of the
        operations that succeeded.

        Late is what begins later than it would have, had Dyno never been late: at once when it was due and the engine
        was done with what came before it. Who waits behind an operation that began late is late by that, too.
        `free_ns`: when the engine would have been free for the first of them; returned is when it would have been
        done with the last.
        """
        self.response, self.late = self.response or Recorder(), self.late or Recorder()
        self.response.add((ends - due)[good])
        spans = ends - starts
        before = np.cumsum(spans) - spans
        punctual = before + np.maximum.accumulate(np.maximum(due - before, free_ns))
        self.late.add(np.maximum(starts - punctual, 0))
        return int(punctual[-1] + spans[-1]) if len(spans) else free_ns

    def add_due(self, responses: Times, late: Times) -> None:
        """Of an open loop whose operations do not wait for each other: response times of those that succeeded, and by
        how much each began late."""
        self.response, self.late = self.response or Recorder(), self.late or Recorder()
        self.response.add(responses)
        self.late.add(late)


def _sum(mine: int | None, other: int | None) -> int | None:
    return other if mine is None else mine + (other or 0)


def _merged(mine: Recorder | None, other: Recorder | None) -> Recorder | None:
    if mine is None or other is None:
        return mine or other
    mine.merge(other)
    return mine
