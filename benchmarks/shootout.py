"""Dyno's suite `objects` beside zodbshootout, in turns on this machine: time per transaction, and time of each
benchmark.

    python benchmarks/shootout.py --zodbshootout PATH [--turns N] [--objects N]

PATH is zodbshootout's program, in its own environment with compatible versions:

    python -m venv DIR && DIR/bin/pip install zodbshootout==0.8.0 pyperf==2.3.1 six RelStorage

Newer versions of pyperf have an option whose name collides with one of zodbshootout. Both benchmarks write objects of
the same size, the size of zodbshootout's pickles: for a requested size of 300 bytes they are 1,480 bytes long. Both
have the same cache sizes, use the same driver and flush each commit. Each turn has one run of each benchmark, and the
order alternates.

For `add` and `update`, both time the same steps: a transaction from its beginning to the return of its commit, on an
open connection. For a cold read, they time different steps. zodbshootout opens the database again for each read. Its
span begins with a new connection, which must also load the path to the container, and it always reads the same
container. Dyno's connection stays open, drops its cache within the span, and reads another container each time.
Python's garbage collector is on in zodbshootout and off in Dyno.

Beside wall-clock time stands the CPU time of a transaction, which other processes on the machine affect less. For
zodbshootout, its own loops with another clock measure it; for Dyno, it comes from the run file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dyno import results
from dyno.stats.estimate import compare_unpaired, make_interval
from dyno.stats.summary import client_cpu_ns, summarize

HERE = Path(__file__).resolve().parents[1]
STORAGES = {"filestorage": "filestorage", "sqlite": "relstorage:backend=sqlite"}
"""Dyno's engine for each storage, by the storage's name in zodbshootout's configuration."""
PHASES = {"add": "add", "update": "update", "cold": "read-cold"}
"""Dyno's phase for each benchmark of zodbshootout."""
SAME = ("add", "update")
"""Benchmarks of which both time the same steps."""
OBJECT_SIZE = 300
"""Requested object size in bytes: zodbshootout's default."""
CACHE_MIB = 256
"""Cache size of RelStorage and of SQLite, as in Dyno."""
TRIALS, TRANSACTIONS = 5, 10
"""Processes per benchmark in a turn, and transactions per process: zodbshootout's own number."""
CLOSE, CONFIDENCE = 0.15, 0.95
DISABLED = "(disabled)"
"""Marks the names of benchmarks that could not run; their figures mean nothing."""
CONFIGURATION = """
%import relstorage
<zodb filestorage>
    <filestorage>
        path {home}/Data.fs
        blob-dir {home}/blobs
    </filestorage>
</zodb>
<zodb sqlite>
    <relstorage>
        name dyno
        keep-history true
        blob-dir {home}/sqlite-blobs
        shared-blob-dir true
        cache-local-mb {cache}
        <sqlite3>
            driver sqlite3
            data-dir {home}/sqlite
            <pragmas>
                synchronous full
                cache_size -{pages}
            </pragmas>
        </sqlite3>
    </relstorage>
</zodb>
"""
CPU_PROGRAM = """
import json, sys, time
from zodbshootout import speedtest
from zodbshootout._dbsupport import BenchmarkDBFactory, get_databases_from_conf_file
speedtest.perf_counter = time.process_time
configuration, storage, objects, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
made = next(d for d in get_databases_from_conf_file(open(configuration)) if d.name == storage)
factory = BenchmarkDBFactory(made, objects, 1, can_zap=True)
worker = speedtest.SpeedTestWorker(0, speedtest.SpeedTestData(1, objects, size))
calls = {"add": worker.bench_add, "update": worker.bench_update, "cold": worker.bench_cold_read}
print(json.dumps({name: call(1, factory) / worker.inner_loops * 1e9 for name, call in calls.items()}))
"""
Times = dict[tuple[str, str], list[float]]
"""Mean times of a transaction in ns, one for each process, by storage and phase in zodbshootout's names."""


class Turn(NamedTuple):
    seconds: float
    times: Times
    cpu: Times
    """CPU times in the same form."""


def main() -> int:
    parser = argparse.ArgumentParser(description="The suite objects beside zodbshootout, in turns.")
    parser.add_argument("--zodbshootout", type=Path, required=True, metavar="PATH", help="its program")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--objects", type=int, default=1_000, metavar="N", help="of a transaction; default: 1000")
    options = parser.parse_args()
    program = options.zodbshootout.absolute()
    if not os.access(program, os.X_OK):
        parser.error(f"{program} is no program")
    python = program.with_name("python")
    size = content_bytes(python, options.objects)
    print(f"{options.objects:,} objects of a transaction, each with {size} bytes", flush=True)
    ours: list[Turn] = []
    theirs: list[Turn] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for number in range(options.turns):
            home = Path(folder) / str(number)
            home.mkdir()
            sides = [
                lambda home=home: theirs.append(shootout(program, home, options.objects)),
                lambda home=home: ours.append(dyno(home, options.objects, size)),
            ]
            for side in sides[:: (-1) ** number]:
                side()
            output = ", ".join(
                f"{n} {t.seconds:.0f} s" for n, t in (("zodbshootout", theirs[-1]), ("dyno", ours[-1]))
            )
            print(f"turn {number + 1}: {output}", flush=True)
    return compared(theirs, ours)


