"""Measures the resources that clients use."""

import os
from dataclasses import dataclass, replace

from dyno.host.usage import NOTHING, Usage, measure_own, peaks_since_reset, reset_peaks, without_pauses
from dyno.measure.tally import Tally


@dataclass
class EndedClients:
    """Resources used by this worker's client processes that have ended."""

    usage: Usage = NOTHING
    """Usage without the bytes, which the kernel has added to this process's own. Servers that ended are left out,
    although getrusage(2) counts them among the children."""
    peak_resident_bytes: int = 0
    """Peak of the largest client process."""


ENDED_CLIENTS = EndedClients()


class UsageMeter:
    """Measures this process's resources from the moment when its clients are ready, without pauses. Its peak of
    memory includes pauses, because inputs are in memory all the time."""

    def __init__(self) -> None:
        self._process = (os.getpid(),)
        self._begin = self.latest = measure_own()
        self._peak_reset = False

    def begin(self) -> None:
        self._peak_reset = reset_peaks(self._process)
        self._begin = measure_own()

    def end(self, whole: Tally) -> Tally:
        self.latest = measure_own()
        used = without_pauses(self.latest - self._begin, whole.paused)
        if used.voluntary_switches is not None:
            used = replace(used, voluntary_switches=max(used.voluntary_switches - whole.paused_waits, 0))
        if used.core_wait_ns is not None:
            used = replace(used, core_wait_ns=max(used.core_wait_ns - whole.paused_core_wait_ns, 0))
        whole.usage = used
        if self._peak_reset:
            whole.peak_bytes = peaks_since_reset(self._process)
        else:
            whole.peak_bytes = None
        return whole
