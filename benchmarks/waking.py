"""Share of waking up cores in a server's figure: the same lookups with and without `--awake`, in turns.

    python benchmarks/waking.py [ENGINE[:OPTIONS]...] [--turns N] [--seconds S] [--records N]

One client does single lookups by key on each engine, in shuffled order. A turn is two runs in a row, one with the
cores kept awake and one without. Figures are medians over the turns: operations per second, the p50, and the client's
CPU time per lookup. The ratio of operations per second is taken by turn, with a 95 % interval. The last column shows
the doubt of the row whose cores slept, if it has any. Above the table are the cost of a wake-up during the runs and
the share of the machine that other processes used: where others keep the cores awake, the ratio shows nothing.

Exit status: 0 success; 1 something failed, and is named; 2 usage error; 3 nothing could be measured.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from thin import PHASE, compared

from dyno import registry
from dyno.contracts.model import UsageError
from dyno.options import RunRequest
from dyno.report.tables import units
from dyno.runner import parent, plan
from dyno.stats.doubts import doubts
from dyno.stats.summary import summarize

ENGINES = (
    *("postgresql", "postgresql:client=pq", "mariadb", "mariadb:client=c", "redis", "redis:client=hiredis"),
    *("valkey", "valkey:client=hiredis", "mongodb", "ferretdb"),
)


FIGURES = ("rate", "p50_ns", "cpu_ns")


class Turn(NamedTuple):
    """Figures of one run."""

    rate: float
    p50_ns: float
    cpu_ns: float | None
    """CPU time of the client per lookup."""
    doubt: str
    wakeup_ns: float | None
    others_percent: float | None


def turn(engine: str, awake: bool, seconds: float, records: int) -> Turn:
    """Executes one run. Raises UsageError."""
    params = {"records": [records]}
    run_plan = plan.make(
        RunRequest("records", [engine], params=params, phases=[PHASE], samples=1, duration=seconds, awake=awake),
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="waking-") as place:
        work = Path(place)
        work.chmod(0o755)
        run = parent.execute(run_plan, work / "run.json", work)
    row = next(row for row in summarize(run) if not row.cell.floor)
    if row.throughput is None or row.latency_ns["p50"] is None:
        raise UsageError(f"{engine}: {row.why}")
    doubt = next((doubt.short for doubt in doubts(row, run) if doubt.code == "wake-ups"), "")
    host = run.header.host
    cost = None
    if host.wakeups is not None:
        cost = host.wakeups.cost_ns
    others = host.pressure.others_busy_percent
    return Turn(row.throughput.median, row.latency_ns["p50"], row.client_cpu_ns, doubt, cost, others)


def show(seen: dict[str, tuple[list[Turn], list[Turn]]]) -> None:
    turns = [turn for pair in seen.values() for each in pair for turn in each]
    for what, known, unit in (
        ("a wake-up", [turn.wakeup_ns / 1000 for turn in turns if turn.wakeup_ns is not None], "µs"),
        ("others", [turn.others_percent for turn in turns if turn.others_percent is not None], "% of the CPU time"),
    ):
        if known:
            print(f"{what}: {median(known):.1f} {unit} ({min(known):.1f} – {max(known):.1f})")
    heads = f"{'op/s asleep':>14}{'awake':>10}{'ratio':>22}{'p50 asleep':>14}{'awake':>10}"
    print(f"\n{'':<26}{heads}{'client asleep':>16}{'awake':>10}  doubt")
    for engine, (slept, kept) in seen.items():
        rates, p50s, costs = ([_median(each, name) for each in (slept, kept)] for name in FIGURES)
        ratio = compared([one.rate / its.rate for one, its in zip(kept, slept, strict=True)])
        line = f"{engine:<26}{rates[0]:>14,.0f}{rates[1]:>10,.0f}{ratio:>22}"
        for (asleep, awake), width in ((p50s, 14), (costs, 16)):
            line += f"{units.cpu_time(asleep):>{width}}{units.cpu_time(awake):>10}"
        print(f"{line}  {max(turn.doubt for turn in slept)}")


def _median(turns: Sequence[Turn], name: str) -> float:
    values = [getattr(turn, name) for turn in turns]
    return float(median(value for value in values if value is not None))


def main() -> int:
    parser = argparse.ArgumentParser(description="What waking up cores is in a server's figure.")
    parser.add_argument("engine", nargs="*", help="default: all servers that are here, by their thin clients, too")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("--seconds", type=float, default=1, metavar="S", help="of each run; default: 1")
    parser.add_argument("--records", type=int, default=5_000, metavar="N", help="default: 5000")
    args = parser.parse_args()
    engines = args.engine or [
        name for name in ENGINES if not registry.engine(name.partition(":")[0]).explain_unavailability()
    ]
    seen: dict[str, tuple[list[Turn], list[Turn]]] = {engine: ([], []) for engine in engines}
    shuffle, failed = random.Random(1), False
    for _ in range(args.turns):
        for engine in shuffle.sample(engines, len(engines)):
            order = shuffle.sample((False, True), 2)
            try:
                pair = {awake: turn(engine, awake, args.seconds, args.records) for awake in order}
            except UsageError as error:
                failed = True
                print(error, file=sys.stderr)
                continue
            for awake, output in pair.items():
                seen[engine][awake].append(output)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    measured = {engine: pair for engine, pair in seen.items() if pair[0]}
    if not measured:
        return 3
    show(measured)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
