"""The conformance suite of the port `volume`: data reads back as it was written, and reports are consistent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Report
from dyno.suites.volume import IO, READ, WRITE, Volume

Opened = Callable[[str], AbstractContextManager[Volume]]
Check = Callable[[Opened, Tier | None], None]
SIZE, BLOCK, LIMIT_NS = 1 << 20, 4096, 100_000_000


def check_report(report: Report, io: IO) -> int:
    """Returns the number of figures compared. Raises Wrong if they contradict each other."""
    if report.first_error is not None:
        raise Wrong(f"{report.tool} ended early: {report.first_error}")
    if report.bytes != report.items * io.block_size:
        raise Wrong(f"{report.items:,} requests of {io.block_size:,} bytes can't have moved {report.bytes:,} bytes")
    compared = 1
    if report.latencies:
        if (counted := sum(times for _, times in report.latencies)) != report.operations:
            raise Wrong(f"the histogram has {counted:,} latencies of {report.operations:,} operations")
        compared += 1
    both = f"{READ} and {WRITE}"
    if io.mixed and report.by_kind.keys() != {READ, WRITE}:
        raise Wrong(f"the report of a mixed pattern has {', '.join(report.by_kind) or 'no kinds'}, expected {both}")
    return compared


def integrity(opened: Opened, tier: Tier | None, size: int = SIZE) -> None:
    """Data reads back as it was written, by the tool's own checksums."""
    with opened("integrity") as volume:
        if (wrong := volume.verify(size)) is not None:
            raise Wrong(f"data did not read back as written: {wrong}")


def reports(opened: Opened, tier: Tier | None) -> None:
    """The report of each pattern is consistent."""
    with opened("reports") as volume:
        volume.fresh(SIZE)
        volume.lay(SIZE)
        for pattern in ("read", "write", "rw", "randread", "randwrite", "randrw"):
            io = IO(pattern, BLOCK, SIZE, read_percent=50)
            report = volume.run(io, LIMIT_NS, 0)
            check_report(report, io)
            if not report.operations:
                raise Wrong(f"{pattern}: nothing was done")


def flushes(opened: Opened, tier: Tier | None) -> None:
    """The report of flushed writes is consistent."""
    with opened("flushes") as volume:
        volume.fresh(SIZE)
        volume.lay(SIZE)
        io = IO("write", BLOCK, SIZE, flush=True)
        check_report(volume.run(io, LIMIT_NS, 0), io)


def copies(opened: Opened, tier: Tier | None) -> None:
    """dd writes as much as requested, in each way."""
    with opened("copies") as volume:
        for how in ("plain", "fdatasync", "direct"):
            report = volume.copy(how, BLOCK, SIZE)
            check_report(report, IO("write", BLOCK, SIZE))
            if report.bytes != SIZE:
                raise Wrong(f"dd, {how}: wrote {report.bytes:,} bytes, expected {SIZE:,}")


CHECKS: dict[str, Check] = {"integrity": integrity, "reports": reports, "flushes": flushes, "copies": copies}
BRIEF = {"integrity": integrity}
"""Before measuring: the other checks take as long as a phase, whose report is checked in the same way."""
