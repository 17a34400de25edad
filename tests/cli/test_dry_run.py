"""Tests that `dyno run --dry-run` prints the plan and its measuring time, and does nothing else."""

from __future__ import annotations

import pytest
from shell import Shell, small

from dyno.cli.engines import clock
from dyno.options import RunRequest
from dyno.runner.plan import make
from dyno.runner.rates import name_unpaced_phases

pytestmark = pytest.mark.usefixtures("processes")


def test_dry_run_prints_the_plan_and_runs_nothing(shell: Shell) -> None:
    words = ("--clients", "1,2", "--phases", "scan,update", "--duration", "5", "--warmup", "1", "--samples", "10")
    status, out, err = shell.dyno("run", "records", "-e", "lmdb,sqlite", *words, "--dry-run", "-o", shell.file)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    for engine in ("lmdb", "sqlite"):
        assert [engine, "process", "1"] in rows and [engine, "process", "2"] in rows
    assert "phases: scan, update" in out
    # Two engines with 2 rows each: 10 blocks, 2 phases of 6 s. Two floors with 2 rows each: 3 blocks, 2 phases of 0.6
    # s.
    assert (
        "52 trials in 10 blocks (one of every row, shuffled; floors in 3 of them), of 2 phases each:"
        " measuring takes 8 min 14 s at most" in out
    )
    assert not shell.file.exists() and shell.left() == []


def test_dry_run_bounds_total_time_by_timeouts(shell: Shell) -> None:
    words = ("-e", "memory", "--phases", "get", "--duration", "1", "--samples", "5", "--timeout", "90")
    # 5 trials, and 3 of each of two floors, of 90 s each at most.
    out = shell.dyno("run", "records", *words, "--dry-run").out
    assert "with starting, loading and checking 16 min 30 s at most" in out


def test_dry_run_forecasts_a_capacity_search(shell: Shell) -> None:
    words = ("-e", "memory", "--phases", "get", "--limit", "p99<5ms", "--dry-run", "-o", shell.file)
    status, out, _ = shell.dyno("capacity", "records", *words)
    assert status == 0 and "1 search " in out and "probes" in out
    assert not shell.file.exists() and shell.left() == []


def test_dry_run_refuses_what_a_run_refuses(shell: Shell) -> None:
    status, out, err = shell.dyno("run", "records", "-e", "nope", "--dry-run")
    assert (status, out) == (2, "") and "engine nope is not known" in err


RATE = "The rate has no effect on "


def test_dry_run_notes_phases_without_rate(shell: Shell) -> None:
    words = ("run", "records", "-e", "lmdb", "--phases", "insert,get,update")
    assert RATE not in shell.dyno(*words, "--dry-run").out
    note = f"{RATE}insert, update (txn=all makes each one call; -p txn=1 paces them): measured at full speed"
    assert note in shell.dyno(*words, "--rate", "max,500", "--dry-run").out
    assert RATE not in shell.dyno(*words, "--rate", "500", "-p", "txn=1", "--dry-run").out
    assert RATE not in shell.dyno("run", "records", "-e", "lmdb", "--phases", "get", "--rate", "500", "--dry-run").out


def test_run_notes_phases_without_rate_at_start(shell: Shell) -> None:
    words = small(phases="rand-key,update", rate=5000, samples=1)
    ended = shell.dyno("run", "records", "-e", "lmdb", *words, "-o", shell.file)
    assert f"dyno: {RATE}update (txn=all" in ended.err.splitlines()[0]
    measured = {sample["phase"]: sample for each in shell.attempts("lmdb") for sample in each["samples"]}
    assert measured["update"]["bulk"] and not measured["rand-key"]["bulk"], "and it is so"


def test_single_call_phase_is_noted_as_unpaced() -> None:
    archive = make(RunRequest("series", engines=["sqlite"], rate=["9"], phases=["extract-all-hot", "latest-hot"]))
    note = name_unpaced_phases(archive.measured_phases, archive.cells)
    assert note == f"{RATE}extract-all-hot (one call does it all): measured at full speed"


def test_dry_run_shows_the_time_limit_of_until(shell: Shell) -> None:
    output = shell.dyno("run", "records", "-e", "lmdb", "--until", "5%", "--within", "10m", "--dry-run").out
    assert "further blocks follow until each interval is narrow, for 10 min at most" in output


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.3, "0.3 s"), (45, "45 s"), (60, "1 min"), (380, "6 min 20 s"), (7500, "2 h 5 min"), (7200, "2 h")],
)
def test_durations_are_printed_in_clock_units(seconds: float, text: str) -> None:
    assert clock(seconds) == text
