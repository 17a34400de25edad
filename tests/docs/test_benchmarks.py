"""Checks that every benchmark runs and prints figures at a tiny size. Checking the limits themselves needs a quiet
machine and more time.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from madeup import a_cell, of_rates
from needed import unavailable
from shell import TESTS

from dyno.options import RunRequest
from dyno.results import Run

sys.path.append(str(TESTS.parent / "benchmarks"))
import apart
import certainty
import families

pytestmark = pytest.mark.usefixtures("processes")

ROOT = TESTS.parent
BENCHMARKS = ROOT / "benchmarks"
SECONDS = 300
"""Timeout in seconds, long enough for a busy machine."""
TINY = {
    "asking": "--turns 1 --seconds 0.1 --inflight 1",
    "bare": "--records 500 --pairs 2",
    "bisecting": "--rounds 1 --versions 3 --planted 300% --within 20s --operations 10 --quiet",
    "busy": "--clients 2 --load native --seconds 0.3 --records 50 --mean 1",
    "causes": "--only computing --samples 3 --equal 0",
    "certainty": "--only gate --only capacity --quick --blocks 1",
    "clients": "--seconds 0.1 --samples 1",
    "cold": "--records 2000",
    "curling": "--turns 2",
    "layer": "--records 500 --pairs 2",
    "load": "--cells 100 --deep 1 --engines 2 --only check",
    "machines": "--machines 1 --clients 1 --seconds 0.3 --turns 1",
    "memory": "--operations 1000000",
    "overhead": "--operations 20000 --rounds 1",
    "page": "--cells 20 --engines 2 --repeats 1",
    "peers": "--operations 2000",
    "storing": "--samples 1 --seconds 0.1 --inflight 1 --requests 20",
    "thin": "redis --clients 1 --turns 1 --seconds 0.1 --records 200",
    "timing": "--turns 1 --runs 10 --seconds 0.005 --blocks 2 --planted 4",
    "transactions": "--engines postgresql --clients 1 --phases point-select --pairs 1 --seconds 1",
    "waking": "redis --turns 1 --seconds 0.1 --records 200",
}
DONE, SHORT_OF_PROMISE, NOTHING_HERE = 0, 1, 3


def smoke(name: str, arguments: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS
    )


def has_figures(ended: subprocess.CompletedProcess[str]) -> None:
    output = ended.stdout + ended.stderr
    assert ended.returncode in (DONE, SHORT_OF_PROMISE), output
    assert "Traceback" not in output, output
    assert re.search(r"\d", ended.stdout), output


def test_every_benchmark_has_a_smoke_test() -> None:
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {
        *TINY,
        "whole",
        "shootout",
        "queues",
        "families",
        "apart",
    }


@pytest.mark.parametrize("name", TINY)
def test_benchmark_prints_figures_at_tiny_size(name: str, place: Path) -> None:
    ended = smoke(name, TINY[name].split(), place)
    if ended.returncode == NOTHING_HERE:
        unavailable(f"benchmarks/{name}.py: {(ended.stdout + ended.stderr).strip()}")
    has_figures(ended)


@pytest.mark.parametrize(("slowdown", "kept"), [(1.1, True), (1.0, False)])
def test_certainty_counts_false_and_missed_verdicts(
    slowdown: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(1)

    def measured(request: RunRequest) -> Run:
        rows = []
        for engine in map(str, request.engines):
            rate = 1_000 / slowdown if engine == certainty.PLANTED else 1_000
            name, *options = re.split("[:=]", engine)
            cell = replace(a_cell(name), options=dict([options] if options else []))
            rows.append((cell, {"read": noise.normal(rate, 10, 20).tolist()}))
        return of_rates(*rows, phases=["read"])

    monkeypatch.setattr(certainty, "measured", measured)
    assert certainty.same(seed=1, blocks=20)
    assert certainty.gated(seed=1, blocks=20) is kept


def test_simulated_gates_fail_by_drift_outside_interval() -> None:
    walk = next(machine for machine in apart.MACHINES if machine.name.startswith("walk"))
    with_drift, without = apart.simulate_pairs(replace(walk, runs_between=3), rows=4, samples=20, seed=1, draws=60)
    assert with_drift.failed < without.failed - 0.1
    steady, _ = apart.simulate_pairs(apart.MACHINES[0], rows=1, samples=10, seed=1, draws=60)
    assert steady.failed <= 0.02
    assert steady.found > 0.75


def test_simulated_families_count_false_statements() -> None:
    equal, alone = families.simulate(families.CASES[0], phases=2, rows=8, blocks=6, seed=1, draws=20)
    # Of 56 pairs at 99 % each, half of the runs have a false one.
    assert equal.false <= 0.1 < alone.false
    ahead = families.Case("far ahead", families.CASES[0].noise, ahead=0.5)
    assert families.simulate(ahead, phases=2, rows=8, blocks=6, seed=1, draws=5)[0].power == 1
    decided = families.simulate_decisions(ahead, phases=2, rows=3, first=3, seed=1, draws=5)
    assert decided.power == 1
    assert decided.trials < families.MOST_BLOCKS


def test_simulated_versions_count_false_and_found_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = families.Case("steady", lambda generator, shape: generator.normal(0, 0.01, shape))
    assert families.simulate_versions(steady, versions=5, blocks=6, seed=1, draws=10) == (0, 1)
    monkeypatch.setattr(families, "PLANTED", 0)
    wild = families.Case(
        "far apart", lambda generator, shape: generator.normal(0, 1, shape[:2]).reshape(*shape[:2], 1)
    )
    assert families.simulate_versions(wild, versions=5, blocks=6, seed=1, draws=5)[0] == 1


def test_benchmark_whole_compares_two_versions(place: Path) -> None:
    run = "records -e memory --phases rand-key --samples 1 -p records=200"
    has_figures(smoke("whole", ["--against", str(ROOT), "--turns", "1", "--run", run], place))


def test_missing_zodbshootout_is_an_error_without_traceback(place: Path) -> None:
    """zodbshootout needs package versions that the tests' environment lacks."""
    ended = smoke("shootout", ["--zodbshootout", str(place / "none")], place)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr, ended.stderr
    assert "zodbshootout" in ended.stderr
