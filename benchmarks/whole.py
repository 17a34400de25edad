"""Compares the time of a whole run, by part, between two versions: A against B in turns.

    python benchmarks/whole.py --against DIR [--turns N] [--run until|demo|WORDS]

DIR is another checkout with its native module built, such as of `git worktree add DIR REVISION`; this interpreter
runs both. The report has seconds in total and per block, with the ratio by turn and its median; the shares of the
time by part; and the throughput of each row in B as a ratio to that in A, with a 95 % interval. Exit status 1: the
interval of a row does not hold 1. Chance alone does this to one row in twenty.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dyno import results
from dyno.results import Run
from dyno.stats.estimate import compare_unpaired, make_interval
from dyno.stats.summary import summarize

HERE = Path(__file__).resolve().parents[1]
RUNS = {"until": "records -e lmdb,sqlite --phases rand-key --until 5%", "demo": "records --samples 5"}
CONFIDENCE = 0.95
Rows = dict[tuple[str, ...], list[float]]


class Turn(NamedTuple):
    seconds: float
    run: Run


def main() -> int:
    parser = argparse.ArgumentParser(description="Time of a whole run, of this version and of another in turns.")
    parser.add_argument("--against", type=Path, required=True, metavar="DIR", help="another checkout: A")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--run", default="until", metavar="WORDS", help=f"{', '.join(RUNS)}, or words of `dyno run`")
    options = parser.parse_args()
    words = shlex.split(RUNS.get(options.run, options.run))
    print(f"dyno run {shlex.join(words)}: A is {options.against}, B is {HERE}", flush=True)
    turns: list[tuple[Turn, Turn]] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        for number in range(options.turns):
            # The order alternates, so that a drift of the machine affects both sides.
            sides = [(0, options.against.resolve()), (1, HERE)]
            done = {
                side: _timed(root, words, Path(home), f"{side}{number}") for side, root in sides[:: (-1) ** number]
            }
            turns.append((done[0], done[1]))
            _told(*turns[-1])
    factors = [b.seconds / a.seconds for a, b in turns]
    each = [_block(b) / _block(a) for a, b in turns]
    print(f"B takes {median(factors):.2f} of A's time, and {median(each):.2f} of it for a block, in the median")
    for name, side in (("A", [a for a, _ in turns]), ("B", [b for _, b in turns])):
        print(f"{name}, of its time: " + ", ".join(f"{part} {share:.0%}" for part, share in _shares(side)))
    return _compared([a.run for a, _ in turns], [b.run for _, b in turns])


def _timed(root: Path, words: Sequence[str], home: Path, name: str) -> Turn:
    path = home / f"{name}.json"
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "DYNO_WORK": str(home / "work")}
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "dyno", "run", *words, "-o", str(path)],
        env=environment,
        cwd=home,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - begin
    return Turn(seconds, results.load(path))


def _block(turn: Turn) -> float:
    return turn.seconds / turn.run.blocks


def _told(a: Turn, b: Turn) -> None:
    sides = (f"{name} {turn.seconds:.1f} s, {turn.run.blocks} blocks" for name, turn in (("A", a), ("B", b)))
    print(f"{'; '.join(sides)}: B takes {b.seconds / a.seconds:.2f} of the time", flush=True)


def _shares(turns: Sequence[Turn]) -> list[tuple[str, float]]:
    """Shares of the time of whole runs by part, largest first. Some versions don't report the parts of workers. The
    part of a phase excludes its timed operations.
    """
    whole, parts = sum(turn.seconds for turn in turns) * 1e9, Counter[str]()
    for turn in turns:
        for attempt in turn.run.attempts:
            timed = sum(sample.elapsed_ns for sample in attempt.samples)
            floor, output = turn.run.cells[attempt.cell].floor, sum(attempt.spent_ns.values())
            parts["before and after trials"] -= attempt.duration_ns
            if floor:
                parts["floors"] += attempt.duration_ns
                continue
            parts["timed"] += timed
            for part, ns in attempt.spent_ns.items():
                parts["inputs and checks" if part == "phase" else part] += ns
            parts["inputs and checks"] -= timed if attempt.spent_ns else 0
            parts["processes" if output else "all else"] += attempt.duration_ns - (output or timed)
    parts["before and after trials"] += int(whole)
    return [(part, ns / whole) for part, ns in parts.most_common()]


def _rates(runs: Sequence[Run]) -> Rows:
    """Throughput of every trial, by engine and phase."""
    found: Rows = {}
    for run in runs:
        for row in summarize(run):
            rates = [rate for sample in row.samples if (rate := sample.per_second) is not None]
            tier = str(getattr(row.cell.tier, "value", ""))
            if not row.cell.floor:
                found.setdefault((row.phase, row.cell.asked, tier), []).extend(rates)
    return found


def _compared(before: Sequence[Run], after: Sequence[Run]) -> int:
    a, b, changed = _rates(before), _rates(after), 0
    for key in (key for key in b if len(b[key]) > 2 and len(a.get(key, ())) > 2):
        ratio = compare_unpaired(b[key], a[key])
        found = make_interval(math.exp(ratio.log), ratio, CONFIDENCE)
        assert found.low is not None and found.high is not None
        other = not found.low <= 1 <= found.high
        changed += other
        print(
            f"{' '.join(key)}: {found.median:.3f} of A's, 95 % interval {found.low:.3f} to {found.high:.3f}", end=""
        )
        print(f", {len(a[key])} and {len(b[key])} trials" + (", CHANGED" if other else ""))
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