def content_bytes(python: Path, objects: int) -> int:
    """Content size that makes Dyno's pickles as long as zodbshootout's, which hold whole words of a text and exceed
    the requested size."""
    program = (
        "from zodbshootout.speedtest import SpeedTestData\n"
        f"pickles = SpeedTestData(1, {objects}, {OBJECT_SIZE}).make_pickles({objects})\n"
        "print(sum(map(len, pickles)) / len(pickles))"
    )
    output = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout
    from ZODB.serialize import ObjectWriter

    from dyno.suites.objects.items import Item

    return max(round(float(output)) - len(ObjectWriter().serialize(Item(b""))), 27)


def shootout(program: Path, home: Path, objects: int) -> Turn:
    (home / "sqlite").mkdir()
    configuration, out = home / "shootout.conf", home / "shootout.json"
    configuration.write_text(CONFIGURATION.format(home=home, cache=CACHE_MIB, pages=CACHE_MIB * 1024))
    words = [
        "--object-counts",
        objects,
        "--object-size",
        OBJECT_SIZE,
        "-c",
        1,
        "--include-mapping",
        "no",
        "--zap",
        "force",
    ]
    # A process does as many transactions as one of Dyno's: one loop of 10, without a warm-up.
    pyperf = ["--processes", TRIALS, "--values", 1, "--loops", 1, "--warmups", 0, "--output", out]
    command = [program, *words, *pyperf, configuration, *PHASES]
    seconds = timed(command, home)
    found: Times = {}
    for benchmark in json.loads(out.read_text())["benchmarks"]:
        name = benchmark["metadata"]["name"]
        if DISABLED in name:
            continue
        # A name looks like '{c=1 processes, o=1000} sqlite: add 1000 objects'.
        storage, _, what = name.partition("} ")[2].partition(": ")
        phase = next(phase for phase in PHASES if phase in what.split())
        values = [value for run in benchmark["runs"] for value in run.get("values", ())]
        found[storage, phase] = [value * 1e9 for value in values]
    return Turn(seconds, found, cpu_of(program.with_name("python"), configuration, home, objects))


def cpu_of(python: Path, configuration: Path, home: Path, objects: int) -> Times:
    """CPU time of the same loops of zodbshootout, with as many processes."""
    found: Times = {}
    for storage in STORAGES:
        for _ in range(TRIALS):
            words = [str(python), "-c", CPU_PROGRAM, str(configuration), storage, str(objects), str(OBJECT_SIZE)]
            output = subprocess.run(words, cwd=home, check=True, capture_output=True, text=True).stdout
            for phase, ns in json.loads(output).items():
                found.setdefault((storage, phase), []).append(ns)
    return found


def dyno(home: Path, objects: int, size: int) -> Turn:
    out = home / "dyno.json"
    params = {"objects": objects, "object_size": size, "transactions": TRANSACTIONS}
    words = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
    words += ["--phases", ",".join(PHASES.values()), "--samples", str(TRIALS), "--tier", "power", "--budget", "60"]
    command = [sys.executable, "-m", "dyno", "run", "objects", "-e", ",".join(STORAGES.values()), *words, "-o", out]
    seconds = timed(command, home)
    names = {ours: theirs for theirs, ours in {**STORAGES, **PHASES}.items()}
    found: Times = {}
    cpu: Times = {}
    for row in summarize(results.load(out)):
        if not row.cell.floor:
            key = names[row.cell.asked], names[row.phase]
            found[key] = [
                sample.busy_ns / sample.operations for sample in row.samples if sample.operations and sample.busy_ns
            ]
            cpu[key] = [each * objects for sample in row.samples if (each := client_cpu_ns(sample)) is not None]
    return Turn(seconds, found, cpu)


def timed(command: Sequence[object], home: Path) -> float:
    """Runs a command and returns its wall-clock seconds; prints the output of a failed command."""
    environment = {**os.environ, "PYTHONPATH": str(HERE / "src"), "DYNO_WORK": str(home / "work")}
    begin = time.perf_counter()
    ended = subprocess.run(
        [str(word) for word in command], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        sys.exit(f"{command[0]} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return time.perf_counter() - begin


def pooled(turns: Sequence[Times]) -> Times:
    keys = [(storage, phase) for storage in STORAGES for phase in PHASES]
    return {key: [time for times in turns for time in times.get(key, ())] for key in keys}


def compared(theirs: Sequence[Turn], ours: Sequence[Turn]) -> int:
    """Prints the comparison; returns whether an operation with equal steps deviates too far."""
    wall = pooled([turn.times for turn in theirs]), pooled([turn.times for turn in ours])
    cpu = pooled([turn.cpu for turn in theirs]), pooled([turn.cpu for turn in ours])
    far = False
    print(f"\nms of a transaction: {'zodbshootout':>20} {'dyno':>7}  dyno / zodbshootout [95 %]")
    for storage, phase in wall[0]:
        for what, (base, mine) in (("on the wall", wall), ("of the CPU", cpu)):
            times, own = base[storage, phase], mine[storage, phase]
            ratio = compare_unpaired(own, times)
            found = make_interval(math.exp(ratio.log), ratio, CONFIDENCE)
            assert found.low is not None and found.high is not None
            off = not 1 - CLOSE <= found.median <= 1 + CLOSE
            far = far or (off and phase in SAME and what == "on the wall")
            print(
                f"{storage:<11} {PHASES[phase]:<9} {what:<11} {median(times) / 1e6:>8.2f} {median(own) / 1e6:>7.2f}"
                f"  {found.median:.3f} [{found.low:.3f} to {found.high:.3f}]{', OFF' if off else ''}"
            )
    for name, turns in (("zodbshootout", theirs), ("dyno", ours)):
        print(f"{name}: {median(turn.seconds for turn in turns):.0f} s of the wall clock in the median turn")
    return int(far)


if __name__ == "__main__":
    sys.exit(main())
