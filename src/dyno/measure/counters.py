"""Reads an engine's own counters before and after the phases of a trial: see `dyno.contracts.counters`.

Nothing here runs while the clock runs. A failure costs the trial its counters, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.counters import unreadable_counters
from dyno.contracts.declarations import checked_count, exception_text
from dyno.contracts.model import Caveat, Phase
from dyno.contracts.roles import OpeningWorkload
from dyno.contracts.suite import Job, Workload

Counts = Mapping[str, int]
LONGEST_REASON = 300
"""Characters of an error in the remark. Some servers send a stack trace."""


class CounterReader:
    """Reads the counters of one trial's engine, until a reading fails."""

    def __init__(self, job: Job) -> None:
        self._spec = job.spec.counters
        self._where = f"engine {job.spec.name}: counters"
        # Client processes open an embedded engine themselves, and this process doesn't see what theirs count.
        if job.server is None and job.clients > 1 and job.spec.clients != "threads":
            self._spec = None
        self._failure: str | None = None
        self._before: Counts | None = None
        self._reading: Counts = {}
        """What one reading adds to the counters by itself."""

    def publisher(self, workload: Workload, phase: Phase) -> Callable[[Any], object] | None:
        """Returns the engine's `publish`, if its counters are read in the phase."""
        if self._spec is None or not self._reads(workload, phase):
            return None
        return self._spec.publish

    def begin(self, workload: Workload, phase: Phase) -> None:
        """Reads the counters before the clock starts."""
        self._before = None
        if not self._reads(workload, phase):
            return
        try:
            engine = workload.engine()
            # A session's first reading may load what later ones find in its caches.
            self._read(engine)
            first = self._read(engine)
            self._before = self._read(engine)
            self._reading = _subtract(self._before, first)
        except Exception as error:
            self._fail(error)

    def end(self, workload: Workload) -> Counts:
        """Returns by how much the counters have grown since `begin`, without what the readings added. Those that
        shrank, as at a restart, are left out."""
        if self._before is None:
            return {}
        try:
            growth = _subtract(self._read(workload.engine()), self._before)
        except Exception as error:
            self._fail(error)
            return {}
        return {name: max(count - self._reading.get(name, 0), 0) for name, count in growth.items() if count >= 0}

    def caveat(self) -> Caveat | None:
        """Returns the remark that a reading has failed; None if none has."""
        if self._failure is None:
            return None
        return unreadable_counters(self._failure)

    def _reads(self, workload: Workload, phase: Phase) -> bool:
        if self._spec is None or self._failure is not None:
            return False
        # A phase that measures the opening of the engine opens it itself.
        return not (isinstance(workload, OpeningWorkload) and workload.opens(phase))

    def _read(self, engine: Any) -> Counts:
        assert self._spec is not None
        values = self._spec.read(engine)
        names = [counter.name for counter in self._spec.counters]
        return {name: checked_count(values[name], f"{self._where}: {name}") for name in names if name in values}

    def _fail(self, error: Exception) -> None:
        if isinstance(error, MemoryError):
            raise error
        self._before = None
        self._failure = " ".join(exception_text(error).split())[:LONGEST_REASON] or type(error).__name__


def _subtract(after: Counts, before: Counts) -> Counts:
    return {name: count - before[name] for name, count in after.items() if name in before}
