"""Memory growth of a long measurement: 10^9 operations that do nothing.

    python benchmarks/memory.py [--operations N]

The operations go through Dyno's whole path (`dyno.measure.driver`): slices, stamps, histogram, series by the second,
checks. The baseline is taken after 10 slices, when the interpreter and its libraries are in memory. Exit status 1:
memory is 64 MiB or more above the baseline.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from dyno.contracts.histogram import percentiles
from dyno.contracts.pace import LOOPS, Pace
from dyno.contracts.suite import Operations
from dyno.measure.driver import measure
from dyno.measure.loop import pick

SLICE = 50_000
MOST_BYTES = 64 << 20


def slices(operations: int) -> Iterator[Operations]:
    for done in range(0, operations, SLICE):
        size = min(SLICE, operations - done)
        # Built again for each slice, as suites do.
        yield Operations(lambda _: (callable,), list(range(size)), len)
        if sys.stderr.isatty() and done // SLICE % 100 == 0:
            print(f"\r{done / operations * 100:.0f} %", end="\r", file=sys.stderr, flush=True)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    parser = argparse.ArgumentParser(description="The peak memory of a billion operations.")
    parser.add_argument("--operations", type=int, default=10**9, metavar="N", help="default: 1000000000")
    parser.add_argument("--loop", choices=LOOPS, default="auto", help="default: auto")
    options = parser.parse_args()
    pace = Pace(loop=options.loop)
    measure(lambda number: slices(10 * SLICE), pace, lambda: None)
    baseline = resident_bytes()
    tally = measure(lambda number: slices(options.operations), pace, lambda: None)
    points = tally.series.points()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    found = percentiles([tally.latency.encode()])
    print(f"operations         {tally.operations:,} ({pick(options.loop).NAME} loop)")
    each = tally.elapsed_ns / tally.operations
    print(f"measured time      {tally.elapsed_ns / 1e9:.1f} s, {each:.1f} ns an operation")
    print(f"latency            p50 {found['p50']} ns, p99 {found['p99']} ns, {len(points)} points in time")
    print(f"baseline           {baseline / (1 << 20):.1f} MiB")
    print(
        f"peak               {peak / (1 << 20):.1f} MiB, {(peak - baseline) / (1 << 20):.1f} MiB above the baseline"
    )
    if tally.operations == options.operations and peak - baseline < MOST_BYTES:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
