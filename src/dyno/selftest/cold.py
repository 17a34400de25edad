"""The page cache: what was evicted, and what was read from the device."""

from __future__ import annotations

import os
from pathlib import Path

from dyno.host import pagecache
from dyno.host.filesystem import filesystem
from dyno.host.usage import own
from dyno.selftest import Verdict

BYTES = 64 << 20
PIECE = 1 << 20
EVICTED_PERCENT, CACHED_PERCENT = 1.0, 99.0
COLD_SHARE, CACHED_SHARE = 0.9, 0.01


def cold(work: Path) -> Verdict:
    """A file is evicted and read twice: the first time it must come from the device, the second time not."""
    if filesystem(work)["ram_backed"]:
        return Verdict(None, "the work directory is in memory, where nothing can be cold")
    file = work / "cold"
    try:
        with file.open("wb") as writing:
            for _ in range(BYTES // PIECE):
                writing.write(os.urandom(PIECE))
        pagecache.evict([file], drop=None)
        evicted, first = pagecache.residency([file]).percent, _read(file)
        cached, second = pagecache.residency([file]).percent, _read(file)
    finally:
        file.unlink(missing_ok=True)
    if evicted is None or cached is None or first is None or second is None:
        return Verdict(None, "the kernel does not tell here what is in the page cache, or what is read from a device")
    text = f"evicted: {evicted:.1f} % resident, {first * 100:.0f} % read from the device;"
    text += f" cached: {cached:.1f} % resident, {second * 100:.0f} % read from the device"
    passed = evicted <= EVICTED_PERCENT and cached >= CACHED_PERCENT
    passed = passed and first >= COLD_SHARE and second <= CACHED_SHARE
    return Verdict(passed, text, {"evicted_percent": evicted, "cached_percent": cached})


def _read(file: Path) -> float | None:
    """The share of a file that came from the device when it was read whole."""
    before = own().read_bytes
    with file.open("rb", buffering=0) as reading:
        while reading.read(PIECE):
            pass
    after = own().read_bytes
    return None if before is None or after is None else (after - before) / BYTES
