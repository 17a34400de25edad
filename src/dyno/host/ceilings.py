"""What this machine can do at most, measured by itself and kept: flushes of the disk, bandwidth of the memory, and
what one core computes. Kept for each machine and file system, in a directory that is given.

Nothing here may judge an engine: that is in `dyno.stats`. Unknown is None.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime, timezone
from hashlib import blake2s
from pathlib import Path
from platform import node
from typing import Any

from dyno.host.atomic_file import replace
from dyno.host.filesystem import filesystem, flushes_ns

SECONDS = 20.0
TRIAD_DOUBLES, TRIAD_BYTES = 8 << 20, 24
"""Elements of each array, which are 192 MiB together: more than caches hold. Of more threads each has its part."""
PRIMES = 64_000


def probe(work: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """Takes so long, a quarter for each of these; None where it can't be measured.

    flushes_per_second        writes of 4 KiB in place, one after the other, each flushed (fdatasync), in `work`
    memory_bytes_per_second   the triad of STREAM, in as many threads as there are CPUs; 24 bytes for each element
    core_bytes_per_second     the same in one thread
    core_events_per_second    searches for the primes below 64,000, in one thread
    probed                    the day
    """
    each_ns = round(seconds / 4 * 1e9)
    found: dict[str, Any] = {"flushes_per_second": _flushes(work, each_ns)}
    threads = len(os.sched_getaffinity(0))
    try:
        import dyno._native
    except ImportError:
        found |= {"memory_bytes_per_second": None, "core_bytes_per_second": None, "core_events_per_second": None}
    else:
        for name, count in (("memory", threads), ("core", 1)):
            length = TRIAD_DOUBLES // count
            elapsed_ns, passes, _ = dyno._native.triad(count, length, each_ns)
            found[f"{name}_bytes_per_second"] = round(sum(passes) * length * TRIAD_BYTES / elapsed_ns * 1e9)
        elapsed_ns, latencies, _, _ = dyno._native.primes(1, PRIMES, each_ns, 0)
        found["core_events_per_second"] = round(sum(map(len, latencies)) / elapsed_ns * 1e9, 1)
    return {**found, PROBED: datetime.now(timezone.utc).date().isoformat()}


def _flushes(work: Path, limit_ns: int) -> float | None:
    taken = flushes_ns(work, limit_ns=limit_ns)
    return round(len(taken) / sum(taken) * 1e9, 1) if taken else None


PROBED = "probed"
NAMES = (
    "flushes_per_second",
    "memory_bytes_per_second",
    "core_bytes_per_second",
    "core_events_per_second",
    PROBED,
)
MOST = 1e18


def keep(cache: Path, work: Path, found: dict[str, Any]) -> None:
    """Raises OSError where it can't be kept."""
    file = _file(cache, work)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, json.dumps(found).encode())


def known(cache: Path, work: Path) -> dict[str, Any] | None:
    """What was kept for this machine and the file system of `work`; None where nothing was, or nothing of use."""
    with suppress(OSError, ValueError):
        found = json.loads(_file(cache, work).read_text())
        told = {name: found.get(name) for name in NAMES} if isinstance(found, dict) else {}
        numbers = [value for name, value in told.items() if name != PROBED and value is not None]
        right = all(type(value) in (int, float) and 0 < value < MOST for value in numbers)
        if numbers and right and isinstance(told[PROBED], str):
            return told
    return None


def _file(cache: Path, work: Path) -> Path:
    """Its name tells of no machine."""
    place = filesystem(work)
    told = "\0".join([node(), *(str(place.get(name)) for name in ("mount_point", "type", "device", "total_bytes"))])
    return cache / "ceilings" / f"{blake2s(told.encode(), digest_size=8).hexdigest()}.json"
