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
def test_ratio_by_block_cancels_machine_drift() -> None:
    run = a_run(*trials("sqlite", (100, 200, 400)), *trials("lmdb", (150, 300, 600)))
    assert of(run) == [1.5, 1.5, 1.5]
    assert of(run, "sqlite", "lmdb") == pytest.approx([2 / 3] * 3)
    assert of(run, "lmdb", "lmdb") == [1, 1, 1]


def test_ratios_are_in_block_order() -> None:
    attempts = [*trials("lmdb", (100, 200, 300)), *trials("sqlite", (100, 100, 100))]
    assert of(a_run(*attempts)) == of(a_run(*reversed(attempts))) == [1, 2, 3]


def test_rate_is_items_per_elapsed_time() -> None:
    slow = an_attempt(0, a_sample(per_second=100, elapsed_ns=4 * 10**9, operations=7), cell=1)
    assert of(a_run(slow, *trials("sqlite", (100,)))) == [0.25]


def test_block_missing_either_sample_is_left_out() -> None:
    run = a_run(*trials("sqlite", (100, None, 100, 100)), *trials("lmdb", (100, 200, None, 400)))
    assert of(run) == [1, 4]
    assert of(run, "memory") == []


@pytest.mark.parametrize("spoilt", [{"items": 0}, {"elapsed_ns": 0}], ids=str)
@pytest.mark.parametrize("whose", ["sqlite", "lmdb"])
def test_sample_without_a_rate_is_left_out(spoilt: dict[str, Any], whose: str) -> None:
    run = a_run(*trials("sqlite", (100, 100)), *trials("lmdb", (200, 300)))
    bad = ENGINES.index(whose), 1

    def spoil(attempt: Attempt) -> Attempt:
        changed = tuple(replace(sample, **spoilt) for sample in attempt.samples)
        return replace(attempt, samples=changed) if (attempt.cell, attempt.block) == bad else attempt

    assert of(replace(run, attempts=tuple(map(spoil, run.attempts)))) == [2]


@pytest.mark.parametrize("whose", ["sqlite", "lmdb"])
def test_void_row_has_no_ratios(whose: str) -> None:
    others = [*trials("sqlite", (100, 100)), *trials("lmdb", (200, 300))]
    wrong = an_attempt(2, a_sample(void="lost one"), cell=ENGINES.index(whose))
    assert of(a_run(*others)) == [2, 3]
    assert of(a_run(*others, wrong)) == []


def test_last_attempt_of_retried_trial_counts() -> None:
    first = an_attempt(0, a_sample(per_second=1), cell=1, outcome="crash")
    again = an_attempt(0, a_sample(per_second=300), cell=1, attempt=1)
    assert of(a_run(first, *trials("sqlite", (100,)), again)) == [3]
    without = an_attempt(0, cell=1, attempt=1, outcome="timeout")
    assert of(a_run(first, *trials("sqlite", (100,)), without)) == []


def test_ratio_uses_only_samples_of_its_phase() -> None:
    run = a_run(*trials("sqlite", (100,)), *trials("lmdb", (300,), phase="fill"))
    assert (of(run), of(run, phase="fill")) == ([], [])


def test_ratio_selects_rows_by_requested_name() -> None:
    plain, wal = a_cell("sqlite"), replace(a_cell("sqlite"), options={"journal_mode": "wal"})
    attempts = an_attempt(0, a_sample(per_second=100)), an_attempt(0, a_sample(per_second=500), cell=1)
    run = of_cells(plain, wal, attempts=attempts)
    assert ratios(run, "read", "sqlite:journal_mode=wal", "sqlite") == [5]
