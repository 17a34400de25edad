"""Makes a phase cold, and says whether it was: the proof, not the attempt, gives a sample its temperature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dyno.contracts.model import Absent, Phase
from dyno.contracts.suite import Job, Workload
from dyno.host import pagecache, tree
from dyno.host.usage import Usage
from dyno.measure.tally import Tally

COLD_PERCENT = 1.0
"""Of the files, what may be in the page cache."""


def chill(workload: Workload, job: Job) -> Mapping[str, Any]:
    """Closes the engine, stops its server and evicts their files. Returns their residency, measured afterwards,
    before the server is started again and the engine opened.

    All files in the home of the trial: those that an engine names are there, and what it left when it was closed.
    Raises Absent for an engine that keeps nothing in files, or reads from memory alone, and for a user's own server.
    """
    if job.spec.in_memory:
        raise Absent("reads from memory, whatever it keeps in files, so that it can't be cold")
    if job.server is None and not [*workload.engine().files(), *workload.files()]:
        raise Absent("keeps nothing in files, so that it can't be cold")
    workload.release()
    if job.server is None:
        return _evicted(job.home, workload.files())
    job.server.stop()
    try:
        return _evicted(job.home, workload.files())
    finally:
        job.server.start()


def _evicted(home: Path, others: Iterable[Path]) -> Mapping[str, Any]:
    files = [path for path in (*tree.files(home), *others) if path.is_file()]
    how, found = pagecache.evict(files, drop=None), pagecache.residency(files)
    if not _next_to_nothing(found.resident_bytes, found.file_bytes):
        # Everybody's caches only where that may help: others' work and the next trial's start suffer from it.
        how, found = pagecache.evict(files), pagecache.residency(files)
    return {**asdict(found), "evicted_by": how}


def _next_to_nothing(resident_bytes: int | None, file_bytes: int) -> bool:
    """Whether what is resident is next to nothing."""
    return resident_bytes is not None and resident_bytes * 100 <= file_bytes * COLD_PERCENT


def reached(phase: Phase, tally: Tally, residency: Mapping[str, Any] | None, served: Usage) -> str:
    """The temperature that a phase was measured at: what it asked for, 'lukewarm' where that was not reached.

    Cold: at most 1 % of the files was resident when the engine was opened, and the device has been read from since
    (where that is counted), by the clients or by the server, which used `served`: a file system with a cache of its
    own is found out.
    """
    if phase.temperature == "hot":
        return "hot" if tally.warm else "lukewarm"
    if phase.temperature != "cold" or residency is None:
        return "none"
    evicted = _next_to_nothing(residency["resident_bytes"], residency["file_bytes"])
    return "cold" if evicted and (tally.usage + served).read_bytes != 0 else "lukewarm"
