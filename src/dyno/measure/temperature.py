"""Makes a phase cold, and determines whether it was cold. A sample's temperature is what was proven, not what was
attempted."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from dyno.contracts.model import Absent, Phase
from dyno.contracts.suite import Job, Workload
from dyno.host import filesystem, pagecache
from dyno.host.usage import Usage
from dyno.measure.tally import Tally

COLD_PERCENT = 1.0
"""Largest percentage of the files' bytes that may be in the page cache."""


def chill(workload: Workload, job: Job) -> Mapping[str, Any]:
    """Closes the engine, stops its server and evicts their files from the page cache. Returns the residency of the
    files, measured before the server is started again and the engine is opened.

    The files are all those in the trial's home, and the suite's own. Raises Absent for an engine that stores nothing
    in files or reads only from memory, and for a user's own server.
    """
    if job.spec.in_memory:
        raise Absent("reads only from memory, so that it can't be cold")
    if job.server is None and not [*workload.engine().files(), *workload.files()]:
        raise Absent("stores nothing in files, so that it can't be cold")
    workload.release()
    with ExitStack() as stack:
        if job.server is not None:
            job.server.stop()
            stack.callback(job.server.start)
        files = [path for path in (*filesystem.files(job.home), *workload.files()) if path.is_file()]
        how, residency = pagecache.evict(files, drop=None), pagecache.residency(files)
        if not _is_cold(residency.resident_bytes, residency.file_bytes):
            # Dropping all caches of the machine slows down other work and the next trial's start, so it is the last
            # resort.
            how, residency = pagecache.evict(files), pagecache.residency(files)
        return {**asdict(residency), "evicted_by": how}


def _is_cold(resident_bytes: int | None, file_bytes: int) -> bool:
    return resident_bytes is not None and resident_bytes * 100 <= file_bytes * COLD_PERCENT


def reached(phase: Phase, tally: Tally, residency: Mapping[str, Any] | None, served: Usage) -> str:
    """Returns the temperature at which a phase was measured: the requested one, or 'lukewarm' if it is not proven.

    A phase was cold if at most 1 % of the files was resident when the engine was opened, and if the clients or the
    server have read from the device since (unless that is not counted). `served` is the server's usage. The second
    condition detects a file system with a cache of its own.
    """
    if phase.temperature == "hot":
        return "hot" if tally.warm else "lukewarm"
    if phase.temperature != "cold" or residency is None:
        return "none"
    evicted = _is_cold(residency["resident_bytes"], residency["file_bytes"])
    return "cold" if evicted and (tally.usage + served).read_bytes != 0 else "lukewarm"
