"""Guards the detection of changes in a series of runs: at the right run and with its size. Without a change,
detections are no more frequent than the method states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from madeup import a_cell, of_rates

from dyno.contracts.model import UsageError
from dyno.report.tables import comparison
from dyno.results import Run
from dyno.stats.history import CHANCE, changes, gaps, judge_changes, steps

NOISE = 0.03


def series(values: Sequence[float], seed: int = 1) -> list[Run]:
    """A run for each value, in chronological order, with five trials around the value."""
    random = np.random.default_rng(seed)
    found = []
    for at, value in enumerate(values):
        rates = [1e5 * value * float(np.exp(NOISE * random.standard_normal())) for _ in range(5)]
        run = of_rates((a_cell("lmdb"), {"read": rates}), phases=["read"], created=f"2026-01-{at + 1:02}T10:00:00")
        found.append(replace(run, path=Path(f"r{at}.json")))
    return found


@pytest.mark.claim("A change in a series of runs is found at its run, with one false alarm in 20 series")
@pytest.mark.parametrize("seed", range(5))
def test_step_is_found_at_its_run_with_size(seed: int) -> None:
    (step,) = steps(list(reversed(series([1.0] * 6 + [0.8] * 4, seed))))
    assert (str(step.at.path), str(step.before.path), step.runs) == ("r6.json", "r5.json", (6, 4))
    low, high = step.verdict.low, step.verdict.high
    assert step.verdict.kind == "slower" and low is not None and high is not None and low < 0.8 < high < 0.9


def test_the_interval_of_runs_contains_the_change() -> None:
    """Small steps in noise with one run in ten far off: the run that is named is often not the one."""
    random = np.random.default_rng(3)
    held, named = [], []
    for _ in range(150):
        true = int(random.integers(4, 13))
        far = np.where(random.random(16) < 0.1, 0.5, 0.0)
        logs = NOISE * random.standard_normal(16) - far - 0.06 * (np.arange(16) >= true)
        judgements = list(judge_changes(np.exp(logs).tolist()))
        if len(judgements) == 1:
            ((at, (low, high), _, _),) = judgements
            assert 1 <= low <= at <= high < 16
            held.append(low <= true <= high)
            named.append(at == true)
    assert len(held) > 25 and np.mean(held) >= 0.9, (len(held), np.mean(held))
    assert np.mean(named) < 0.8


def test_a_clear_change_has_an_interval_of_one_run() -> None:
    (step,) = steps(series([1.0] * 6 + [0.5] * 6))
    assert (str(step.since.path), str(step.until.path)) == ("r5.json", "r6.json")
    (section, *_) = comparison.history([step])
    assert section.heads[1] == "after, up to" and section.rows[0][1] == "r5.json, r6.json"


def test_a_row_missing_in_some_runs_is_named() -> None:
    runs = series([1.0] * 8)
    other = of_rates((a_cell("lmdb"), {"read": ()}), (a_cell("sqlite"), {"read": (5.0,) * 3}), phases=["read"])
    runs[3] = replace(other, path=Path("r3.json"), recorded={**other.recorded, "created": "2026-01-04"})
    first, second = comparison.history_gaps(gaps(runs), len(runs))
    assert first == "read, lmdb (process), clients=1 rate=max: a number in 7 of 8 runs; r3.json: not measured yet"
    assert second.startswith("read, sqlite (process), clients=1 rate=max: a number in 1 of 8 runs; r0.json, ")


def test_row_is_tracked_by_its_label() -> None:
    runs = []
    for at, run in enumerate(series([1.0] * 6 + [0.5] * 6)):
        cells = [replace(cell, name="mine", options={"cache_mib": 8 if at < 6 else 16}) for cell in run.cells]
        runs.append(replace(run, cells=tuple(cells)))
    (step,) = steps(runs)
    assert str(step.at.path) == "r6.json" and gaps(runs) == []


def test_two_steps_are_found_separately() -> None:
    found = steps(series([1.0] * 8 + [1.3] * 8 + [1.0] * 8))
    assert [(str(step.at.path), step.runs, step.verdict.kind) for step in found] == [
        ("r8.json", (8, 8), "faster"),
        ("r16.json", (8, 8), "slower"),
    ]


def test_single_outlier_run_is_no_step() -> None:
    assert steps(series([1.0] * 5 + [0.4] + [1.0] * 5)) == []


@pytest.mark.claim("A change in a series of runs is found at its run, with one false alarm in 20 series")
def test_false_alarms_stay_within_the_stated_chance() -> None:
    """Holds for log-normal noise with one run in ten far off, too."""
    random = np.random.default_rng(7)
    trials, named = 200, 0
    for seed in range(trials):
        far = np.where(random.random(10) < 0.1, 0.5, 0.0)
        named += bool(changes(np.exp(NOISE * random.standard_normal(10) - far).tolist(), seed=seed))
    # Three standard deviations above the stated chance.
    assert named / trials < CHANCE + 3 * (CHANCE * (1 - CHANCE) / trials) ** 0.5


def test_constant_series_has_no_change() -> None:
    assert changes([2.0] * 12) == []


def test_fewer_than_eight_runs_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 8 runs, got 7"):
        steps(series([1.0] * 7))


def test_runs_of_two_suites_are_refused() -> None:
    runs = series([1.0] * 8)
    other = replace(runs[0], recorded={**runs[0].recorded, "plan": {**runs[0].recorded["plan"], "suite": "arrays"}})
    with pytest.raises(UsageError, match="differ in suite"):
        steps([other, *runs[1:]])


def test_change_names_commits_before_and_after() -> None:
    runs = [
        replace(run, recorded={**run.recorded, "commit": {"hash": f"{at:040x}"[::-1], "changed": at == 5}})
        for at, run in enumerate(series([1.0] * 5 + [0.5] * 5))
    ]
    (change,) = comparison.history(steps(runs))
    assert change.title == "r5.json  2026-01-06 10:00, commit 5000000000 with changes"
    assert change.remark == "changed here; the last before: r4.json (2026-01-05 10:00, commit 4000000000)"


def test_change_without_commit_names_none() -> None:
    runs = series([1.0] * 5 + [0.5] * 5)
    runs[5] = replace(runs[5], recorded={**runs[5].recorded, "commit": None})
    (change,) = comparison.history(steps(runs))
    assert (change.title, change.remark) == ("r5.json  2026-01-06 10:00", "changed here")


def test_change_lists_other_differences_at_its_run() -> None:
    runs = series([1.0] * 5 + [0.5] * 5)
    newer = [replace(run, recorded={**run.recorded, "dyno": "9.9"}) for run in runs[5:]]
    found = steps([*runs[:5], *newer])
    change, beside = comparison.history(found)
    assert change.title == "r5.json  2026-01-06 10:00" and change.rows[0][0].startswith("read, lmdb (process)")
    assert ("dyno", "version", "–", "9.9") in beside.rows
    assert comparison.history_lines([], 10)[0] == "No row changed in 10 runs."
