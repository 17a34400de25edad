"""Measures one phase of a trial, from the prepared store to its sample: waits until the engine is at rest, makes the
phase cold, and determines whether it was. A sample's temperature is what was proven, not what was attempted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from stat import S_ISREG
from time import monotonic_ns, sleep, time_ns
from typing import TYPE_CHECKING

from dyno.contracts.declarations import checked_values
from dyno.contracts.engine import Engine, Maintenance
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Absent, Phase, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.roles import FilesWorkload, PayloadWorkload, PlacedWorkload
from dyno.contracts.suite import Job, Workload
from dyno.fields import COUNTED, FIELDS, HISTOGRAMS, Sample
from dyno.host import filesystem, pagecache
from dyno.host.process import is_running
from dyno.host.procfs import difference
from dyno.host.usage import (
    Usage,
    device,
    has_waiting_threads,
    measure_own,
    of_thread_ns,
    of_tree,
    peaks_since_reset,
    reset_peaks,
    with_descendants,
)
from dyno.measure.clients import run_phase
from dyno.measure.counters import CounterReader
from dyno.measure.profiler import Profiler
from dyno.measure.slices import Announce
from dyno.measure.tally import Tally

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Residency
    from dyno.contracts.model import Fact


class ServerDied(Exception):
    """A process of the server ended while a phase was measured."""


class Stopwatch:
    """Measures where the time of a trial goes, as laps that get their names when they end."""

    def __init__(self) -> None:
        self.parts_ns: Counter[str] = Counter()
        self.check_ns = 0
        """Time of checks of answers, between batches and after phases. The laps include it."""
        self._since = monotonic_ns()

    def lap(self, part: str) -> None:
        """Adds the time since the last lap to `part`."""
        now = monotonic_ns()
        self.parts_ns[part] += now - self._since
        self._since = now


class _PhaseCounters:
    """Counters of the server and the device, which are read when the clients start and again when they have ended."""

    def __init__(self, workload: Workload, phase: Phase, job: Job, pace: Pace) -> None:
        self._workload = workload
        # Looked up here because a restarted server has other processes.
        self.server = server_pids(job)
        self._place = job.home
        if isinstance(workload, PlacedWorkload):
            self._place = workload.place() or job.home
        self._maintenance: Maintenance | None = None
        # Other runs don't ask, because an answer costs the engine time.
        if pace.limits and phase.writes:
            self._maintenance = job.spec.crashes.maintenance
        self._maintained = 0
        self._peaks_reset = False
        self._read()

    def _read(self) -> None:
        self._served = of_tree(self.server)
        self._device = device(self._place)

    def begin(self) -> None:
        """Called when the clients start, after the untimed round."""
        if self._maintenance is not None and self._maintenance.times is not None:
            self._maintained = self._maintenance.times(self._workload.engine())
        self._peaks_reset = reset_peaks(with_descendants(self.server))
        self._read()

    def served(self) -> Usage:
        """Returns the server's usage since the start."""
        return of_tree(self.server) - self._served

    def server_peak_bytes(self) -> int | None:
        if self._peaks_reset:
            return peaks_since_reset(with_descendants(self.server))
        return None

    def moved(self) -> dict[str, int | None]:
        """Returns the bytes that the device has read and written since the start."""
        moved = {name: difference(self._device[name], count) for name, count in device(self._place).items()}
        # The counters of a device that was detached and attached again restart at 0.
        return {name: gain if gain is None or gain >= 0 else None for name, gain in moved.items()}

    def maintained(self, engine: Engine) -> dict[str, int | None]:
        """Returns how often the engine has done its maintenance since the start, by the maintenance's name."""
        maintenance = self._maintenance
        if maintenance is None or maintenance.do is None:
            return {}
        if maintenance.times is None:
            return {maintenance.what: None}
        return {maintenance.what: max(maintenance.times(engine) - self._maintained, 0)}


