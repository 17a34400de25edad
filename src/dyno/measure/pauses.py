"""Measurements between batches."""

from collections.abc import Callable
from time import process_time_ns

from dyno.host.usage import CoreWaitCounter, of_thread_ns, waits_of_thread
from dyno.measure.position import ClientPosition
from dyno.measure.tally import Tally


class PauseMeter:
    """Measures pauses: the CPU time of this thread, of its process and of the server, how often this thread waited
    for other clients, and how long for a core."""

    def __init__(self, position: ClientPosition, watch: Callable[[], int]) -> None:
        self._leads, self._watch = position.leads, watch
        self._core_waits = CoreWaitCounter()
        self.begin()

    def begin(self) -> None:
        # The thread's counters come first here and last in `end`, so that these calls are in the pause.
        self._thread = of_thread_ns()
        self._core_wait_ns = self._core_waits.read_ns()
        self._process = 0
        self._server = 0
        if self._leads:
            self._process = process_time_ns()
            self._server = self._watch()
        self._waits = waits_of_thread()

    def end(self, tally: Tally) -> None:
        tally.paused_waits += waits_of_thread() - self._waits
        if self._leads:
            tally.pause_server_ns += self._watch() - self._server
            tally.pause_process_ns += process_time_ns() - self._process
        tally.paused_core_wait_ns += self._core_waits.read_ns() - self._core_wait_ns
        user, system = of_thread_ns()
        tally.paused = (tally.paused[0] + user - self._thread[0], tally.paused[1] + system - self._thread[1])

    def close(self) -> None:
        self._core_waits.close()
