"""Guards what a run says about a row: the estimate is by the method that it claims, and its interval covers the truth
as often as it claims; one wrong answer voids a row, failures are told and hide nothing, and every doubt is raised by
its cause and by nothing else. Runs are made up here, as a run file would give them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dyno.histogram import Recorder
from dyno.model import Caveat, Cell, Sample, Tier
from dyno.results import Attempt, Run
from dyno.stats.doubts import MEANINGS, doubts
from dyno.stats.summary import FEWEST_TRIALS, T_95, CellSummary, estimate, summarize

PHASES = ("fill", "read")


# -- the estimate -----------------------------------------------------------------------------------------


def test_the_table_of_t_is_scipys() -> None:
    assert [stats.t.ppf(0.975, degrees) for degrees in range(1, len(T_95) + 1)] == pytest.approx(T_95, abs=5e-4)


@pytest.mark.parametrize("count", range(FEWEST_TRIALS, 32))
def test_the_interval_is_students_t_on_the_logarithms(count: int) -> None:
    values = np.random.default_rng(count).lognormal(10, 0.2, count)
    found = estimate(values.tolist())
    assert found.median == pytest.approx(np.median(values))
    logs = np.log(values)
    low, high = np.exp(stats.t.interval(0.95, count - 1, loc=logs.mean(), scale=stats.sem(logs)))
    # The headline is the median, so it is never outside of its own interval.
    assert found.low == pytest.approx(min(low, found.median), rel=1e-3)
    assert found.high == pytest.approx(max(high, found.median), rel=1e-3)


@pytest.mark.parametrize("count", [32, 33, 50, 200])
def test_beyond_the_table_the_interval_is_at_most_4_percent_too_narrow(count: int) -> None:
    values = np.random.default_rng(count).lognormal(0, 0.5, count)
    found, logs = estimate(values.tolist()), np.log(values)
    low, high = stats.t.interval(0.95, count - 1, loc=logs.mean(), scale=stats.sem(logs))
    assert found.low is not None and found.high is not None
    assert 0.96 <= np.log(found.high / found.low) / (high - low) <= 1


@pytest.mark.parametrize("spread", [0.02, 0.3, 1.5])
@pytest.mark.parametrize("count", [3, 5, 10])
def test_the_interval_covers_the_true_median_19_times_in_20(count: int, spread: float) -> None:
    true, experiments = 50_000.0, 2_000
    draws = np.random.default_rng([count, 1]).lognormal(np.log(true), spread, (experiments, count))
    intervals = [estimate(values) for values in draws.tolist()]
    covered = sum(found.low <= true <= found.high for found in intervals if found.low and found.high)
    assert 0.93 <= covered / experiments <= 0.97


@pytest.mark.parametrize("values", [[7.0], [7.0, 9.0]])
def test_too_few_trials_have_a_median_and_no_interval(values: list[float]) -> None:
    found = estimate(values)
    assert (found.median, found.low, found.high) == (np.median(values), None, None)


def test_trials_that_agree_have_an_interval_of_no_width() -> None:
    found = estimate([5.0, 5.0, 5.0])
    assert found.low == pytest.approx(5)
    assert found.high == pytest.approx(5)


def test_a_skewed_trial_does_not_put_the_median_outside_of_its_interval() -> None:
    found = estimate([100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 1.0])
    assert found.low is not None and found.high is not None
    assert found.low <= found.median == 100 <= found.high


def test_an_estimate_does_not_hang_on_the_order_or_the_unit() -> None:
    values = [3.0, 1.0, 2.0, 5.0]
    one, scaled = estimate(values), estimate([1_000 * value for value in sorted(values)])
    for before, after in ((one.median, scaled.median), (one.low, scaled.low), (one.high, scaled.high)):
        assert before is not None
        assert after == pytest.approx(1_000 * before)


# -- runs -------------------------------------------------------------------------------------------------


def a_sample(phase: str = "read", per_second: float = 1_000.0, **changed: Any) -> Sample:
    """A sound sample of a second."""
    latency = Recorder()
    latency.add([1_000_000])
    items = int(per_second)
    values: dict[str, Any] = {
        "phase": phase,
        "unit": "op",
        "operations": items,
        "items": items,
        "elapsed_ns": 10**9,
        "busy_ns": 10**9,
        "errors": 0,
        "ended_by": "count",
        "checked": items,
        "histogram": latency.encode(),
        "bytes_on_disk": 4_096,
    }
    return Sample(**{**values, **changed})


def an_attempt(block: int = 0, *samples: Sample, outcome: str = "ok", **changed: Any) -> Attempt:
    values: dict[str, Any] = {
        "cell": 0,
        "attempt": 0,
        "why": None if outcome == "ok" else f"why it ended by {outcome}",
        "phase": None if outcome == "ok" else "read",
        "started": "2026-01-01T00:00:00+00:00",
        "duration_ns": 10**9,
        "version": "1.0",
        "settings": {"sync": True},
        "caveats": (Caveat("columns", "has columns"),),
        "resources": {},
        "output": None,
    }
    return Attempt(block=block, outcome=outcome, samples=samples, **{**values, **changed})


def a_run(
    *attempts: Attempt, samples: int = 3, tier: Tier = Tier.PROCESS, floor: bool = False, host: Any = None
) -> Run:
    cell = Cell("records", "sqlite", {}, tier, {"clients": 1}, floor)
    header: Mapping[str, Any] = {"plan": {"samples": samples, "phases": list(PHASES)}, "host": host or {}}
    return Run(Path("run.json"), header, (cell,), attempts)


def read_row(run: Run) -> CellSummary:
    return next(row for row in summarize(run) if row.phase == "read")


def codes(run: Run) -> set[str]:
    return {doubt.code for doubt in doubts(read_row(run), run)}


def sound(count: int = 3) -> list[Attempt]:
    return [an_attempt(block, a_sample(per_second=1_000 + block)) for block in range(count)]


def test_every_cell_and_phase_has_a_row_in_the_plans_order() -> None:
    one = Cell("records", "sqlite", {}, Tier.PROCESS, {})
    other = Cell("records", "lmdb", {}, Tier.PROCESS, {})
    run = Run(Path("r"), {"plan": {"samples": 1, "phases": list(PHASES)}}, (one, other), ())
    rows = [(row.phase, row.cell.engine, row.valid, row.why) for row in summarize(run)]
    unmeasured = (False, "not measured yet")
    assert rows == [(phase, engine, *unmeasured) for phase in PHASES for engine in ("sqlite", "lmdb")]


def test_a_sound_run_has_its_figures_and_no_doubt() -> None:
    run = a_run(*sound())
    row = read_row(run)
    assert (row.valid, row.why, len(row.samples), row.unit) == (True, None, 3, "op")
    assert row.throughput is not None and row.throughput.median == 1_001
    assert row.throughput == estimate([1_000, 1_001, 1_002])
    assert (row.items, row.operations, row.elapsed_ns, row.bytes_on_disk) == (1_001, 3_003, 10**9, 4_096)
    assert row.latency_ns["max"] == pytest.approx(1_000_000, rel=1e-3)
    assert (row.version, row.settings, row.caveats) == ("1.0", {"sync": True}, (Caveat("columns", "has columns"),))
    assert doubts(row, run) == []


def test_what_is_unknown_is_none() -> None:
    run = a_run(an_attempt(0, a_sample(histogram=None, bytes_on_disk=None)))
    row = read_row(run)
    assert row.bytes_on_disk is None
    assert set(row.latency_ns.values()) == {None}
    fill = next(row for row in summarize(run) if row.phase == "fill")
    assert (fill.valid, fill.throughput, fill.items, fill.operations, fill.elapsed_ns) == (False, *[None] * 4)


def test_a_rate_counts_items_and_not_operations() -> None:
    run = a_run(an_attempt(0, a_sample(operations=10, items=300, elapsed_ns=2 * 10**9)))
    row = read_row(run)
    assert row.throughput is not None and row.throughput.median == 150


# -- why there is no number -------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", range(3))
def test_one_wrong_answer_in_one_trial_voids_the_row(bad: int) -> None:
    attempts = sound()
    attempts[bad] = an_attempt(bad, a_sample(void="got 1, expected 2"))
    row = read_row(a_run(*attempts))
    assert (row.valid, row.why) == (False, "void: got 1, expected 2")
    assert (row.samples, row.throughput, row.operations) == ((), None, None)
    assert set(row.latency_ns.values()) == {None}


def test_a_wrong_answer_in_another_phase_voids_that_one_only() -> None:
    attempts = [an_attempt(b, a_sample("fill", void="lost one" if b == 1 else None), a_sample()) for b in range(3)]
    fill, read = summarize(a_run(*attempts))
    assert (fill.why, read.why) == ("void: lost one", None)


def test_a_wrong_answer_outside_of_a_phase_voids_every_phase() -> None:
    run = a_run(*sound(2), an_attempt(2, outcome="wrong", phase="conformance"))
    assert [row.why for row in summarize(run)] == ["void: why it ended by wrong"] * 2


def test_a_wrong_answer_of_an_attempt_that_was_retried_voids_the_row_too() -> None:
    crashed = an_attempt(0, a_sample(void="got 1, expected 2"), outcome="crash", phase="scan")
    run = a_run(crashed, an_attempt(0, a_sample(), attempt=1), *sound()[1:])
    assert read_row(run).why == "void: got 1, expected 2"


@pytest.mark.parametrize("outcome", ["crash", "timeout", "out-of-memory", "refused", "error"])
def test_a_row_that_no_trial_got_to_says_how_they_ended(outcome: str) -> None:
    run = a_run(*(an_attempt(block, outcome=outcome) for block in range(3)))
    row = read_row(run)
    assert (row.valid, row.why) == (False, f"{outcome} in read: why it ended by {outcome}")
    assert row.throughput is None
    assert codes(run) == set()


def test_a_row_that_some_trials_got_to_is_valid_with_a_doubt() -> None:
    run = a_run(*sound(2), an_attempt(2, outcome="crash"))
    row = read_row(run)
    assert row.valid and len(row.samples) == 2
    assert codes(run) == {"attempts", "partial", "few"}
    attempts = next(doubt for doubt in doubts(row, run) if doubt.code == "attempts")
    assert attempts.short == "crash"
    assert "1 of 3 attempts did not end well" in attempts.text and "why it ended by crash (in read)" in attempts.text


def test_a_trial_that_crashed_later_still_counts_for_what_it_measured() -> None:
    run = a_run(*sound(2), an_attempt(2, a_sample("fill"), a_sample(), outcome="crash", phase="scan"))
    assert len(read_row(run).samples) == 3
    assert codes(run) == {"attempts"}


def test_of_a_retried_trial_the_last_attempt_counts() -> None:
    first = an_attempt(0, a_sample(per_second=1), outcome="crash")
    run = a_run(first, an_attempt(0, a_sample(per_second=1_000), attempt=1), *sound()[1:])
    assert [sample.items for sample in read_row(run).samples] == [1_000, 1_001, 1_002]
    assert codes(run) == {"attempts"}


def failed(**changed: Any) -> Sample:
    return a_sample(items=0, errors=1_000, first_error="OSError: disk full", **changed)


def test_errors_only_are_no_number() -> None:
    row = read_row(a_run(*(an_attempt(block, failed()) for block in range(3))))
    assert (row.valid, row.why, row.throughput) == (False, "error: OSError: disk full", None)


def test_a_phase_that_did_nothing_says_so() -> None:
    row = read_row(a_run(an_attempt(0, a_sample(items=0, operations=0, elapsed_ns=0, busy_ns=0))))
    assert (row.valid, row.why) == (False, "error: nothing was done")


def test_some_errors_are_a_doubt_that_counts_them() -> None:
    errors = a_sample(operations=1_000, items=993, errors=7, first_error="OSError: busy")
    run = a_run(*sound(2), an_attempt(2, errors))
    assert read_row(run).valid
    assert codes(run) == {"errors"}
    text = doubts(read_row(run), run)[0].text
    assert "7 of 3,001 operations raised" in text and "OSError: busy" in text


def test_a_trial_of_nothing_but_errors_is_not_among_the_trials_that_an_interval_has() -> None:
    run = a_run(*sound(2), an_attempt(2, failed()))
    row = read_row(run)
    assert row.throughput is not None and row.throughput.low is None
    assert "few" in codes(run)


# -- doubts -----------------------------------------------------------------------------------------------


def test_a_budget_that_ended_one_trial_is_a_doubt() -> None:
    run = a_run(*sound(2), an_attempt(2, a_sample(operations=900, ended_by="budget")))
    assert codes(run) == {"budget"}
    assert "in 1 of 3 trials, after 900 operations" in doubts(read_row(run), run)[0].text


@pytest.mark.parametrize(("busy_percent", "doubted"), [(100, False), (91, False), (89, True), (0, True)])
def test_a_harness_that_takes_over_a_tenth_is_a_doubt(busy_percent: int, doubted: bool) -> None:
    run = a_run(*sound(2), an_attempt(2, a_sample(busy_ns=busy_percent * 10**7)))
    assert codes(run) == ({"harness"} if doubted else set())
    if doubted:
        assert f"up to {100 - busy_percent} %" in doubts(read_row(run), run)[0].text


def test_the_floor_is_all_harness_and_that_is_no_doubt() -> None:
    attempts = [an_attempt(block, a_sample(busy_ns=0, elapsed_ns=10**6)) for block in range(3)]
    assert codes(a_run(*attempts, floor=True)) == set()
    assert codes(a_run(*attempts)) == {"harness", "short"}


def test_a_trial_that_was_over_in_no_time_is_a_doubt() -> None:
    run = a_run(*sound(2), an_attempt(2, a_sample(per_second=9, elapsed_ns=9 * 10**6, busy_ns=9 * 10**6)))
    assert codes(run) == {"short"}


@pytest.mark.parametrize(
    ("tier", "floor", "doubted"),
    [
        (Tier.POWER, False, True),
        (Tier.PROCESS, False, True),
        (Tier.VOLATILE, False, False),
        (Tier.POWER, True, False),
    ],
)
def test_a_work_directory_in_memory_is_a_doubt_of_what_should_be_durable(
    tier: Tier, floor: bool, doubted: bool
) -> None:
    host = {"filesystem": {"type": "tmpfs", "ram_backed": True}}
    run = a_run(*sound(), tier=tier, floor=floor, host=host)
    assert codes(run) == ({"ram"} if doubted else set())


@pytest.mark.parametrize("host", [{}, {"filesystem": None}, {"filesystem": {"type": "xfs", "ram_backed": False}}])
def test_a_work_directory_on_a_disk_or_somewhere_unknown_is_none(host: Any) -> None:
    assert codes(a_run(*sound(), tier=Tier.POWER, host=host)) == set()


def test_few_trials_are_a_doubt() -> None:
    assert codes(a_run(*sound(2), samples=2)) == {"few"}
    assert codes(a_run(*sound(1), samples=1)) == {"few"}


def test_a_run_that_is_not_complete_is_a_doubt() -> None:
    assert codes(a_run(*sound(3), samples=5)) == {"partial"}


def test_an_interval_that_reaches_far_is_a_doubt() -> None:
    attempts = [an_attempt(block, a_sample(per_second=rate)) for block, rate in enumerate((500, 1_000, 2_000))]
    assert codes(a_run(*attempts)) == {"wide"}


def test_every_doubt_has_a_meaning_to_print() -> None:
    raised = {"few", "wide", "budget", "harness", "short", "errors", "attempts", "partial", "ram"}
    assert raised == set(MEANINGS)
