"""Random reads of an engine through the whole of Dyno, against a bare Python loop over the same callable.

    python benchmarks/bare.py [--engine lmdb] [--records N] [--pairs N]

Both run in one process on one loaded store, in pairs. The first of a pair is a pass of the phase `rand-key` of the
records suite (raw encoder), as in a trial. The second is a pass of `for key in keys: get(key)` in a read transaction,
over the same keys in the same order, without keeping or checking the answers. The figure is the median of the pairs'
ratios. Exit status 1: the figure is under 0.95.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from dyno import registry
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Job, Operations
from dyno.measure.loop import disable_collection
from dyno.measure.phase import Stopwatch, measure_phase

LEAST = 0.95


def opened(engine: str, records: int, home: Path) -> Job:
    suite = registry.suite("records")
    spec = registry.reduce_to_suite(suite, registry.engine(engine))
    if spec is None:
        raise SystemExit(f"bare.py: engine {engine} has no port of the suite records")
    params = {setting.name: setting.default for setting in suite.params} | {"records": records, "encoder": "raw"}
    return Job(spec, home, spec.default_tier, spec.resolve({}), params, seed=1, clients=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Reads through Dyno, against a bare Python loop.")
    parser.add_argument("--engine", default="lmdb", help="default: lmdb")
    parser.add_argument("--records", type=int, default=235_886, metavar="N", help="default: 235886")
    parser.add_argument("--pairs", type=int, default=15, metavar="N", help="default: 15")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as place:
        port: Any
        job = opened(options.engine, options.records, Path(place).absolute())
        suite = registry.suite("records")
        workload = suite.workload(job)
        phase = next(phase for phase in suite.phases if phase.name == "rand-key")
        workload.prepare(phase)
        ratios, mine, bare = [], [], []
        with workload.connect() as port:
            slices = [part for part in workload.work(phase, port, 0, 1, 0) if isinstance(part, Operations)]
            keys = [key for part in slices for key in part.arguments]
            for _ in range(options.pairs):
                with disable_collection(), port.reading() as reader:
                    get, begin = reader.get, perf_counter_ns()
                    for key in keys:
                        get(key)
                    bare.append(len(keys) / (perf_counter_ns() - begin) * 1e9)
                sample = measure_phase(workload, phase, job, Pace(), Stopwatch())
                mine.append(sample.per_second or 0.0)
                ratios.append(mine[-1] / bare[-1])
        workload.close()
    each = statistics.median(ratios)
    print(f"{options.engine}, rand-key, raw encoder, {options.records:,} records, {options.pairs} pairs")
    print(f"bare Python loop   {statistics.median(bare):>12,.0f} op/s")
    print(f"through Dyno       {statistics.median(mine):>12,.0f} op/s")
    print(f"ratio              {each:>12.3f}   ({min(ratios):.3f} to {max(ratios):.3f})")
    return 0 if each >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
