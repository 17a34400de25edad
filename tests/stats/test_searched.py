"""Searches for capacities in runs: the figures of rows, and their comparison within a run and between two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from madeup import a_sample, an_attempt, recorded

from dyno import results
from dyno.contracts.limits import CONFIRM
from dyno.options import RunRequest
from dyno.results import Attempt, Run
from dyno.runner import plan
from dyno.runner.probes import Searches
from dyno.stats.answer import answers
from dyno.stats.capacity import capacity
from dyno.stats.compare import pairs
from dyno.stats.history import steps
from dyno.stats.metric import CAPACITY
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.two_runs import between, gate

LIMIT_S, SHARE = 0.02, 0.1
LIMIT = f"p{100 - 100 * SHARE:g}<{LIMIT_S * 1e3:g}ms"


def simulated(seed: int, **services: float) -> Run:
    """A run that searches the capacities of queues M/M/1, by name, each with its service rate."""
    random = np.random.default_rng(seed)
    engines = [f"{name}=synthetic:wait_us={at + 1}" for at, name in enumerate(services)]
    searched = plan.make(RunRequest("selftest", engines, limit=[LIMIT], seed=seed))
    rates, attempts = list(services.values()), list[Attempt]()
    for block in Searches(searched, lambda sample: False, capacity).blocks(attempts):
        for trial in block:
            mu, rate = rates[trial.cell], trial.rate
            if rate is None:
                attempts.append(an_attempt(trial.block, a_sample("work", mu), cell=trial.cell))
                continue
            count = int(rate * (trial.seconds or 0) * 0.8)
            # A probe that confirms is long enough for 300 operations beyond the limit.
            assert trial.stage != CONFIRM or count >= 0.8 * 300 / SHARE - 1
            beyond = math.exp(-max(mu - rate, 0) * LIMIT_S)
            broken = {LIMIT: int(random.binomial(count, beyond))}
            response = recorded(round(LIMIT_S * 1e9 * math.log(SHARE) / math.log(min(beyond, 0.999))))
            sample = a_sample("work", rate, judged=count, broken=broken, response=response, due=count)
            found = an_attempt(trial.block, sample, cell=trial.cell, stage=trial.stage, rate=rate)
            attempts.append(found)
    header = {"plan": searched.data(), "host": {}, "created": f"2026-01-{seed:02}T00:00:00+00:00"}
    return Run(Path(f"{seed}.json"), header, searched.cells, tuple(attempts), "searched")


def rows(run: Run) -> Mapping[str, CellSummary]:
    return {row.cell.label: row for row in summarize(run)}


def truth(mu: float) -> float:
    return mu + math.log(SHARE) / LIMIT_S


def test_the_row_has_the_capacity_and_its_interval() -> None:
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
    found = between(before, after)
    kinds = {change.after.cell.label: change.verdict.kind for change in found.changes}
    assert kinds["one"] == "slower" and kinds["other"] in ("alike", "unclear")
    assert {result.change.after.cell.label: result.state for result in gate(found, 0.05)}["one"] == "slower"


def test_a_history_finds_where_a_capacity_changed() -> None:
    runs = [simulated(seed, one=2_000.0 if seed < 8 else 1_200.0) for seed in range(1, 15)]
    (step,) = (step for step in steps(runs) if step.at is runs[7])
    assert step.verdict.kind == "slower" and step.metric is CAPACITY


@pytest.mark.parametrize("cut", [0, 1, 3, 8])
def test_a_search_that_is_cut_goes_on_with_the_same_probe(cut: int) -> None:
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


def test_a_failed_closed_loop_and_failed_probes_have_a_reason() -> None:
    run = simulated(6, one=2_000.0)
    closed, *others = run.attempts
    lost = replace(closed, outcome="crash", why="killed", samples=())
    (row,) = summarize(replace(run, attempts=(lost,)))
    assert not row.valid and row.why is not None and "killed" in row.why
    failed = [replace(each, outcome="timeout", why="too slow", samples=()) for each in others[:2]]
    (row,) = summarize(replace(run, attempts=(closed, *failed)))
    assert not row.valid and row.why is not None and "too slow" in row.why


def test_a_run_file_keeps_the_search(tmp_path: Path) -> None:
    run, path = simulated(7, one=2_000.0), tmp_path / "r.json"
    results.create(path, run.header, list(run.cells))
    for attempt in run.attempts:
        results.append(path, attempt)
    results.end(path, "searched")
    loaded = results.load(path)
    assert loaded.complete and rows(loaded)["one"].throughput == rows(run)["one"].throughput
