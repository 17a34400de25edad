"""Throughput of the null engine with one client and with several, each a process: what the harness lets through.

    python benchmarks/clients.py [--clients N] [--records N] [--samples N]

A run of the records suite as any other, read phase `rand-key`; the ratio is that of a block, the figure is the median
over blocks. Exit status 1: under 0.9 of the number of clients.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from dyno.cli.progress import observer
from dyno.run import parent, plan
from dyno.run.asked import Asked

LEAST = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description="What the harness lets through, by the number of clients.")
    parser.add_argument("--clients", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--records", type=int, default=235_886, metavar="N", help="default: 235886")
    parser.add_argument("--samples", type=int, default=9, metavar="N", help="default: 9")
    asked = parser.parse_args()
    made = plan.make(
        Asked(
            "records",
            engines=["null"],
            params={"records": [asked.records]},
            clients=[1, asked.clients],
            phases=["rand-key"],
            samples=asked.samples,
            budget=60,
        )
    )
    with tempfile.TemporaryDirectory(dir=".") as place, observer() as watching:
        work = Path(place).absolute()
        run = parent.execute(made, work / "run.json", work, watching, resume=False, overwrite=False)
    rates: dict[tuple[int, int], float] = {}
    for attempt in run.final():
        for sample in attempt.samples:
            rates[attempt.block, sample.clients] = sample.per_second or 0.0
    blocks = range(asked.samples)
    ratios = [rates[block, asked.clients] / rates[block, 1] for block in blocks]
    for clients in (1, asked.clients):
        each = statistics.median(rates[block, clients] for block in blocks)
        print(f"null, rand-key, {clients} client{'s' if clients > 1 else ' '}  {each:>12,.0f} op/s")
    ratio = statistics.median(ratios)
    print(f"ratio                       {ratio:>12.2f}   ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0 if ratio >= LEAST * asked.clients else 1


if __name__ == "__main__":
    sys.exit(main())
