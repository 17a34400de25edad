"""Checks that every benchmark runs and prints figures at a tiny size. Checking the limits themselves needs a quiet
machine and more time.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from needed import unavailable
from shell import TESTS

pytestmark = pytest.mark.usefixtures("processes")

ROOT = TESTS.parent
BENCHMARKS = ROOT / "benchmarks"
SECONDS = 300
"""Timeout in seconds, long enough for a busy machine."""
TINY = {
    "asking": "--turns 1 --seconds 0.1 --inflight 1",
    "bare": "--records 500 --pairs 2",
    "busy": "--clients 2 --load native --seconds 0.3 --records 50 --mean 1",
    "certainty": "--quick --blocks 5",
    "clients": "--seconds 0.1 --samples 1",
    "cold": "--records 2000",
    "curling": "--turns 2",
    "layer": "--records 500 --pairs 2",
    "load": "--cells 200 --deep 10 --engines 2 --only show,check,report",
    "machines": "--machines 2 --clients 1 --seconds 0.3 --turns 1",
    "memory": "--operations 1000000",
    "overhead": "--operations 20000 --rounds 1",
    "page": "--cells 20 --engines 2 --repeats 1",
    "peers": "--operations 2000",
    "storing": "--samples 1 --seconds 0.1 --inflight 1 --requests 20",
    "thin": "redis --clients 1 --turns 1 --seconds 0.1 --records 200",
    "timing": "--turns 1 --runs 10 --seconds 0.005 --blocks 3",
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
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {*TINY, "whole", "shootout", "queues"}


@pytest.mark.parametrize("name", TINY)
def test_benchmark_prints_figures_at_tiny_size(name: str, place: Path) -> None:
    ended = smoke(name, TINY[name].split(), place)
    if ended.returncode == NOTHING_HERE:
        unavailable(f"benchmarks/{name}.py: {(ended.stdout + ended.stderr).strip()}")
    has_figures(ended)


def test_benchmark_whole_compares_two_versions(place: Path) -> None:
    run = "records -e memory --phases rand-key --samples 1 -p records=200"
    has_figures(smoke("whole", ["--against", str(ROOT), "--turns", "1", "--run", run], place))


def test_missing_zodbshootout_is_an_error_without_traceback(place: Path) -> None:
    """zodbshootout needs package versions that the tests' environment lacks."""
    ended = smoke("shootout", ["--zodbshootout", str(place / "none")], place)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr, ended.stderr
    assert "zodbshootout" in ended.stderr
