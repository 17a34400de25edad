"""The limits of a phase: decides when a client's measuring ends, and why."""

from time import monotonic_ns

from dyno.contracts.pace import Pace
from dyno.measure.batches import FOREVER_NS
from dyno.measure.schedule import GONE, READY, STOP
from dyno.measure.tally import Tally


class PhaseLimits:
    """The limits of one client's share of a phase. `tally` has what it has done so far."""

    def __init__(self, pace: Pace, tally: Tally) -> None:
        self._pace = pace
        self._tally = tally
        self._deadline = FOREVER_NS

    def begin(self) -> None:
        """Begins the longest time that a fixed duration may take with its pauses."""
        if self._pace.duration_ns is not None:
            self._deadline = monotonic_ns() + self._pace.patience * self._pace.duration_ns

    @property
    def left_ns(self) -> int:
        """Measured time that is left."""
        return self._pace.limit_ns - self._tally.elapsed_ns

    def end_by_time(self, endless: bool) -> None:
        """Notes that the time is over. `endless`: whether the operations have no end."""
        timed = self._pace.duration_ns is not None or endless
        self._tally.ended_by = "duration" if timed else "budget"

    def state(self, has_work: bool, endless: bool) -> int:
        """Returns whether the client can run another batch: READY, GONE or STOP."""
        tally = self._tally
        if tally.void is not None:
            return STOP
        if not has_work or tally.ended_by != "count":
            return GONE
        if self.left_ns <= 0:
            self.end_by_time(endless)
            return GONE
        if tally.check_ns > self._pace.check_ns:
            tally.ended_by = "checks"
            return GONE
        if tally.wall_ns and monotonic_ns() > self._deadline:
            self.end_by_time(endless)
            return STOP
        return READY
