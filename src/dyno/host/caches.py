"""The processor's caches for data, as the kernel tells of them. Unknown is nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dyno.host.filesystem import ROOT
from dyno.host.procfs import read_text, to_int


@dataclass(frozen=True)
class Cache:
    """One of the first processor's."""

    name: str
    """'L1d', 'L2'."""
    size_bytes: int
    shared_by: int
    """How many CPUs share it."""


def caches(*, root: Path = ROOT) -> list[Cache]:
    """The smallest first; none of those for instructions."""
    found = []
    for index in (root / "sys/devices/system/cpu/cpu0/cache").glob("index[0-9]*"):
        level, kind, size = (read_text(index / name) for name in ("level", "type", "size"))
        kib = to_int((size or "").removesuffix("K"))
        if level and kib and kind in ("Data", "Unified"):
            name = f"L{level}{'d' if kind == 'Data' else ''}"
            found.append(Cache(name, kib << 10, _count(read_text(index / "shared_cpu_list") or "0")))
    return sorted(found, key=lambda cache: cache.size_bytes)


def _count(listed: str) -> int:
    """Of CPUs in '0-3,8'."""
    spans = [span.partition("-") for span in listed.split(",")]
    return sum((to_int(last) or to_int(first) or 0) - (to_int(first) or 0) + 1 for first, _, last in spans) or 1
