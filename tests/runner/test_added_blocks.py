"""`dyno run --until` adds blocks until each interval is narrow or the time is up, records which of the two ended the
run, and can be resumed. Every run file states its number of blocks.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup_runs import MadeUpRuns
from shell import Shell, small, wait_for

from dyno.options import RunRequest
from dyno.results import Run
from dyno.runner import parent, plan
from dyno.stats.summary import unsure_floors, widest

pytestmark = pytest.mark.usefixtures("processes")

# -- with made-up trials, and a clock that the test moves ----------------------------------------------

MOST = parent.FLOOR_MOST


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpRuns:
    # Gives every block a trial of the null engine too; tests below check the limit.
    monkeypatch.setattr(parent, "FLOOR_MOST", 99)
    return MadeUpRuns(tmp_path, monkeypatch)


def alternating(block: int) -> float:
    """Rates of blocks: 11.5 % above or below 1,000 at first, then steady."""
    return (1_115.0 if block % 2 else 885.0) if block < 6 else 1_000.0


def blocks(run: Run) -> list[int]:
    """The blocks with a trial of the engine; the first blocks also have a trial of the null engine."""
    engine, floor = (sorted(a.block for a in run.attempts if a.cell == cell) for cell in (0, 1))
    assert engine == list(range(len(engine)))
    assert floor == list(range(len(floor)))
    assert min(3, len(engine)) <= len(floor) <= len(engine)
    return engine


def floors(run: Run) -> int:
    """Number of the null engine's trials."""
    return sum(run.cells[attempt.cell].floor for attempt in run.attempts)


def test_until_stops_after_minimum_blocks_if_narrow(runs: MadeUpRuns) -> None:
    run, watching = runs.run(until="5%")
    assert blocks(run) == list(range(6))
    assert (run.ending, run.blocks, run.complete, watching.added) == ("narrow", 6, True, [])


@pytest.mark.parametrize("samples", [3, 9])
def test_minimum_blocks_equal_requested_samples(runs: MadeUpRuns, samples: int) -> None:
    run, _ = runs.run(until="5%", samples=samples)
    assert (len(blocks(run)), run.blocks, run.complete) == (samples, samples, True)


@pytest.mark.claim("--until adds blocks until each row is narrow or the time is over, and ignores null engines")
def test_until_adds_blocks_until_each_interval_is_narrow(runs: MadeUpRuns) -> None:
    runs.rate = alternating
    run, watching = runs.run(until="5%")
    assert (run.ending, run.complete) == ("narrow", True)
    assert [number for number, _ in watching.added] == list(range(7, run.blocks + 1))
    assert watching.added[0] == (7, "synthetic in work: ±11.5 %, wanted ±5 %")
    # The interval is narrow now, but was wide one block earlier.
    assert widest(run, 0.05) is None
    less = [attempt for attempt in run.attempts if attempt.block < run.blocks - 1]
    assert widest(Run(run.path, run.recorded, run.cells, tuple(less)), 0.05) is not None
    assert len(blocks(run)) == run.blocks > 7


def test_narrower_target_takes_more_blocks(runs: MadeUpRuns) -> None:
    runs.rate = alternating
    wide, _ = runs.run(until="12%")
    runs.file.unlink()
    narrow, _ = runs.run(until="1%")
    assert wide.blocks == 6
    assert narrow.blocks > 6


def never(block: int) -> float:
    return 1_500.0 if block % 2 else 500.0


@pytest.mark.claim("--until adds blocks until each row is narrow or the time is over, and ignores null engines")
def test_within_stops_before_a_block_exceeds_time_limit(runs: MadeUpRuns) -> None:
    runs.rate = never
    # A block is two trials of one second.
    run, _ = runs.run(until="1%", within=21)
    assert (run.ending, len(blocks(run)), run.blocks, run.complete) == ("time", 10, 10, True)
    assert runs.now == 20


def test_longest_block_predicts_duration_of_next(runs: MadeUpRuns) -> None:
    runs.rate = never
    runs.seconds = lambda block: 5.0 if block == 1 else 1.0
    run, _ = runs.run(until="1%", within=25)
    # 2 + 10 + 2 + 2 s are 16 s; another 10 s would make 26 s.
    assert (run.ending, len(blocks(run)), runs.now) == ("time", 4, 16)


def test_time_limit_may_end_run_before_minimum_blocks(runs: MadeUpRuns) -> None:
    run, _ = runs.run(until="5%", within=5)
    assert (run.ending, len(blocks(run)), run.blocks, run.complete) == ("time", 2, 2, True)


def test_first_block_runs_despite_time_limit(runs: MadeUpRuns) -> None:
    runs.seconds = lambda block: 100.0
    run, _ = runs.run(until="5%", within=1)
    assert (run.ending, len(blocks(run))) == ("time", 1)


def test_resume_leaves_run_that_ended_narrow_unchanged(runs: MadeUpRuns) -> None:
    runs.run(until="5%")
    before = runs.file.read_bytes()
    run, watching = runs.run(resume=True, until="5%")
    assert (runs.file.read_bytes(), watching.trials, run.ending) == (before, [], "narrow")


