"""What a server's client library costs: each server by its default client and by a thinner one, in one run.

    python benchmarks/thin.py [--records N] [--blocks N]

Single lookups by key, in blocks of one trial each in shuffled order. For each: CPU time of client and server for a
lookup, and how many times as fast the thin client is, by block, with a 99 % interval. Servers that are not installed
are left out and named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from dyno import registry
from dyno.cli.progress import observer
from dyno.report import units
from dyno.run import parent, plan
from dyno.run.asked import Asked
from dyno.stats.compare import ratios
from dyno.stats.estimate import around, center
from dyno.stats.summary import summarize
from dyno.stats.verdict import CONFIDENCE

THIN = {"postgresql": "pq", "mariadb": "c", "redis": "hiredis", "valkey": "hiredis"}
PHASE = "rand-key"


def main() -> int:
    parser = argparse.ArgumentParser(description="What a server's client library costs.")
    parser.add_argument("--records", type=int, default=10_000, metavar="N", help="default: 10000")
    parser.add_argument("--blocks", type=int, default=8, metavar="N", help="default: 8")
    asked = parser.parse_args()
    there = [name for name in THIN if (why := registry.engine(name).lacking()) is None or print(f"{name} {why}")]
    if not there:
        return 3
    made = plan.make(
        Asked(
            "records",
            engines=[text for name in there for text in (name, f"{name}:client={THIN[name]}")],
            params={"records": [asked.records], "txn": [1]},
            phases=[PHASE],
            samples=asked.blocks,
            budget=30,
        )
    )
    with tempfile.TemporaryDirectory(dir=".") as place, observer() as watching:
        Path(place).chmod(0o755)
        work = Path(place).absolute()
        run = parent.execute(made, work / "run.json", work, watching, resume=False, overwrite=False)
    found = {row.cell.asked: row for row in summarize(run)}
    print(f"{'':24}{'client':>10}{'server':>10}{'op/s':>12}")
    for name, row in found.items():
        rate = row.throughput.median if row.throughput else 0
        costs = "".join(f"{units.cost(cost):>10}" for cost in (row.client_cpu_ns, row.server_cpu_ns))
        print(f"{name:24}{costs}{rate:>12,.0f}")
    for name in there:
        thin = f"{name}:client={THIN[name]}"
        by_block = ratios(run, PHASE, thin, name)
        found_ratio = around(median(by_block), center(by_block), CONFIDENCE)
        print(f"{thin}: {found_ratio.median:.2f} times as fast, {found_ratio.low:.2f} – {found_ratio.high:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
