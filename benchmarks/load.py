"""The run file: how large it is, and how long it takes to read, to summarize and to show.

    python benchmarks/load.py [--cells N] [--samples N] [--phases N] [--operations N] [--repeats N]

A made-up run of the shape that Dyno writes: every sample has a histogram of log-normal latencies, each around another
median, and all else that a sample has. The time is the median over repeats, in a process that has imported what it
needs; that of the whole command has the interpreter in it. Exit status 1: a run of 100 cells and 10 samples took 1 s
or more to read.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from dyno import results
from dyno.histogram import Recorder
from dyno.model import Caveat, Cell, Sample, Tier
from dyno.report.table import groups
from dyno.results import Attempt, Run
from dyno.stats.summary import summarize

MOST_SECONDS = 1.0
# As many different histograms; encoding one for each sample would take a minute.
POOL = 100
USED = dict.fromkeys(
    ("user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "major_faults", "asked_bytes"), 123_456_789
)


def histograms(operations: int) -> list[str]:
    rng, found = np.random.default_rng(1), []
    for _ in range(POOL):
        recorder = Recorder()
        recorder.add(rng.lognormal(rng.uniform(7, 13), 0.6, operations).astype(np.int64))
        found.append(recorder.encode() or "")
    return found


def sample(phase: str, operations: int, histogram: str, elapsed_ns: int) -> Sample:
    return Sample(
        phase=phase,
        unit="op",
        operations=operations,
        items=operations,
        elapsed_ns=elapsed_ns,
        busy_ns=elapsed_ns - elapsed_ns // 20,
        errors=0,
        ended_by="count",
        checked=operations,
        histogram=histogram,
        series=tuple(
            {"from_ns": at, "interval_ns": 10**9, "operations": 9, "p50_ns": 9, "p99_ns": 9} for at in (0, 10**9)
        ),
        client={**USED, "read_bytes": 0, "written_bytes": 0},
        device={"read_bytes": 0, "written_bytes": 4096},
        bytes_on_disk=123_456_789,
    )


def attempts(cells: int, samples: int, phases: list[str], operations: int) -> Iterator[Attempt]:
    pool, rng = histograms(operations), np.random.default_rng(2)
    for block in range(samples):
        for cell in range(cells):
            # A tenth from one engine to the next, and a noise of 5 %.
            times = rng.normal(1 + cell % 10 / 10, 0.05, len(phases)).clip(0.5) * 2e9
            found = [
                sample(name, operations, pool[(cell + at) % POOL], int(times[at])) for at, name in enumerate(phases)
            ]
            yield Attempt(
                cell=cell,
                block=block,
                attempt=0,
                outcome="ok",
                why=None,
                phase=None,
                samples=tuple(found),
                started="2026-01-01T00:00:00+00:00",
                duration_ns=10**9,
                version="3.40.1",
                settings={"journal_mode": "wal", "synchronous": "normal"},
                caveats=(Caveat("columns", "keeps its records in columns"),),
                resources={"client": {**USED, "peak_resident_bytes": 10**8}, "server": None},
                output=None,
                loop={"name": "native", "clock": "time-stamp counter", "operation_ns": 17.5, "span_ns": 9.0},
                strain={"steal_percent": 0.0, "swapped_in_bytes": 0, "elapsed_ns": 10**9},
            )


def write(path: Path, asked: argparse.Namespace) -> None:
    phases = [f"phase-{at}" for at in range(asked.phases)]
    plan = {"suite": "records", "phases": phases, "samples": asked.samples, "seed": 1, "budget": 2.0}
    # Engines of ten names, each with ten values of a parameter.
    cells = [
        Cell("records", f"engine-{at % 10}", {}, Tier.PROCESS, {"records": 10 ** (at // 10), "clients": 1})
        for at in range(asked.cells)
    ]
    results.create(path, {"plan": plan, "host": {}}, cells)
    for attempt in attempts(asked.cells, asked.samples, phases, asked.operations):
        results.append(path, attempt)


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The median over repeats."""
    found = []
    for _ in range(repeats):
        begin = perf_counter_ns()
        call()
        found.append((perf_counter_ns() - begin) / 1e9)
    return statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(description="The size of a run file, and how quickly it is read.")
    parser.add_argument("--cells", type=int, default=100, metavar="N", help="default: 100")
    parser.add_argument("--samples", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--phases", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--operations", type=int, default=20_000, metavar="N", help="of a sample; default: 20000")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="default: 5")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as place:
        path = Path(place) / "run.json"
        write(path, asked)
        size, count = path.stat().st_size, asked.cells * asked.samples * asked.phases
        each = statistics.mean(map(len, histograms(asked.operations)))
        print(f"{asked.cells} cells, {asked.samples} samples, {asked.phases} phases: {count:,} samples")
        print(f"size               {size / (1 << 20):>8.1f} MiB, {size / count:,.0f} bytes a sample,")
        print(f"                   of which its histogram {each:,.0f}")
        took = seconds(lambda: results.load(path), asked.repeats)
        run = results.load(path)

        def again() -> Run:
            """One that nobody has summarized yet."""
            return Run(run.path, run.header, run.cells, run.attempts)

        print(f"results.load       {took:>8.2f} s")
        print(f"summarize          {seconds(lambda: summarize(again()), asked.repeats):>8.2f} s")
        print(f"report.table       {seconds(lambda: groups(again()), asked.repeats):>8.2f} s, summarize and doubts")
        show = [sys.executable, "-m", "dyno", "show", str(path)]
        whole = seconds(lambda: subprocess.run(show, check=True, stdout=subprocess.DEVNULL), asked.repeats)
        print(f"dyno show          {whole:>8.2f} s, the whole command")
    return 0 if took < MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
