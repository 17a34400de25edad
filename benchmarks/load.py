"""Size of a large run file, time to read it, and time and memory of the commands that show it.

    python benchmarks/load.py [--cells N] [--deep N] [--engines N] [--phases N] [--only COMMAND[,...]]

The runs are made up in the shape that Dyno writes. Every sample has all fields, and a histogram of log-normal
latencies around a median of its own. There are two kinds of runs:

- deep: 100 cells, 10 samples and 10 phases. Reported are its size and the time to read it, over 5 repeats.
- wide: a sweep of N cells with 3 samples, and sweeps of a hundredth and a tenth of N cells. Engines run at two tiers,
each with every combination of three parameters. Reported are, for each command, the CPU time, including the
interpreter's start, and the peak of its memory. The row `reading` is a process that only reads the file: subtract it
for a command's own part.

Exit status 1: the deep run took 1 s or more to read; or, for the widest run, a command took over 500 MiB, or over 10
s for each 10,000 cells that it shows. `plot` may take 5 s more: it draws every chart, however small the run is.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from time import perf_counter_ns
from unittest.mock import patch

import numpy as np

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Caveat, Tier
from dyno.fields import Sample
from dyno.report.tables.table import groups
from dyno.results import Attempt, Run
from dyno.stats.summary import summarize

MOST_READING_SECONDS = 1.0
MOST_SECONDS, MOST_MIB = 10.0, 500.0
MORE = {"plot": 5.0, "site of two": 10.0}
"""Additional seconds: for charts that `plot` draws whatever the size of the run, and for the site's page of another
10,000 cells.
"""
WIDEST = 10_000
"""The limits of time hold per this many cells."""
REPEATS = 5
DEEP = 100
# The number of different histograms: one for each sample would take a minute to encode.
POOL = 100
USED = dict.fromkeys(
    ("user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "major_faults", "asked_bytes"), 123_456_789
)


@cache
def histograms(operations: int) -> list[bytes]:
    rng, found = np.random.default_rng(1), []
    for _ in range(POOL):
        recorder = Recorder()
        recorder.add(rng.lognormal(rng.uniform(7, 13), 0.6, operations).astype(np.int64))
        found.append(recorder.encode() or b"")
    return found


def sample(phase: str, operations: int, histogram: bytes, elapsed_ns: int) -> Sample:
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


def attempts(cells: int, samples: int, phases: list[str], operations: int, seed: int) -> Iterator[Attempt]:
    pool, rng = histograms(operations), np.random.default_rng(seed)
    for block in range(samples):
        for cell in range(cells):
            # 10 % between one engine and the next, and 5 % noise.
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


@dataclass(frozen=True)
class Shape:
    """Size of a made-up run."""

    cells: list[Cell]
    samples: int
    phases: int
    operations: int
    """Operations of one sample."""


def deep(cells: int = DEEP) -> Shape:
    """Ten engines, each with enough values of a parameter."""
    run_plan = [
        Cell("records", f"engine-{at % 10}", {}, Tier.PROCESS, {"records": 10 ** (at // 10), "clients": 1})
        for at in range(cells)
    ]
    return Shape(run_plan, 10, 10, 20_000)


def wide(count: int, engines: int, phases: int) -> Shape:
    """A sweep: engines (the last is a null engine) at two tiers, with all values of three parameters, two of which
    have five."""
    tiers, few = (Tier.PROCESS, Tier.POWER), (1, 2, 4, 8, 16)
    each = -(-count // (engines * len(tiers) * len(few) ** 2))
    cells = [
        Cell(
            *("records", f"engine-{at}", {}, tier),
            {"records": 1_000 * (size + 1), "batch": batch, "clients": clients},
            floor=at == engines - 1,
        )
        for size, batch, clients, tier, at in product(range(each), few, few, tiers, range(engines))
    ]
    return Shape(cells[:count], 3, phases, 20_000)


def write(path: Path, shape: Shape, seed: int = 2) -> None:
    """Writes a made-up run file; `seed` seeds the noise."""
    phases = [f"phase-{at}" for at in range(shape.phases)]
    plan = {"suite": "records", "phases": phases, "samples": shape.samples, "seed": 1, "budget": 2.0}
    # Flushing after each of 30,000 trials would take minutes.
    with patch("os.fsync"):
        results.create(path, {"plan": plan, "host": {}}, shape.cells)
        for attempt in attempts(len(shape.cells), shape.samples, phases, shape.operations, seed):
            results.append(path, attempt)


def seconds(call: Callable[[], object]) -> float:
    """Median seconds over repeats."""
    found = []
    for _ in range(REPEATS):
        begin = perf_counter_ns()
        call()
        found.append((perf_counter_ns() - begin) / 1e9)
    return statistics.median(found)


def reading(place: Path, cells: int) -> bool:
    """Prints the cost of a deep run; returns whether it is within its limit."""
    path, shape = place / "deep.json", deep(cells)
    write(path, shape)
    size, count = path.stat().st_size, len(shape.cells) * shape.samples * shape.phases
    each = statistics.mean(map(len, histograms(shape.operations)))
    print(f"{len(shape.cells)} cells, {shape.samples} samples, {shape.phases} phases: {count:,} samples")
    print(f"size               {size / (1 << 20):>8.1f} MiB, {size / count:,.0f} bytes a sample,")
    print(f"                   of which its histogram {each:,.0f}")
    took = seconds(lambda: results.load(path))
    run = results.load(path)

    def again() -> Run:
        """A copy of the run without cached summaries."""
        return Run(run.path, run.recorded, run.cells, run.attempts)

    print(f"results.load       {took:>8.2f} s")
    print(f"summarize          {seconds(lambda: summarize(again())):>8.2f} s")
    print(f"report.table       {seconds(lambda: groups(again())):>8.2f} s, summarize and doubts")
    return took < MOST_READING_SECONDS


def commands(run: Path, other: Path, place: Path) -> dict[str, list[str]]:
    """Names of the commands, and their arguments."""
    dyno, file, base = [sys.executable, "-m", "dyno"], str(run), str(other)
    read = f"from pathlib import Path; from dyno import results; results.load(Path({file!r}))"
    return {
        "reading": [sys.executable, "-c", read],
        "show": [*dyno, "show", file],
        "show --json": [*dyno, "show", file, "--json"],
        "show --csv": [*dyno, "show", file, "--csv"],
        "show --markdown": [*dyno, "show", file, "--markdown"],
        "compare": [*dyno, "compare", file],
        "compare of two": [*dyno, "compare", base, file],
        "check": [*dyno, "check", file, "--against", base],
        "report": [*dyno, "report", file, "--overwrite", "-o", str(place / "report.html")],
        "plot": [*dyno, "plot", file, "-o", f"{place}/charts/"],
        "site": [*dyno, "site", file, "-o", str(place / "site")],
        "site of two": [*dyno, "site", file, base, "-o", str(place / "site")],
    }


# Started by a small process in between: a direct child would inherit this process's peak memory.
BETWEEN = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def spent(words: Sequence[str]) -> tuple[float, float]:
    """Returns CPU seconds and peak resident MiB of a command, which must succeed."""
    ended = subprocess.run([sys.executable, "-c", BETWEEN, *words], capture_output=True, text=True, check=True)
    status, seconds, peak = ended.stdout.split()
    # Exit status 1 is a result, such as a slower row.
    assert status in ("0", "1") and "Traceback" not in ended.stderr, f"{' '.join(words)}: {ended.stderr}"
    return float(seconds), int(peak) / 1024


def table(place: Path, options: argparse.Namespace) -> bool:
    """Prints the cost of commands for runs of three sizes; returns whether the widest is within all limits."""
    sizes = [max(options.cells // part, 1) for part in (100, 10, 1)]
    found: dict[str, list[tuple[float, float]]] = {}
    shape = wide(sizes[-1], options.engines, options.phases)
    print(f"\n{options.engines} engines, {shape.samples} samples, phases: {options.phases}")
    for size in sizes:
        run, other = place / f"wide-{size}.json", place / f"before-{size}.json"
        for seed, path in enumerate((run, other)):
            write(path, wide(size, options.engines, options.phases), seed)
        print(f"{size:,} cells: {run.stat().st_size / (1 << 20):.1f} MiB", flush=True)
        for name, words in commands(run, other, place).items():
            if not options.only or name in options.only:
                found.setdefault(name, []).append(spent(words))
        for path in (run, other):
            path.unlink()
    print("".join([f"{'':<16}", *(f"{f'{size:,} cells':>22}" for size in sizes)]))
    well = True
    for name, figures in found.items():
        took, peak = figures[-1]
        over = sizes[-1] <= WIDEST and (took > MOST_SECONDS + MORE.get(name, 0) or peak > MOST_MIB)
        cells = "".join(f"{took:>10.2f} s {peak:>5.0f} MiB" for took, peak in figures)
        print(f"{name:<16}{cells}{'  too much' if over else ''}")
        well = well and not over
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description="How large a run file is, and what commands take for large ones.")
    parser.add_argument("--cells", type=int, default=WIDEST, metavar="N", help="of the widest run; default: 10000")
    parser.add_argument("--deep", type=int, default=DEEP, metavar="N", help="cells of the deep run; default: 100")
    parser.add_argument("--engines", type=int, default=10, metavar="N", help="of a wide run; default: 10")
    parser.add_argument("--phases", type=int, default=1, metavar="N", help="of a wide run; default: 1")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="COMMAND,...", help="these commands")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as place:
        well = [reading(Path(place), options.deep), table(Path(place), options)]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
