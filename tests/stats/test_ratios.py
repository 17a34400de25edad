"""Guards the ratios between rows: they are taken block by block, from valid samples of both and of the right rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells

from dyno.results import Attempt, Run
from dyno.stats.compare import ratios

ENGINES = ("sqlite", "lmdb", "memory")


def trials(engine: str, rates: Sequence[float | None], **changed: Any) -> list[Attempt]:
    """A trial for each block with a rate."""
    cell = ENGINES.index(engine)
    known = [(block, rate) for block, rate in enumerate(rates) if rate is not None]
    return [an_attempt(block, a_sample(per_second=rate, **changed), cell=cell) for block, rate in known]


def a_run(*attempts: Attempt) -> Run:
    return of_cells(*map(a_cell, ENGINES), attempts=attempts)


def of(run: Run, engine: str = "lmdb", baseline: str = "sqlite", phase: str = "read") -> list[float]:
    return ratios(run, phase, engine, baseline)


@pytest.mark.claim("Ratios are taken block by block")
def test_a_drift_of_the_machine_is_in_both_parts_of_each_ratio() -> None:
    run = a_run(*trials("sqlite", (100, 200, 400)), *trials("lmdb", (150, 300, 600)))
    assert of(run) == [1.5, 1.5, 1.5]
    assert of(run, "sqlite", "lmdb") == pytest.approx([2 / 3] * 3)
    assert of(run, "lmdb", "lmdb") == [1, 1, 1]


def test_the_order_is_the_blocks_and_not_the_files() -> None:
    attempts = [*trials("lmdb", (100, 200, 300)), *trials("sqlite", (100, 100, 100))]
    assert of(a_run(*attempts)) == of(a_run(*reversed(attempts))) == [1, 2, 3]


def test_a_rate_is_items_by_time() -> None:
    slow = an_attempt(0, a_sample(per_second=100, elapsed_ns=4 * 10**9, operations=7), cell=1)
    assert of(a_run(slow, *trials("sqlite", (100,)))) == [0.25]


def test_a_block_without_a_sample_of_both_is_left_out() -> None:
    run = a_run(*trials("sqlite", (100, None, 100, 100)), *trials("lmdb", (100, 200, None, 400)))
    assert of(run) == [1, 4]
    assert of(run, "memory") == []


@pytest.mark.parametrize("spoilt", [{"items": 0}, {"elapsed_ns": 0}], ids=str)
@pytest.mark.parametrize("whose", ["sqlite", "lmdb"])
def test_a_sample_that_has_no_rate_is_left_out(spoilt: dict[str, Any], whose: str) -> None:
    run = a_run(*trials("sqlite", (100, 100)), *trials("lmdb", (200, 300)))
    bad = ENGINES.index(whose), 1

    def spoil(attempt: Attempt) -> Attempt:
        changed = tuple(replace(sample, **spoilt) for sample in attempt.samples)
        return replace(attempt, samples=changed) if (attempt.cell, attempt.block) == bad else attempt

    assert of(replace(run, attempts=tuple(map(spoil, run.attempts)))) == [2]


@pytest.mark.parametrize("whose", ["sqlite", "lmdb"])
def test_a_row_that_is_void_by_one_wrong_answer_is_in_no_ratio(whose: str) -> None:
    others = [*trials("sqlite", (100, 100)), *trials("lmdb", (200, 300))]
    wrong = an_attempt(2, a_sample(void="lost one"), cell=ENGINES.index(whose))
    assert of(a_run(*others)) == [2, 3]
    assert of(a_run(*others, wrong)) == []


def test_of_a_retried_trial_the_last_attempt_counts() -> None:
    first = an_attempt(0, a_sample(per_second=1), cell=1, outcome="crash")
    again = an_attempt(0, a_sample(per_second=300), cell=1, attempt=1)
    assert of(a_run(first, *trials("sqlite", (100,)), again)) == [3]
    without = an_attempt(0, cell=1, attempt=1, outcome="timeout")
    assert of(a_run(first, *trials("sqlite", (100,)), without)) == []


def test_another_phase_does_not_count() -> None:
    run = a_run(*trials("sqlite", (100,)), *trials("lmdb", (300,), phase="fill"))
    assert (of(run), of(run, phase="fill")) == ([], [])


def test_rows_are_named_as_they_were_asked_for() -> None:
    plain, wal = a_cell("sqlite"), replace(a_cell("sqlite"), options={"journal_mode": "wal"})
    attempts = an_attempt(0, a_sample(per_second=100)), an_attempt(0, a_sample(per_second=500), cell=1)
    run = of_cells(plain, wal, attempts=attempts)
    assert ratios(run, "read", "sqlite:journal_mode=wal", "sqlite") == [5]