def measure_phase(
    workload: Workload,
    phase: Phase,
    job: Job,
    pace: Pace,
    spent: Stopwatch,
    announce: Announce = lambda: None,
    run: Callable[..., Tally] = run_phase,
    reader: CounterReader | None = None,
    profiler: Profiler | None = None,
) -> Sample:
    """Measures a phase and adds its laps to `spent`. Raises Absent if the phase makes no sense for the engine, and
    ServerDied. `announce` is called before checks that may take long. `run` runs the clients, with the arguments of
    `dyno.measure.clients.run_phase`. `reader` reads the engine's own counters. `profiler`: profiles the processes
    while the clients work."""
    reader = reader or CounterReader(job)
    rest(server_pids(job), job.home)
    # A floor engine stores nothing that could be cold. It is measured without the eviction, for the harness's cost.
    cold = phase.temperature == "cold" and not job.spec.floor
    residency = chill(workload, job) if cold else None
    counters = _PhaseCounters(workload, phase, job, pace)
    server = counters.server
    spent.lap("rest")

    def begin_counting() -> None:
        spent.lap("hot")
        # First, because the reading costs the server some CPU time.
        reader.begin(workload, phase)
        spent.lap("counters")
        if profiler is not None:
            profiler.begin(server)
        counters.begin()

    publish = reader.publisher(workload, phase)
    with nullcontext() if profiler is None else profiler.recorded():
        tally = run(workload, phase, job.clients, job.spec.clients, pace, begin_counting, server, announce, publish)
    # A node that the workload has killed is no longer among the server's processes.
    if not all(is_running(pid) for pid in server if pid in server_pids(job)):
        # Raised here rather than voiding the phase: wrong answers of a dead server are not the engine's fault.
        raise ServerDied("its server ended in the middle of the phase")
    served, server_peak_bytes = counters.served(), counters.server_peak_bytes()
    moved = counters.moved()
    # Background work may have gone on since the clients ended.
    mine = tally.usage_until or measure_own()
    spent.lap("phase")
    # If the clients were processes of their own, this opens the engine, and its background threads continue their
    # work.
    engine = workload.engine()
    maintained = counters.maintained(engine)
    spent.lap("verify")
    counted = reader.end(workload)
    spent.lap("counters")
    settled = settle(server) if phase.writes else None
    written = [each.written_bytes for each in (tally.usage, measure_own() - mine, counters.served())]
    announce()
    if not tally.void and not job.spec.floor:
        try:
            tally.check(workload.verify, phase)
        except Wrong as wrong:
            tally.void = str(wrong)
    spent.check_ns += tally.check_ns
    bytes_on_disk = filesystem.size_on_disk(engine.files())
    sample = _make_sample(workload, phase, job, tally)
    return replace(
        sample,
        temperature=judge_temperature(phase, tally, residency, served),
        residency=residency,
        server=asdict(served) if server else None,
        server_peak_bytes=server_peak_bytes,
        device=moved,
        bytes_on_disk=bytes_on_disk,
        settled=settled,
        written_bytes=None if None in written else sum(part or 0 for part in written),
        maintenance=maintained,
        counters=counted,
    )


def _make_sample(workload: Workload, phase: Phase, job: Job, tally: Tally) -> Sample:
    """Returns the sample with the figures of the tally and the suite's facts."""
    counted = {name: getattr(tally, name) for name in COUNTED}
    histograms = {
        each.name: _encode_histograms(getattr(tally, each.tally)) for each in FIELDS if each.name in HISTOGRAMS
    }
    payload_bytes = None
    if isinstance(workload, PayloadWorkload):
        payload_bytes = workload.payload_bytes(phase, tally.items)
    facts: Mapping[str, Fact] = {}
    if not tally.void:
        facts = checked_values({**tally.facts, **workload.facts(phase)}, f"phase {phase.name}: facts")
    sample = Sample(
        **{**counted, **histograms, "void": tally.void},
        phase=phase.name,
        unit=phase.unit,
        clients=job.clients,
        threads=job.clients > 1 and job.spec.clients == "threads",
        least_served=tally.least_served,
        fair_share=tally.fair_share,
        pause_cpu_ns=tally.pause_cpu_ns,
        slowest_at_ns=None if tally.slowest is None else tally.slowest[1],
        series=tally.points or tally.series.points(),
        machines=tally.machines,
        client=asdict(tally.usage),
        client_peak_bytes=tally.client_peak_bytes,
        payload_bytes=payload_bytes,
        facts=facts,
    )
    if job.server is None or phase.reported:
        return sample
    if job.spec.server is not None and job.spec.server.library_works:
        return replace(sample, load=tally.load)
    return replace(sample, load=tally.load, load_processes=tally.processes)


def server_pids(job: Job) -> list[int]:
    """Returns the ids of the server's processes; empty without a server, or with the user's own."""
    if job.server is None:
        return []
    return list(job.server.pids())


def _encode_histograms(recorder: Recorder | dict[str, Recorder] | None) -> object:
    """Encodes a histogram, or a table of histograms by name."""
    if isinstance(recorder, dict):
        return {name: each.encode() for name, each in recorder.items()}
    return recorder and recorder.encode()


# -- temperature --------------------------------------------------------------------------------------------------

COLD_PERCENT = 1.0
"""Largest percentage of the files' bytes that may be in the page cache."""


