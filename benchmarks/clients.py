"""Throughput of the null engine with one and with several client processes: the limit of the harness.

    python benchmarks/clients.py [--clients N] [--seconds S] [--samples N]

It measures the read phase `rand-key` of the records suite. The figure is the median over blocks of the ratio of
several clients to one. In turns with the blocks, it measures two limits of the machine itself: the same measuring
loop in as many independent processes, and an interpreted loop, which leaves half of a core's units idle. Two cores of
a virtual machine may be two threads of one core, or share memory with a neighbour; no harness can exceed these
limits. Exit status 1: the ratio is under 0.9 of the bare loops' ratio.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dyno.cli.progress import observer
from dyno.measure.loop import pick
from dyno.options import RunRequest
from dyno.runner import parent, plan

LEAST = 0.9
BARE_SECONDS = 0.5
RECORDS = 2_000
Bare = Callable[[float], float]


def main() -> int:
    parser = argparse.ArgumentParser(description="What the harness lets through, by the number of clients.")
    parser.add_argument("--clients", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="of a trial; default: 1")
    parser.add_argument("--samples", type=int, default=9, metavar="N", help="default: 9")
    args = parser.parse_args()
    run_plan = plan.make(
        RunRequest(
            "records",
            engines=["null"],
            clients=[1, args.clients],
            phases=["rand-key"],
            samples=args.samples,
            duration=args.seconds,
        )
    )
    bare: dict[Bare, list[float]] = {measuring: [], counting: []}
    with tempfile.TemporaryDirectory(dir=".") as place, observer() as watching:
        work = Path(place).absolute()
        for block in range(args.samples):
            for loop, found in bare.items():
                found.append(machine(loop, args.clients))
            run = parent.execute(
                run_plan, work / "run.json", work, watching, resume=block > 0, overwrite=False, most=1
            )
    rates: dict[tuple[int, int], float] = {}
    for attempt in run.final():
        for sample in attempt.samples:
            rates[attempt.block, sample.clients] = sample.per_second or 0.0
    blocks = range(args.samples)
    ratios = [rates[block, args.clients] / rates[block, 1] for block in blocks]
    for clients in (1, args.clients):
        each = statistics.median(rates[block, clients] for block in blocks)
        print(f"null, rand-key, {clients} client{'s' if clients > 1 else ' '}  {each:>12,.0f} op/s")
    alone = bare[measuring]
    for what, found in (("ratio", ratios), ("of bare measuring loops", alone), ("of bare Python", bare[counting])):
        print(f"{what:27} {statistics.median(found):>12.2f}   ({min(found):.2f} to {max(found):.2f})")
    if statistics.median(ratios) >= LEAST * statistics.median(alone):
        return 0
    return 1


def machine(loop: Bare, processes: int) -> float:
    """Speed-up of bare loops in several processes over a single one."""
    alone = sum(counted(loop, 1))
    return sum(counted(loop, processes)) / alone


def counted(loop: Bare, processes: int) -> list[float]:
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        # All processes start at the same moment, after all of them are ready.
        begin = time.monotonic() + 0.1
        return pool.map(loop, [begin] * processes, chunksize=1)


def counting(begin: float) -> float:
    """Counts rounds of an interpreted loop until a common moment."""
    while time.monotonic() < begin:
        pass
    rounds = 0
    while time.monotonic() < begin + BARE_SECONDS:
        rounds += 1
    return rounds


def measuring(begin: float) -> float:
    """Operations per second of the measuring loop with a dictionary lookup, from a common moment on."""
    keys = tuple(range(RECORDS))
    look = dict.fromkeys(keys, b"").get
    loop = pick()
    while time.monotonic() < begin:
        pass
    done, since = 0, time.monotonic()
    while (now := time.monotonic()) < begin + BARE_SECONDS:
        answers, _ = loop.closed((look,), keys, loop.now() + 10**9, type(None))
        done += len(answers)
    return done / (now - since)


if __name__ == "__main__":
    sys.exit(main())