def test_resume_after_time_limit_grants_full_time_again(runs: MadeUpRuns) -> None:
    runs.rate = never
    first, _ = runs.run(until="1%", within=21)
    before = runs.file.read_bytes()
    again, watching = runs.run(resume=True, until="1%", within=21)
    assert runs.file.read_bytes().startswith(before)
    assert (again.ending, again.complete) == ("time", True)
    assert min(watching.trials) == first.blocks == 10
    assert len(blocks(again)) == again.blocks == 20


def test_resume_after_time_limit_can_end_narrow(runs: MadeUpRuns) -> None:
    runs.rate, runs.floor_rate = alternating, never
    runs.seconds = lambda block: 3.0 if block < 6 else 0.5
    first, _ = runs.run(until="5%", within=40)
    assert (first.ending, first.blocks) == ("time", 6)
    again, _ = runs.run(resume=True, until="5%", within=40)
    assert (again.ending, again.complete) == ("narrow", True)
    endings = [json.loads(line)["why"] for line in runs.file.read_text().splitlines() if '"kind":"end"' in line]
    assert endings == ["time", "narrow"]


@pytest.mark.parametrize("block", [2, 7])
def test_interrupted_until_run_is_incomplete_and_resumes(runs: MadeUpRuns, block: int) -> None:
    runs.rate = alternating
    broken = runs.interrupted(block, until="5%")
    assert (broken.ending, broken.complete) == (None, False)
    before = runs.file.read_bytes()
    run, _ = runs.run(resume=True, until="5%")
    assert runs.file.read_bytes().startswith(before)
    assert (run.ending, run.complete, len(blocks(run))) == ("narrow", True, run.blocks)

    runs.file.unlink()
    whole, _ = runs.run(until="5%")
    assert whole.blocks == run.blocks


def test_resume_finishes_interrupted_block_before_checking_intervals(runs: MadeUpRuns) -> None:
    """The interval is already narrow after half of the last block."""
    runs.rate, runs.floor_rate = alternating, never
    whole, _ = runs.run(until="5%")
    runs.file.unlink()
    last = whole.blocks - 1
    run_plan = plan.make(RunRequest("selftest", engines=["synthetic"]))
    seed = next(seed for seed in range(99) if replace(run_plan, seed=seed).block(last)[0].cell == 0)
    broken = runs.interrupted(last, cell=1, until="5%", seed=seed)
    assert widest(broken, 0.05) is None
    assert not broken.complete
    run, _ = runs.run(resume=True, until="5%", seed=seed)
    assert (run.ending, run.complete, run.blocks) == ("narrow", True, whole.blocks)
    assert len(blocks(run)) == whole.blocks


def test_run_without_until_adds_no_block_or_ending(runs: MadeUpRuns) -> None:
    runs.rate = never
    run, watching = runs.run(samples=4)
    assert (len(blocks(run)), run.ending, run.blocks, run.complete) == (4, None, 4, True)
    assert watching.added == []


@pytest.mark.parametrize("wish", [{"samples": 3}, {"until": "5%", "samples": 3}], ids=["samples", "until"])
def test_run_with_block_limit_advances_one_per_call(runs: MadeUpRuns, wish: dict[str, Any]) -> None:
    for number in (1, 2, 3):
        run, watching = runs.run(resume=True, most=1, **wish)
        assert (len(blocks(run)), set(watching.trials)) == (number, {number - 1})
    run, watching = runs.run(resume=True, most=1, **wish)
    assert (run.complete, watching.trials) == (True, [])


# -- null engines -----------------------------------------------------------------------------------------------


@pytest.mark.claim("A null engine is measured as often as its interval needs")
def test_null_engine_runs_in_first_three_blocks_only(runs: MadeUpRuns) -> None:
    run, _ = runs.run(samples=9)
    assert (len(blocks(run)), floors(run), run.complete, run.progress) == (9, 3, True, (12, 12))


@pytest.mark.claim("A null engine is measured as often as its interval needs")
def test_null_engine_is_measured_until_interval_is_narrow(runs: MadeUpRuns) -> None:
    runs.rate = lambda block: 1_500.0 if block == 1 else 1_000.0
    run, _ = runs.run(samples=9)
    assert 3 < floors(run) < 9
    # The interval was wide before the last trial.
    assert unsure_floors(run) == set()
    less = tuple(attempt for attempt in run.attempts if attempt.block < floors(run) - 1)
    assert unsure_floors(replace(run, attempts=less)) == {1}


@pytest.mark.claim("A null engine is measured as often as its interval needs")
def test_null_engine_stops_after_nine_blocks_if_wide(runs: MadeUpRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parent, "FLOOR_MOST", MOST)
    runs.rate = never
    run, _ = runs.run(samples=12)
    assert (len(blocks(run)), floors(run), run.complete) == (12, 9, True)


@pytest.mark.claim("A null engine is measured as often as its interval needs")
def test_until_ignores_width_of_null_engine(runs: MadeUpRuns) -> None:
    runs.floor_rate = never
    run, _ = runs.run(until="5%")
    assert (run.ending, len(blocks(run)), floors(run)) == ("narrow", 6, 6)