def chill(workload: Workload, job: Job) -> Residency:
    """Closes the engine, stops its server and evicts their files from the page cache. Returns the residency of the
    files, measured before the server is started again and the engine is opened.

    The files are all those in the trial's home, and the suite's own. Raises Absent for an engine that stores nothing
    in files or reads only from memory, and for a user's own server.
    """
    if job.spec.in_memory:
        raise Absent("reads only from memory, so that it can't be cold")
    own_files = []
    if isinstance(workload, FilesWorkload):
        own_files = list(workload.files())
    if job.server is None and not [*workload.engine().files(), *own_files]:
        raise Absent("stores nothing in files, so that it can't be cold")
    workload.release()
    with ExitStack() as stack:
        if job.server is not None:
            job.server.stop()
            stack.callback(job.server.start)
        files = [path for path in (*filesystem.files(job.home), *own_files) if path.is_file()]
        how, residency = pagecache.evict(files, drop=None), pagecache.residency(files)
        if not _is_cold(residency.resident_bytes, residency.file_bytes):
            # Dropping all caches of the machine slows down other work and the next trial's start, so it is the last
            # resort.
            how, residency = pagecache.evict(files), pagecache.residency(files)
        return {
            "file_bytes": residency.file_bytes,
            "resident_bytes": residency.resident_bytes,
            "evicted_by": how,
        }


def _is_cold(resident_bytes: int | None, file_bytes: int) -> bool:
    return resident_bytes is not None and resident_bytes * 100 <= file_bytes * COLD_PERCENT


def judge_temperature(phase: Phase, tally: Tally, residency: Residency | None, served: Usage) -> str:
    """Returns the temperature at which a phase was measured: the requested one, or 'lukewarm' if it is not proven.

    A phase was cold if at most 1 % of the files was resident when the engine was opened, and if the clients or the
    server have read from the device since (unless that is not counted). `served` is the server's usage. The second
    condition detects a file system with a cache of its own.
    """
    if phase.temperature == "hot":
        if tally.warm:
            return "hot"
        return "lukewarm"
    if phase.temperature != "cold" or residency is None:
        return "none"
    evicted = _is_cold(residency["resident_bytes"], residency["file_bytes"])
    if evicted and (tally.usage + served).read_bytes != 0:
        return "cold"
    return "lukewarm"


# -- rest: what background threads flush and compact belongs to the phase before ----------------------------------

WINDOW_NS = 10_000_000
SERVER_WINDOW_NS = 50_000_000
"""Window with a server. The CPU time of another process is counted in ticks of 10 ms, which a shorter window may
miss."""
QUIET_WINDOWS = 2
BUSY_SHARE = 0.1
"""Share of a window. An engine that uses more CPU time is not at rest."""
LONGEST_NS = 10_000_000_000

_flushed: dict[tuple[int, int], int] = {}
"""When each file, by device and inode, was last flushed in this trial. A server has a thousand files, of which a
phase changes only a few, and each fsync makes the device flush."""
MARGIN_NS = 2_000_000_000
"""File systems round times, so a file is flushed again unless it was last changed at least this long before its
flush."""


def rest(server: Iterable[int], home: Path) -> None:
    """Waits before a phase until the engine is at rest, and flushes the dirty pages of its files.

    Otherwise the phase would pay for the phase before, and writes to pages that are already dirty would not be
    counted.
    """
    settle(server, windows=1)
    for path in filesystem.files(home):
        with suppress(OSError):
            about = path.stat()
            known = about.st_dev, about.st_ino
            if S_ISREG(about.st_mode) and about.st_ctime_ns > _flushed.get(known, 0) - MARGIN_NS:
                began = time_ns()
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                _flushed[known] = began


def settle(server: Iterable[int], longest_ns: int = LONGEST_NS, windows: int = QUIET_WINDOWS) -> bool:
    """Waits until this process and the server's processes have neither computed nor written for some windows, of 10
    ms, or of 50 ms with a server. Returns False if that did not happen within `longest_ns`."""
    quiet = 0
    deadline = monotonic_ns() + longest_ns
    pids = list(server)
    window_ns = WINDOW_NS
    if pids:
        window_ns = SERVER_WINDOW_NS
    before = _work(pids)
    while monotonic_ns() < deadline:
        sleep(window_ns / 1e9)
        after = _work(pids)
        computed, wrote = map(difference, before, after)
        # Unknown counters count as no work. An engine that gets no core is not at rest.
        still = (computed or 0) < BUSY_SHARE * window_ns and not wrote and not has_waiting_threads()
        quiet = quiet + 1 if still else 0
        if quiet == windows:
            return True
        before = after
    return False


def _work(server: list[int]) -> tuple[int | None, int | None]:
    """Returns the CPU time and the bytes written so far. The CPU time of this thread is left out, because it is
    expensive to read the counters of a server's processes."""
    used, watching = measure_own(), sum(of_thread_ns())
    if server:
        used += of_tree(server)
    if used.user_ns is None or used.system_ns is None:
        return None, used.written_bytes
    return used.user_ns + used.system_ns - watching, used.written_bytes
