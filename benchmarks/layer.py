"""Cost of the record layer with keys packed by the native module and in Python, in turns.

    python benchmarks/layer.py [--engine nullkv] [--records N] [--pairs N]

The first figure is the CPU time of packing a key alone: the median of batches in turns. Then phases of the records
suite run through the whole of Dyno, in one process on one loaded store, in pairs of one pass each way. Their figures
are the time of an operation, as a median over pairs, and the ratio of the two ways. On the engine nullkv, the time of
an operation is the cost of harness and layer together, without the decoding of a record. Exit status 1: native
packing takes more than half of the time of packing in Python.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import thread_time_ns

from dyno import registry
from dyno.contracts.model import Phase
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Job, Workload
from dyno.measure.phase import Stopwatch, measure_phase
from dyno.suites.records import layer

PHASES = ("rand-key", "rand-index", "scan", "update")
HALF = 0.5
TURNS, BATCH = 200, 500
Pack = Callable[[bytes, tuple[str, ...]], bytes]
WAYS: dict[str, Pack] = {"python": layer.python_pack, "native": layer.pack}


def packing() -> dict[str, float]:
    """CPU time of packing a record's key in each way, in ns, without the cost of an empty call."""
    some = [(f"abcde{number:05}", f"ABCDE{number:05}") for number in range(BATCH)]
    ways: dict[str, Pack] = {"nothing": lambda prefix, parts: prefix, **WAYS}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, pack in ways.items():
            begin = thread_time_ns()
            for key in some:
                pack(b"r", key)
            spent[name].append((thread_time_ns() - begin) / BATCH)
    each = {name: statistics.median(values) for name, values in spent.items()}
    return {name: each[name] - each["nothing"] for name in WAYS}


def each_ns(workload: Workload, phase: Phase, job: Job, pack: Pack) -> float:
    layer.pack = pack
    sample = measure_phase(workload, phase, job, Pace(), Stopwatch())
    used = sample.client or {}
    return ((used.get("user_ns") or 0) + (used.get("system_ns") or 0)) / sample.items


def main() -> int:
    parser = argparse.ArgumentParser(description="What the record layer costs, natively and in Python.")
    parser.add_argument("--engine", default="nullkv", help="one of the port ordered-kv; default: nullkv")
    parser.add_argument("--records", type=int, default=20_000, metavar="N", help="default: 20000")
    parser.add_argument("--pairs", type=int, default=15, metavar="N", help="default: 15")
    args = parser.parse_args()
    if not layer.NATIVE:
        print("the native module is not built: install a Rust toolchain and Dyno again")
        return 1
    alone = packing()
    print(f"{'':24}{'Python':>12}{'native':>12}{'ratio':>10}")
    print(f"{'a key, CPU ns':24}{alone['python']:>12.0f}{alone['native']:>12.0f}", end="")
    print(f"{alone['native'] / alone['python']:>10.2f}")
    suite, spec = registry.suite("records"), registry.engine(args.engine)
    params = {setting.name: setting.default for setting in suite.params} | {"records": args.records}
    with tempfile.TemporaryDirectory(dir=".") as place:
        home, options = Path(place).absolute(), spec.resolve({})
        job = Job(spec.reduce_to_port("ordered-kv"), home, spec.default_tier, options, params, seed=1, clients=1)
        workload = suite.workload(job)
        for phase in suite.phases:
            if phase.name not in PHASES:
                continue
            workload.prepare(phase)
            pairs = [[each_ns(workload, phase, job, pack) for pack in WAYS.values()] for _ in range(args.pairs)]
            python, native = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratios = [mine / other for other, mine in pairs]
            ratio = statistics.median(ratios)
            print(f"{phase.name + ', CPU ns/op':24}{python:>12.0f}{native:>12.0f}{ratio:>10.2f}", end="")
            print(f"   ({min(ratios):.2f} to {max(ratios):.2f}), {args.engine}")
        workload.close()
    if alone["native"] <= HALF * alone["python"]:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
