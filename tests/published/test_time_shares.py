"""Tests how `dyno replicate all --within` divides a time, and that a run begins no block that won't fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from madeup import of_rates, reads

from dyno import published
from dyno.cli.replicate import expected_seconds, share_time
from dyno.options import RunRequest
from dyno.runner import plan

PLAN = plan.make(RunRequest(suite="records", engines=["memory"], samples=3))


def test_unmeasured_experiment_takes_its_stated_time() -> None:
    assert expected_seconds(PLAN, None, False, PLAN, 60.0) == 60.0
    # Twice as many samples take twice as long, and so do phases with twice the budget.
    floorless = replace(PLAN, cells=tuple(cell for cell in PLAN.cells if not cell.floor))
    assert expected_seconds(replace(floorless, samples=6), None, False, floorless, 60.0) == pytest.approx(120)
    assert expected_seconds(
        replace(floorless, budget=2 * PLAN.budget), None, False, floorless, 60.0
    ) == pytest.approx(120)


def test_measured_experiment_takes_its_last_duration() -> None:
    # Trials of 1 s each.
    run = reads(sqlite=[1, 2, 3], memory=[1, 2, 3])
    assert expected_seconds(PLAN, run, False, PLAN, 60.0) == 6.0
    # A resumed run takes the time of what is missing.
    half = replace(run, attempts=run.attempts[:3])
    assert expected_seconds(PLAN, half, True, PLAN, 60.0) == 3.0
    assert expected_seconds(PLAN, half, False, PLAN, 60.0) == 6.0
    # A run that was killed in its first trial says nothing.
    assert expected_seconds(PLAN, of_rates(phases=["read"]), True, PLAN, 60.0) == 60.0


def test_overrun_reduces_the_shares_of_later_runs() -> None:
    assert share_time(60, [1, 2, 3]) == 10
    # The first took 30 s rather than 10.
    assert share_time(30, [2, 3]) == 12
    assert share_time(-5, [3]) == 0
    assert share_time(5, [0.0]) == 5


def test_stated_times_total_about_half_an_hour() -> None:
    seconds = sum(published.experiment(name).quick_seconds for name in published.names())
    assert 20 * 60 < seconds < 36 * 60


def test_quick_size_keeps_every_engine() -> None:
    for name in published.names():
        experiment = published.experiment(name)
        assert experiment.plan_at_preset("quick")["engine"] == experiment.plan["engine"]
