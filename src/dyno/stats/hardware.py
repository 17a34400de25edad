"""The hardware of a run's machine, by which the runs of one machine are recognised."""

from __future__ import annotations

from dataclasses import dataclass

from dyno.results import Run
from dyno.stats.load_limit import cores

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Hardware:
    """None: unknown."""

    processor: str | None
    cores: float | None
    """Number of cores that the run could use."""
    memory_bytes: int | None
    """Rounded to GiB from 512 MiB on: another kernel, which keeps other memory to itself, is not another machine."""


def hardware(run: Run) -> Hardware:
    """Returns the hardware of the run's machine. The file system is no part of it: it may be mounted anew."""
    host = run.header.get("host") or {}
    cpu, memory = (host.get(part) or {} for part in ("cpu", "memory"))
    size = memory.get("total_bytes")
    rounded = size and (round(size / GIB) * GIB or size)
    return Hardware(cpu.get("model"), cores(host) or cpu.get("logical_cores"), rounded)
