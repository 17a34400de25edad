"""Which rows are compared, and that noise, drift or too few blocks don't make equal engines look different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from madeup import a_cell, a_sample, an_attempt, changed, of_cells, of_rates, reads, recorded
from noise import CONTAMINATED, EVEN, SLOWED, Noise

from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier, UsageError
from dyno.fields import Sample
from dyno.report.tables import wording
from dyno.results import Attempt, Run
from dyno.stats.compare import Comparison, check_baseline, compare_with_baseline, pairs, tables
from dyno.stats.metric import metric


def verdicts(run: Run, **asked: Any) -> dict[tuple[str, str], str]:
    return {(found.engine.asked, found.baseline.asked): found.verdict.kind for found in pairs(run, **asked)}


def only(run: Run, engine: str, baseline: str) -> Comparison:
    (found,) = [c for c in pairs(run) if (c.engine.asked, c.baseline.asked) == (engine, baseline)]
    return found


# -- selection of rows ----------------------------------------------------------------------------------------


@pytest.mark.claim("Ratios are taken block by block")
def test_ratio_by_block_cancels_machine_drift() -> None:
    run = reads(sqlite=(1_000, 2_000, 500, 4_000), lmdb=(1_500, 3_000, 750, 6_000))
    found = only(run, "lmdb", "sqlite").verdict
    assert found.kind == "faster" and found.blocks == 4
    assert (found.ratio, found.low, found.high, found.bound) == pytest.approx((1.5, 1.5, 1.5, 0.5))
    assert only(run, "sqlite", "lmdb").verdict.kind == "slower"


def test_every_ordered_pair_is_compared_once() -> None:
    run = reads(sqlite=(100,) * 3, lmdb=(200,) * 3, memory=(300,) * 3)
    names = ("sqlite", "lmdb", "memory")
    assert set(verdicts(run)) == {(one, other) for one in names for other in names if one != other}


@pytest.mark.parametrize("blocks", [1, 2])
def test_verdict_under_three_blocks_is_unclear(blocks: int) -> None:
    found = only(reads(sqlite=(100,) * blocks, lmdb=(200,) * blocks), "lmdb", "sqlite").verdict
    assert (found.kind, found.ratio, found.low, found.high) == ("unclear", None, None, None)
    assert (found.blocks, found.more) == (blocks, 3 - blocks)


def test_blocks_missing_one_engines_sample_are_left_out() -> None:
    run = reads(sqlite=(100, None, 100, 100, 100), lmdb=(200, 999, None, 200, 200))
    assert only(run, "lmdb", "sqlite").verdict.blocks == 3
    assert only(run, "lmdb", "sqlite").verdict.ratio == 2
    run = reads(sqlite=(100, None, 100, 100), lmdb=(200, 999, None, 200))
    assert only(run, "lmdb", "sqlite").verdict.ratio is None


@pytest.mark.claim("Ratios are of rows with the same phase, tier and parameters")
def test_ratios_need_equal_tier_parameters_and_phase() -> None:
    fast, slow = {"read": (200,) * 3}, {"read": (100,) * 3}
    apart = [
        (a_cell("lmdb", tier=Tier.PROCESS), fast),
        (a_cell("sqlite", tier=Tier.POWER), slow),
        (a_cell("duckdb", records=10), slow),
        (a_cell("memory", records=20), slow),
    ]
    run = of_rates(*apart, (a_cell("leveldb"), {"fill": (100,) * 3}))
    assert pairs(run) == []
    assert len(tables(run)) == 5
    again = of_rates(*apart, (a_cell("rocksdb", tier=Tier.POWER), fast))
    assert set(verdicts(again)) == {("rocksdb", "sqlite"), ("sqlite", "rocksdb")}


@pytest.mark.claim("Ratios are of rows with the same phase, tier and parameters")
@pytest.mark.parametrize(
    ("one", "other"),
    [("records", "txn"), ("clients", "clients"), ("rate", "rate")],
    ids=["names", "clients", "rates"],
)
def test_rows_differing_in_any_parameter_are_unpaired(one: str, other: str) -> None:
    cells = [
        replace(cell, params={**cell.params, name: value})
        for cell, name, value in ((a_cell("lmdb"), one, 5), (a_cell("sqlite"), other, 6))
    ]
    assert pairs(of_rates(*((cell, {"read": (100,) * 3}) for cell in cells))) == []


@pytest.mark.claim("No ratio has a null engine or an invalid row")
def test_a_null_engine_is_in_no_ratio() -> None:
    rates = {"read": (100,) * 3}
    run = of_rates((a_cell("sqlite"), rates), (a_cell("null", floor=True), rates))
    assert pairs(run) == []
    assert [row.cell.asked for table in tables(run) for row, _ in table.rows] == ["sqlite"]


@pytest.mark.claim("No ratio has a null engine or an invalid row")
@pytest.mark.parametrize(
    ("spoilt", "blocks"),
    [({"void": "lost one"}, [2]), ({"items": 0, "errors": 9}, [0, 1, 2, 3])],
    ids=["one wrong answer", "nothing but errors"],
)
def test_invalid_row_is_in_no_ratio(spoilt: dict[str, Any], blocks: list[int]) -> None:
    run = reads(sqlite=(100,) * 4, lmdb=(200,) * 4)

    def changed(found: Attempt) -> Attempt:
        bad = found.cell == 1 and found.block in blocks
        return replace(found, samples=tuple(replace(s, **spoilt) for s in found.samples)) if bad else found

    assert pairs(replace(run, attempts=tuple(map(changed, run.attempts)))) == []


def test_crashed_row_is_in_no_ratio() -> None:
    crashed = [an_attempt(block, cell=1, outcome="crash") for block in range(3)]
    sound = [an_attempt(block, a_sample()) for block in range(3)]
    assert pairs(of_cells(a_cell("sqlite"), a_cell("lmdb"), attempts=(*sound, *crashed))) == []


def test_engines_differing_in_options_are_separate_rows() -> None:
    plain, wal = a_cell("sqlite"), replace(a_cell("sqlite"), options={"journal_mode": "wal"})
    run = of_rates((plain, {"read": (100,) * 3}), (wal, {"read": (300,) * 3}))
    assert only(run, "sqlite:journal_mode=wal", "sqlite").verdict.ratio == 3


# -- tables and baselines -------------------------------------------------------------------------------------


def test_tables_follow_plan_order_with_rows_by_speed() -> None:
    def both(cell: Cell, rate: float) -> tuple[Cell, dict[str, tuple[float, ...]]]:
        return cell, {"fill": (rate,) * 3, "read": (rate,) * 3}

    run = of_rates(
        both(a_cell("sqlite", Tier.POWER), 5),
        both(a_cell("sqlite", records=9), 10),
        both(a_cell("sqlite", records=1), 10),
        both(a_cell("lmdb", records=9), 20),
    )
    found = [(t.phase, t.tier, t.params.get("records"), [r.cell.engine for r, _ in t.rows]) for t in tables(run)]
    of_a_phase = [
        (Tier.PROCESS, 9, ["lmdb", "sqlite"]),
        (Tier.PROCESS, 1, ["sqlite"]),
        (Tier.POWER, None, ["sqlite"]),
    ]
    assert found == [(phase, *row) for phase in ("fill", "read") for row in of_a_phase]


def test_ratios_are_against_baseline_or_else_the_best() -> None:
    (table,) = tables(reads(sqlite=(100,) * 3, lmdb=(200,) * 3, memory=(300,) * 3))
    seen = {None: "memory", "sqlite": "sqlite", "lmdb": "lmdb"}
    for asked, base in seen.items():
        found = compare_with_baseline(table, asked)
        assert {c.baseline.asked for c in found} == {base}
        assert {c.engine.asked for c in found} == {"sqlite", "lmdb", "memory"} - {base}
    assert compare_with_baseline(table, "duckdb") == []


def test_unknown_or_null_baseline_is_refused() -> None:
    run = of_rates((a_cell("sqlite"), {"read": (1,)}), (a_cell("null", floor=True), {"read": (1,)}))
    check_baseline(run, None)
    check_baseline(run, "sqlite")
    with pytest.raises(UsageError, match=r"^run\.json: engine sqlit is not known; did you mean sqlite\?$"):
        check_baseline(run, "sqlit")
    with pytest.raises(UsageError, match="engine null is not known"):
        check_baseline(run, "null")


def latencies(**ns: int) -> Run:
    """A run of engines with equal throughput at a fixed rate and with these response times."""
    cells = [a_cell(name, rate=1_000) for name in ns]
    attempts = tuple(
        an_attempt(block, a_sample(histogram=recorded(1_000), response=recorded(value)), cell=at)
        for block in range(3)
        for at, value in enumerate(ns.values())
    )
    return of_cells(*cells, attempts=attempts)


def test_open_loop_engines_are_compared_by_response_time() -> None:
    run = latencies(sqlite=20_000, lmdb=10_000)
    found = only(run, "lmdb", "sqlite")
    assert (found.metric.name, found.verdict.kind) == ("response-p99", "faster")
    assert found.verdict.ratio == pytest.approx(2, rel=1e-2)
    assert set(verdicts(run, by=metric("throughput")).values()) == {"alike"}
    assert set(verdicts(run, by=metric("p99")).values()) == {"alike"}


def test_bulk_row_is_not_compared_by_percentile() -> None:
    timed = {"histogram": recorded(1_000)}
    kinds: tuple[dict[str, Any], ...] = (timed, timed, {"histogram": None, "bulk": True})
    attempts = tuple(an_attempt(b, a_sample(**kind), cell=at) for at, kind in enumerate(kinds) for b in range(3))
    run = of_cells(a_cell("sqlite"), a_cell("lmdb"), a_cell("duckdb"), attempts=attempts)
    assert set(verdicts(run, by=metric("p99"))) == {("sqlite", "lmdb"), ("lmdb", "sqlite")}
    assert len(verdicts(run)) == 6


# -- A against A ----------------------------------------------------------------------------------------------

COMPARISONS = 200
BLOCKS = (3, 4, 5, 6, 8, 10)


def compared(noise: Noise, number: int, truth: float, together: float = 0.3) -> str:
    """The verdict on two engines with this true ratio, on a machine that drifts and has hiccups."""
    blocks = BLOCKS[number % len(BLOCKS)]
    random = np.random.default_rng([number, 11])
    # Both engines share a slow drift, and a large slowdown in one block.
    machine = np.exp(together * random.standard_normal(blocks).cumsum() / np.sqrt(blocks))
    machine[random.integers(blocks)] /= 1 + random.exponential(0.5)
    one, other = (1e6 * machine * noise.draw(random, (blocks,)) for _ in range(2))
    run = reads(sqlite=one.tolist(), lmdb=(truth * other).tolist())
    return only(run, "lmdb", "sqlite").verdict.kind


@pytest.mark.claim("Equal engines are called different at most once in twenty comparisons")
@pytest.mark.parametrize("noise", [EVEN, CONTAMINATED, SLOWED], ids=lambda noise: noise.name)
def test_false_differences_stay_within_five_percent(noise: Noise) -> None:
    found = [compared(noise, number, 1.0) for number in range(COMPARISONS)]
    false = sum(kind in ("faster", "slower") for kind in found)
    assert false <= 0.05 * COMPARISONS


@pytest.mark.parametrize(("truth", "kind"), [(1.5, "faster"), (1 / 1.5, "slower")])
def test_difference_large_against_the_noise_is_found(truth: float, kind: str) -> None:
    found = [compared(EVEN, number, truth) for number in range(COMPARISONS)]
    assert found.count(kind) >= 0.9 * COMPARISONS
    assert set(found) <= {kind, "unclear"}


def test_equals_with_little_noise_are_called_alike() -> None:
    still = replace(EVEN, draw=lambda random, shape: EVEN.draw(random, shape) ** 0.1)
    found = [compared(still, number, 1.0) for number in range(COMPARISONS)]
    assert found.count("alike") >= 0.9 * COMPARISONS


# -- suspicious answers ---------------------------------------------------------------------------------------


def with_answers(run: Run, engine: str, **counts: int) -> Run:
    def answer(name: str, sample: Sample) -> Sample:
        facts = {f"answers_{what}": count for what, count in {"judged": 1_000, **counts}.items()}
        return replace(sample, facts=facts) if name == engine else sample

    return changed(run, answer)


@pytest.mark.claim("A row with too many empty or equal answers is in no comparison, and the answer says so")
@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({"empty": 600}, "up to 60 % of the answers are empty; ask for values that exist"),
        ({"same": 900}, "up to 90 % of the answers are the same; draw other values"),
    ],
    ids=["empty", "same"],
)
def test_row_with_suspicious_answers_is_not_compared(counts: dict[str, int], why: str) -> None:
    run = with_answers(reads(lmdb=(2e6, 2.1e6, 2e6), sqlite=(1e6, 1.1e6, 1e6)), "lmdb", **counts)
    (table,) = tables(run)
    assert [row.cell.engine for row, _ in table.rows] == ["sqlite"]
    assert [cell.engine for cell in table.suspicious] == ["lmdb"]
    assert any(sentence.startswith(f"read: lmdb: not compared: {why}") for sentence in wording.answers(run))
    few = with_answers(reads(lmdb=(2e6, 2.1e6, 2e6), sqlite=(1e6, 1.1e6, 1e6)), "lmdb", empty=400, same=400)
    assert len(tables(few)[0].rows) == 2
