"""Ceilings of this machine, measured and cached: flushes of the disk, memory bandwidth, and computing speed of a
core.

The cache is in a given directory, with a file for each machine and file system. None means unknown.
"""

import json
import os
from contextlib import suppress
from datetime import datetime, timezone
from hashlib import blake2s
from pathlib import Path
from platform import node

from dyno.host.filesystem import filesystem, flushes_ns, replace

SECONDS = 20.0
TRIAD_DOUBLES, TRIAD_BYTES = 8 << 20, 24
"""Elements of each array, split among the threads: 192 MiB in total, more than caches hold. Bytes moved for each
element."""
PRIMES = 64_000
PROBED = "probed"
NAMES = ("flushes_per_second", "memory_bytes_per_second", "core_bytes_per_second", "core_events_per_second", PROBED)
MOST = 1e18


def probe(work: Path, seconds: float = SECONDS) -> dict[str, object]:
    """Measures the figures for `seconds` in total, a quarter for each of the first four.

    flushes_per_second        writes of 4 KiB in place, one after the other, each flushed (fdatasync), in `work`
    memory_bytes_per_second   the triad of STREAM, in as many threads as there are CPUs; 24 bytes for each element
    core_bytes_per_second     the same in one thread
    core_events_per_second    searches for the primes below 64,000, in one thread
    probed                    the day
    """
    each_ns = round(seconds / 4 * 1e9)
    times_ns = flushes_ns(work, limit_ns=each_ns)
    flushes = None
    if times_ns:
        flushes = round(len(times_ns) / sum(times_ns) * 1e9, 1)
    figures: dict[str, object] = {**dict.fromkeys(NAMES), "flushes_per_second": flushes}
    with suppress(ImportError):
        import dyno._native

        for name, threads in (("memory", len(os.sched_getaffinity(0))), ("core", 1)):
            length = TRIAD_DOUBLES // threads
            elapsed_ns, passes, _ = dyno._native.triad(threads, length, each_ns)
            figures[f"{name}_bytes_per_second"] = round(sum(passes) * length * TRIAD_BYTES / elapsed_ns * 1e9)
        figures["core_events_per_second"] = round(core_speed(PRIMES, each_ns), 1)
    return {**figures, PROBED: datetime.now(timezone.utc).date().isoformat()}


def core_speed(largest: int, limit_ns: int) -> float:
    """Returns how many searches for the primes below `largest` one thread does a second, for `limit_ns`. Raises
    ImportError without the native module."""
    import dyno._native

    elapsed_ns, latencies, _, _ = dyno._native.primes(1, largest, limit_ns, 0)
    return sum(map(len, latencies)) / elapsed_ns * 1e9


def keep(cache: Path, work: Path, figures: dict[str, object]) -> None:
    """Caches the figures. Raises OSError."""
    file = _file(cache, work)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, json.dumps(figures).encode())


def load_cached(cache: Path, work: Path) -> dict[str, object] | None:
    """Returns the cached figures of this machine and the file system of `work`; None without valid ones."""
    with suppress(OSError, ValueError):
        cached = json.loads(_file(cache, work).read_text())
        figures = {}
        if isinstance(cached, dict):
            figures = {name: cached.get(name) for name in NAMES}
        numbers = [value for name, value in figures.items() if name != PROBED and value is not None]
        are_valid = all(type(value) in (int, float) and 0 < value < MOST for value in numbers)
        if numbers and are_valid and isinstance(figures[PROBED], str):
            return figures
    return None


def _file(cache: Path, work: Path) -> Path:
    """Returns the file for a machine and file system. Its name is a hash, so that it reveals neither."""
    facts = filesystem(work)
    parts = [node(), *(str(facts.get(name)) for name in ("mount_point", "type", "device", "total_bytes"))]
    return cache / "ceilings" / f"{blake2s(chr(0).join(parts).encode(), digest_size=8).hexdigest()}.json"