@pytest.mark.claim("A null engine is measured as often as its interval needs")
@pytest.mark.parametrize("block", [2, 5])
def test_resumed_run_has_trials_of_uninterrupted_run(runs: MadeUpRuns, block: int) -> None:
    runs.floor_rate = lambda number: 1_500.0 if number == 1 else 1_000.0
    whole, _ = runs.run(samples=9)
    runs.file.unlink()
    runs.interrupted(block, samples=9)
    run, _ = runs.run(resume=True, samples=9)
    assert [(a.cell, a.block) for a in run.attempts] == [(a.cell, a.block) for a in whole.attempts]


def test_run_lacking_first_null_engine_trials_is_incomplete(runs: MadeUpRuns) -> None:
    run, _ = runs.run(samples=4)
    assert run.complete
    cut = replace(run, attempts=tuple(a for a in run.attempts if (a.cell, a.block) != (1, 2)))
    assert (cut.complete, cut.progress) == (False, (6, 7))


# -- from the command line ---------------------------------------------------------------------------------------

# The engine waits, so that no trial can be twice as fast as the median.
STEADY = ("run", "selftest", "-e", "synthetic:wait_us=5000", "-p", "operations=10", "--until", "100%")


def ending(shell: Shell) -> str | None:
    last = json.loads(shell.file.read_text().splitlines()[-1])
    return str(last["why"]) if last["kind"] == "end" else None


def begun(shell: Shell) -> int:
    lines = [json.loads(line) for line in shell.file.read_text().splitlines()]
    return max((line["block"] + 1 for line in lines if line["kind"] == "trial"), default=0)


def told(shell: Shell, text: str) -> bool:
    return text in shell.dyno("show", shell.file).out


def test_run_file_records_ending_narrow(shell: Shell) -> None:
    command = (*STEADY, "--samples", 3, "-o", shell.file)
    ended = shell.dyno(*command)
    assert ended.status == 0, ended
    assert (ending(shell), begun(shell), shell.shown()["complete"]) == ("narrow", 3, True)
    assert "The time was up" not in ended.err
    assert told(shell, "3 of 3 trials of each row")
    assert not told(shell, "Not complete")
    before = shell.file.read_bytes()
    assert shell.dyno(*command, "--resume").status == 0
    status, out, err = shell.dyno(*command, "--until", "50%", "--resume")
    assert (status, out) == (2, "")
    assert err.strip().endswith("can't be resumed: it was made by another plan (until was 1.0)")
    assert shell.file.read_bytes() == before


def test_timed_out_until_run_names_a_wide_row(shell: Shell) -> None:
    hopeless = [word if word != "100%" else "0.0001%" for word in STEADY]
    command = (*hopeless, "--within", 1, "-o", shell.file)
    ended = shell.dyno(*command)
    assert ended.status == 0, ended
    done = begun(shell)
    assert (ending(shell), shell.shown()["complete"]) == ("time", True)
    assert ended.err.startswith("The time was up: synthetic:wait_us=5000 in work: ")
    assert told(shell, f"{done} of {done} trials of each row")
    before = shell.file.read_bytes()

    again = shell.dyno(*command, "--resume")
    assert again.status == 0, again
    assert shell.file.read_bytes().startswith(before)
    assert (ending(shell), shell.shown()["complete"]) == ("time", True)


def test_sigint_leaves_until_run_incomplete_and_resumable(shell: Shell) -> None:
    shell.close_gate(passing=1)
    wish = ("--until", "100%", "--within", 20)
    command = ("run", "records", "-e", "waiter", *small(samples=3), *wish, "-o", shell.file)
    with shell.started(*command) as process:
        assert wait_for(lambda: len(shell.at_gate()) == 2), process.poll()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
    completed = shell.trial_lines()
    planned = shell.planned()
    assert err.startswith(f"{completed} of {planned} trials are kept in {shell.file}; ")
    assert (ending(shell), shell.shown()["complete"]) == (None, False)
    assert told(shell, f"Not complete: {completed} trials of {planned} have ended")
    before = shell.file.read_bytes()

    shell.open_gate()
    ended = shell.dyno(*command, "--resume")
    assert ended.status == 0, ended
    assert shell.file.read_bytes().startswith(before)
    # The number of blocks depends on the machine.
    assert ending(shell) in ("narrow", "time")
    assert shell.shown()["complete"] is True


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--until", "0"], "until 0: expected a percentage over 0 and up to 100, such as 5%"),
        (["--until", "narrow"], "until narrow: expected a percentage over 0 and up to 100, such as 5%"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_invalid_until_or_within_is_one_line_error(shell: Shell, words: Sequence[str], line: str) -> None:
    status, out, err = shell.run_here("run", "selftest", "-e", "synthetic", *words, "-o", shell.file)
    assert (status, out) == (2, "")
    assert err.startswith(f"dyno: {line}")
    assert err.count("\n") == 1
    assert not shell.file.exists()
