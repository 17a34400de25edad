"""The conformance suite of the port `volume`. Nothing may be put here that depends on an engine.

A tool that measures can't be asked what it stored. So it is checked that what it writes is read back, and that what
it tells of its work fits together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Report
from dyno.suites.volume.port import IO, READ, WRITE, Volume

Opened = Callable[[str], AbstractContextManager[Volume]]
Check = Callable[[Opened, Tier | None], None]
SIZE, BLOCK, LIMIT_NS = 1 << 20, 4096, 100_000_000


def whole(report: Report, io: IO) -> int:
    """Whether what a tool tells fits together; how many of its figures were compared. Raises Wrong."""
    if report.first_error is not None:
        raise Wrong(f"{report.tool} ended early: {report.first_error}")
    if report.bytes != report.items * io.block_size:
        raise Wrong(f"{report.items:,} of {io.block_size:,} bytes are not the {report.bytes:,} that it moved")
    compared = 1
    if report.latencies:
        if (counted := sum(times for _, times in report.latencies)) != report.operations:
            raise Wrong(f"its histogram has {counted:,} latencies, of {report.operations:,} operations")
        compared += 1
    if io.mixed and report.by_kind.keys() != {READ, WRITE}:
        raise Wrong(f"of a mixed pattern it tells of {', '.join(report.by_kind) or 'nothing'}")
    return compared


def integrity(opened: Opened, tier: Tier | None, size: int = SIZE) -> None:
    """What is written is read back, by the tool's own checksums."""
    with opened("integrity") as volume:
        if (wrong := volume.verify(size)) is not None:
            raise Wrong(f"what was written was not read back: {wrong}")


def reports(opened: Opened, tier: Tier | None) -> None:
    """Each pattern is done, and told of in figures that fit together."""
    with opened("reports") as volume:
        volume.fresh(SIZE)
        volume.lay(SIZE)
        for pattern in ("read", "write", "rw", "randread", "randwrite", "randrw"):
            io = IO(pattern, BLOCK, SIZE, read_percent=50)
            report = volume.run(io, LIMIT_NS, 0)
            whole(report, io)
            if not report.operations:
                raise Wrong(f"{pattern}: nothing was done")


def flushes(opened: Opened, tier: Tier | None) -> None:
    """Each write is flushed, and told of."""
    with opened("flushes") as volume:
        volume.fresh(SIZE)
        volume.lay(SIZE)
        io = IO("write", BLOCK, SIZE, flush=True)
        whole(volume.run(io, LIMIT_NS, 0), io)


def copies(opened: Opened, tier: Tier | None) -> None:
    """dd writes as much as it is asked to, in each way."""
    with opened("copies") as volume:
        for how in ("plain", "fdatasync", "direct"):
            report = volume.copy(how, BLOCK, SIZE)
            whole(report, IO("write", BLOCK, SIZE))
            if report.bytes != SIZE:
                raise Wrong(f"dd, {how}: it wrote {report.bytes:,} bytes, of {SIZE:,}")


CHECKS: dict[str, Check] = {"integrity": integrity, "reports": reports, "flushes": flushes, "copies": copies}
BRIEF = {"integrity": integrity}
"""Before measuring: the others take as long as a phase does, which is checked in the same way itself."""
