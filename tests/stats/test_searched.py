"""Searches for capacities in runs: the figures of rows, and their comparison within a run and between two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from searching import LIMIT, LIMIT_S, SHARE, simulated

from dyno import results
from dyno.contracts.limits import CONFIRM, LAST
from dyno.contracts.model import Trial
from dyno.options import RunRequest
from dyno.results import Attempt, Run
from dyno.results.probes import NOTHING_DUE
from dyno.runner import plan
from dyno.runner.probes import Searches
from dyno.stats.answer import answers
from dyno.stats.capacity import capacity
from dyno.stats.compare import pairs
from dyno.stats.doubts import doubts
from dyno.stats.history import steps
from dyno.stats.metric import CAPACITY
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.two_runs import compare_runs, gate


def rows(run: Run) -> Mapping[str, CellSummary]:
    return {row.cell.label: row for row in summarize(run)}


def truth(mu: float) -> float:
    return mu + math.log(SHARE) / LIMIT_S


def test_searched_row_has_capacity_with_interval() -> None:
    row = rows(simulated(1, one=2_000.0))["one"]
    assert row.valid and row.searched is not None and row.throughput is not None
    estimate = row.throughput
    assert estimate.low is not None and estimate.high is not None
    assert estimate.low < estimate.median < estimate.high and abs(estimate.median / truth(2_000) - 1) < 0.05
    # Times are of the last probe, near the limit, and not of a probe beyond it.
    assert len(row.samples) == 1 and (row.response_ns["p50"] or 0) < LIMIT_S * 1.2e9


def test_capacities_are_compared() -> None:
    run = simulated(2, slow=1_000.0, fast=2_000.0)
    verdicts = {c.engine.label: c.verdict for c in pairs(run) if c.metric is CAPACITY}
    assert verdicts["fast"].kind == "faster" and verdicts["slow"].kind == "slower"
    ratio = verdicts["fast"].ratio
    assert ratio is not None and abs(ratio / (truth(2_000) / truth(1_000)) - 1) < 0.1
    (answer,) = answers(run)
    assert answer.best.label == "fast" and answer.metric is CAPACITY


def test_two_runs_and_the_gate_compare_capacities() -> None:
    before, after = simulated(3, one=2_000.0, other=2_000.0), simulated(4, one=1_200.0, other=2_000.0)
    found = compare_runs(before, after)
    kinds = {change.after.cell.label: change.verdict.kind for change in found.changes}
    assert kinds["one"] == "slower" and kinds["other"] in ("alike", "unclear")
    assert {result.change.after.cell.label: result.state for result in gate(found, 0.05)}["one"] == "slower"


def test_a_history_finds_where_a_capacity_changed() -> None:
    runs = [simulated(seed, one=2_000.0 if seed < 8 else 1_200.0) for seed in range(1, 15)]
    (step,) = (step for step in steps(runs) if step.at is runs[7])
    assert step.verdict.kind == "slower" and step.metric is CAPACITY


@pytest.mark.parametrize("cut", [0, 1, 3, 8])
def test_interrupted_search_resumes_with_the_same_trials(cut: int) -> None:
    run = simulated(5, one=2_000.0, other=900.0)
    whole = plan.make(
        RunRequest("selftest", ["one=synthetic:wait_us=1", "other=synthetic:wait_us=2"], limit=[LIMIT], seed=5)
    )
    kept = list(run.attempts[:cut])
    following = next(Searches(whole, lambda sample: False, capacity).blocks(kept))
    expected = run.attempts[cut : cut + len(following)]
    assert [(t.cell, t.block, t.stage, t.rate) for t in following] == [
        (a.cell, a.block, a.stage, a.rate) for a in expected
    ]


def test_failed_closed_loop_or_probes_give_a_reason() -> None:
    run = simulated(6, one=2_000.0)
    closed, *others = run.attempts
    lost = replace(closed, outcome="crash", why="killed", samples=())
    (row,) = summarize(replace(run, attempts=(lost,)))
    assert not row.valid and row.why is not None and "killed" in row.why
    failed = [replace(each, outcome="timeout", why="too slow", samples=()) for each in others[:3]]
    (row,) = summarize(replace(run, attempts=(closed, *failed)))
    assert not row.valid and row.why is not None and "too slow" in row.why
    empty = [replace(each, samples=(replace(each.samples[0], judged=0),)) for each in others[:3]]
    (row,) = summarize(replace(run, attempts=(closed, *empty)))
    assert row.why == NOTHING_DUE


def next_trials(run: Run, *attempts: Attempt) -> list[Trial]:
    """The trials with which the search of `run` goes on after these attempts."""
    searched = plan.make(RunRequest("selftest", ["one=synthetic:wait_us=1"], limit=[LIMIT], seed=6))
    return next(Searches(searched, lambda sample: False, capacity).blocks(list(attempts)), [])


def test_a_lost_closed_loop_is_repeated() -> None:
    run = simulated(6, one=2_000.0)
    lost = [replace(run.attempts[0], block=at, outcome="crash", why="killed", samples=()) for at in range(3)]
    (trial,) = next_trials(run, *lost[:2])
    assert (trial.block, trial.stage) == (2, None)
    assert next_trials(run, *lost) == []
    assert next_trials(run, replace(lost[0], outcome="refused")) == []


def test_lost_probes_are_counted_and_shown() -> None:
    run = simulated(6, one=2_000.0)
    closed, first, *others = run.attempts
    moved = [replace(each, block=each.block + 2) for each in (first, *others)]
    lost = [replace(first, block=at, outcome="crash", why="killed", samples=()) for at in (1, 2)]
    (trial,) = next_trials(run, closed, *lost)
    assert (trial.block, trial.stage, trial.rate) == (3, first.stage, first.rate)
    found = replace(run, attempts=(closed, *lost, *moved))
    (row,) = summarize(found)
    assert row.valid and row.searched is not None and row.searched.lost == ("crash: killed", "crash: killed")
    (doubt,) = (doubt for doubt in doubts(row, found) if doubt.code == "attempts")
    assert doubt.short == "2 lost"
    assert doubt.text == "2 trials of the search were lost and repeated; the last: crash: killed"


def test_search_at_its_time_bound_gives_reason() -> None:
    run = simulated(6, one=2_000.0)
    (row,) = summarize(replace(run, attempts=run.attempts[:3]))
    assert row.why is not None and row.why.startswith("out of time: ")
    (row,) = summarize(replace(run, attempts=run.attempts[:3], ending=None))
    assert row.why == "not measured yet"


def _shorter(attempt: Attempt) -> Attempt:
    """The attempt at a probe with a hundredth of its operations."""
    (sample,) = attempt.samples
    broken = {limit: count // 100 for limit, count in sample.broken.items()}
    return replace(attempt, samples=(replace(sample, judged=(sample.judged or 0) // 100, broken=broken),))


def test_short_probes_and_a_short_last_probe_are_doubted() -> None:
    run = simulated(6, one=2_000.0)
    assert "brief" not in {doubt.code for row in summarize(run) for doubt in doubts(row, run)}
    for stage, words in ((CONFIRM, "--within or --timeout shortened them"), (LAST, "a longer --confirm")):
        attempts = tuple(_shorter(each) if each.stage == stage else each for each in run.attempts)
        changed = replace(run, attempts=attempts)
        texts = [doubt.text for row in summarize(changed) for doubt in doubts(row, changed) if doubt.code == "brief"]
        assert len(texts) == 1 and words in texts[0]


def test_machine_bound_capacity_is_doubted() -> None:
    run = simulated(6, one=2_000.0, idle=1_900.0)
    null = replace(run.cells[1], floor=True)
    changed = replace(run, cells=(run.cells[0], null))
    texts = [doubt.text for row in summarize(changed) for doubt in doubts(row, changed) if doubt.code == "machine"]
    assert len(texts) == 1 and "holds the limit up to 1,7" in texts[0]
    slow = simulated(6, one=500.0, idle=1_900.0)
    changed = replace(slow, cells=(slow.cells[0], replace(slow.cells[1], floor=True)))
    assert "machine" not in {doubt.code for doubt in doubts(summarize(changed)[0], changed)}


def test_machine_unable_to_hold_the_limit_is_doubted() -> None:
    run = simulated(6, one=2_000.0, idle=2.0)
    changed = replace(run, cells=(run.cells[0], replace(run.cells[1], floor=True)))
    for row in summarize(changed):
        (doubt,) = (doubt for doubt in doubts(row, changed) if doubt.code == "machine")
        assert "can't hold the limit" in doubt.text and "/s: the limit is this machine's" in doubt.text


def test_a_search_shows_its_forecast_beside_its_time() -> None:
    (row,) = summarize(simulated(6, one=2_000.0))
    assert row.searched is not None
    search = row.searched
    assert search.bound_s == 1_800 and search.lost == ()
    assert search.forecast_s is not None and 0 < search.forecast_s <= 1_800 and search.wall_s == len(row.attempts)


def test_a_run_file_keeps_the_search(tmp_path: Path) -> None:
    run, path = simulated(7, one=2_000.0), tmp_path / "r.json"
    results.create(path, run.recorded, list(run.cells))
    for attempt in run.attempts:
        results.append(path, attempt)
    results.end(path, "searched")
    loaded = results.load(path)
    assert loaded.complete and rows(loaded)["one"].throughput == rows(run)["one"].throughput
