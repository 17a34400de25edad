"""The hardware of a run's machine, by which the runs of one machine are recognised."""

from __future__ import annotations

from dataclasses import dataclass

from dyno.results import Run

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
    cpu = run.header.host.cpu
    size = run.header.host.memory.total_bytes
    rounded = size and (round(size / GIB) * GIB or size)
    return Hardware(cpu.model, cpu.usable_cores or cpu.logical_cores, rounded)
