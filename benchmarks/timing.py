"""`dyno time` beside hyperfine, and how sure its verdicts are.

    python benchmarks/timing.py [--hyperfine PROGRAM] [--turns N] [--runs N] [--seconds 0.005,0.05,0.5] [--blocks N]
        [--planted N]

Each turn measures the same command by both, in alternating order: a sleep, and a loop of the shell that keeps a core
busy until its time is over. A loop of fixed work would take 40 % more or less from turn to turn on a shared machine,
whoever measures it. For each command: the median over the turns of the ratio of both medians, and the spread of each,
which is the interquartile range of a turn's times over their median, of the median turn. Without hyperfine this part
is left out.

Then a command is compared with itself in --blocks blocks, which are cut into runs of ten; and with one that takes 3 %
longer, in a single `dyno time`.

Exit status 1: medians differ by more than 1 %, Dyno's spread is larger than hyperfine's by more than a tenth of a
percent, more than 1 % of the verdicts on equal commands are not 'alike' or 'unclear', or the 3 % are not found in
30 s.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

from dyno import results
from dyno.stats.compare import compare_pairs
from dyno.stats.metric import THROUGHPUT, speeds
from dyno.stats.summary import CellSummary, summarize

WITHIN, SPREAD, FALSE, FOUND_S = 0.01, 0.001, 0.01, 30.0
DYNO = [sys.executable, "-m", "dyno", "time"]
CHUNK = 10
"""Blocks of a run of the usual size."""


def main() -> int:
    parser = argparse.ArgumentParser(description="dyno time beside hyperfine, and its verdicts.")
    parser.add_argument("--hyperfine", default="hyperfine", metavar="PROGRAM")
    parser.add_argument("--turns", type=int, default=5, metavar="N")
    parser.add_argument(
        "--runs", type=int, default=50, metavar="N", help="runs of each command in a turn, at least 10"
    )
    parser.add_argument("--seconds", default="0.005,0.05,0.5", help="durations of the commands")
    parser.add_argument("--blocks", type=int, default=1_000, metavar="N", help="blocks of equal commands")
    parser.add_argument("--planted", type=int, metavar="N", help="blocks of the slower command; default: dyno time's")
    options = parser.parse_args()
    kept = True
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        if program := shutil.which(options.hyperfine):
            for seconds in map(float, options.seconds.split(",")):
                for name, command in commands(seconds).items():
                    kept &= beside(program, f"{name} {seconds:g} s", command, options, Path(home))
        else:
            print(f"hyperfine is not installed ({options.hyperfine}): this part is left out")
        kept &= alike(options.blocks, Path(home))
        kept &= planted(options.planted, Path(home))
    return 0 if kept else 1


def commands(seconds: float) -> dict[str, str]:
    """Returns a command that sleeps and one that keeps a core busy, each for so long."""
    busy = f"timeout --preserve-status {seconds:g} sh -c 'trap \"exit 0\" TERM; while :; do :; done'"
    return {"sleep": f"sleep {seconds:g}", "busy": busy}


def by_dyno(words: Sequence[str], home: Path) -> Path:
    """Runs `dyno time` and returns the path of the run file."""
    path = home / "r.json"
    ended = subprocess.run(
        [*DYNO, *words, "-o", str(path), "--overwrite", "--work", str(home / "work")], capture_output=True, text=True
    )
    if ended.returncode:
        sys.exit(f"dyno time failed: {ended.stdout}{ended.stderr}")
    return path


def rows(path: Path) -> list[CellSummary]:
    return [row for row in summarize(results.load(path)) if not row.cell.floor]


def beside(program: str, name: str, command: str, options: argparse.Namespace, home: Path) -> bool:
    medians: dict[str, list[float]] = {"dyno": [], "hyperfine": []}
    ranges: dict[str, list[float]] = {"dyno": [], "hyperfine": []}
    exported = str(home / "h.json")
    for turn in range(options.turns):
        for tool in sorted(medians, reverse=turn % 2 == 0):
            if tool == "dyno":
                by_dyno([command, "-r", str(options.runs), "--export-json", exported], home)
            else:
                words = [program, "-N", "--style", "none", "--runs", str(options.runs), "--export-json", exported]
                subprocess.run([*words, command], check=True, capture_output=True)
            (entry,) = json.loads(Path(exported).read_text())["results"]
            low, middle, high = quantiles(entry["times"], n=4)
            medians[tool].append(middle)
            ranges[tool].append((high - low) / middle)
    # Of the two medians of a turn, since the speed of a shared machine changes from turn to turn.
    ratio = median(mine / other for mine, other in zip(medians["dyno"], medians["hyperfine"], strict=True))
    spreads = {tool: median(of) for tool, of in ranges.items()}
    good = abs(ratio - 1) <= WITHIN and spreads["dyno"] <= spreads["hyperfine"] + SPREAD
    figures = ", ".join(f"{tool} {median(of) * 1e3:.3f} ms ± {spreads[tool]:.2%}" for tool, of in medians.items())
    print(f"{name}: {figures}, ratio {ratio:.4f}{'' if good else '  NOT KEPT'}", flush=True)
    return good


def alike(blocks: int, home: Path) -> bool:
    """Compares a command with itself. Two commands that are spelled alike would be one row."""
    words = ["sleep 0.002", "sleep  0.002", "--samples", str(blocks), "--budget", "0.02"]
    one, other = (speeds(row, THROUGHPUT) for row in rows(by_dyno(words, home)))
    shared = sorted(one.keys() & other.keys())
    chunks = [shared[at : at + CHUNK] for at in range(0, len(shared) - CHUNK + 1, CHUNK)] or [shared]
    kinds = [compare_pairs([(one[block], other[block]) for block in chunk]).kind for chunk in chunks]
    wrong = sum(kind in ("faster", "slower") for kind in kinds)
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    print(f"equal commands, {len(chunks)} comparisons of {CHUNK} blocks: {counts}", flush=True)
    return wrong <= FALSE * len(chunks)


def planted(blocks: int | None, home: Path) -> bool:
    samples = [] if blocks is None else ["--samples", str(blocks)]
    begin = time.monotonic()
    path = by_dyno(["sleep 0.05", "sleep 0.0515", *samples], home)
    took = time.monotonic() - begin
    one, other = (speeds(row, THROUGHPUT) for row in rows(path))
    verdict = compare_pairs([(one[block], other[block]) for block in one.keys() & other.keys()], margin=0.01)
    print(f"3 % longer: {verdict.kind}, ratio {verdict.ratio:.4f}, in {took:.1f} s")
    return verdict.kind == "faster" and took <= FOUND_S


if __name__ == "__main__":
    sys.exit(main())
