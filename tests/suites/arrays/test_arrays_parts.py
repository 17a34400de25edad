"""Tests the arrays suite: rows don't depend on chunks, lossy sums fail, all engines get the same inputs, and the
model knows the updates.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dyno import registry
from dyno.contracts.equality import same
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Failure, Operations
from dyno.options import RunRequest
from dyno.runner import plan
from dyno.suites.arrays import PUBLISHED_ROWS
from dyno.suites.arrays.dataset import ROW_BYTES, STATS, UPDATED, Dataset, Model, Reference
from dyno.suites.arrays.port import COLUMNS, IDS, NAMES, NUMERIC, Change
from dyno.suites.arrays.workload import ClientWork

ROWS = range(2_000)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Dataset(1)


# -- rows -------------------------------------------------------------------------------------------------


def test_rows_are_independent_of_chunk_boundaries(dataset: Dataset) -> None:
    whole = dataset.chunk(ROWS)
    assert tuple(whole) == NAMES and whole["uid"].tolist() == list(range(1, 2_001))
    for part in (range(1), range(7, 1_001), range(1_999, 2_000), range(1_002, 1_003)):
        for name, values in dataset.chunk(part).items():
            assert same(values, whole[name][part.start : part.stop]), name
    pieces = [chunk for _, chunk in dataset.chunks(ROWS, most=333)]
    for name in NAMES:
        assert same(np.concatenate([piece[name] for piece in pieces]), whole[name])


def test_rows_depend_on_seed_and_version(dataset: Dataset) -> None:
    first = dataset.chunk(ROWS)
    for other in (Dataset(2).chunk(ROWS), dataset.chunk(ROWS, version=1)):
        assert same(other["uid"], first["uid"])
        assert not any(same(other[name], first[name]) for name in NAMES if name != "uid")


def test_table_matches_the_published_test(dataset: Dataset) -> None:
    assert len(COLUMNS) == 23 and len(IDS) == 13 and sum(column.sql == "text" for column in COLUMNS) == 4
    # The publication says: "The data size for pure NumPy tool sets … was exactly 250 megabytes."
    assert pytest.approx(250e6, rel=0.002) == PUBLISHED_ROWS * ROW_BYTES
    chunk = dataset.chunk(ROWS)
    for column in COLUMNS:
        values = chunk[column.name]
        assert values.dtype == np.dtype(column.dtype) and len(np.unique(values)) > 1, column.name
    assert all(int(chunk[name].min()) >= 1 and int(chunk[name].max()) < 2**32 for name in IDS)
    assert {0, 1} == set(chunk["is_accountable"].tolist())


def test_amounts_use_full_float64_precision(dataset: Dataset) -> None:
    for name in ("quantity", "total_price"):
        values = dataset.chunk(ROWS)[name]
        assert (values > 0).all() and (values != values.astype("f4")).mean() > 0.99
        # Half of the values have their lowest bit set.
        assert 0.4 < (values.view("u8") & np.uint64(1)).mean() < 0.6


# -- the reference ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(dataset: Dataset) -> Reference:
    reference = Reference()
    for _, chunk in dataset.chunks(ROWS, most=700):
        reference.add(chunk)
        reference.rows += len(chunk["uid"])
    return reference


def test_sums_are_exact(dataset: Dataset, reference: Reference) -> None:
    chunk = dataset.chunk(ROWS)
    for name in NUMERIC:
        right = sum(map(Fraction, chunk[name].tolist()))
        assert Fraction(reference.sum(name)) == pytest.approx(right, rel=2e-16)
        reference.check_sum(name, reference.sum(name))
    for name in STATS:
        values = list(map(Fraction, chunk[name].tolist()))
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        assert reference.stats(name) == pytest.approx((float(mean), float(variance) ** 0.5), rel=1e-14)
    reference.check_stats(STATS, [reference.stats(name) for name in STATS])


def test_subtracted_rows_no_longer_count(dataset: Dataset, reference: Reference) -> None:
    other, chunk = Reference(), dataset.chunk(range(500))
    other.rows += 500
    for times in (1, 1, -1):
        other.add(chunk, times)
    once = Reference()
    once.rows += 500
    once.add(chunk)
    for name in NUMERIC:
        assert other.sum(name) == once.sum(name)
    assert other.stats("quantity") == pytest.approx(once.stats("quantity"), rel=1e-15)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("order_id", lambda right: right + 1),
        ("order_id", float),
        ("order_id", str),
        ("order_id", lambda right: None),
        ("order_id", lambda right: np.float64(right)),
        ("quantity", lambda right: right * (1 + 2e-12)),
        ("quantity", lambda right: float("nan")),
        ("quantity", lambda right: np.float32(right)),
        ("quantity", int),
    ],
)
def test_a_wrong_sum_fails(reference: Reference, name: str, wrong: Any) -> None:
    with pytest.raises(Wrong, match=f"the sum of {name}"):
        reference.check_sum(name, wrong(reference.sum(name)))


def test_check_sum_accepts_any_order_but_not_float32(dataset: Dataset, reference: Reference) -> None:
    values = dataset.chunk(ROWS)["quantity"]
    for order in (values, values[::-1], np.sort(values)):
        naive = 0.0
        for value in order.tolist():
            naive += value
        reference.check_sum("quantity", naive)
    with pytest.raises(Wrong):
        reference.check_sum("quantity", float(values.astype("f4").astype("f8").sum()))


@pytest.mark.parametrize(
    "wrong",
    [lambda mean, off: (mean * (1 + 2e-12), off), lambda mean, off: (mean, off * (1 + 2e-9)), lambda *_: None],
)
def test_wrong_means_and_deviations_fail(reference: Reference, wrong: Any) -> None:
    with pytest.raises(Wrong, match="quantity"):
        reference.check_stats(("quantity",), [wrong(*reference.stats("quantity"))])
    with pytest.raises(Wrong, match="a list of 1"):
        reference.check_stats(("quantity",), [])


# -- the operations ---------------------------------------------------------------------------------------


PARAMS: dict[str, Any] = {"column": "quantity", "repeats": 2, "slices": 5, "updates": 4}


def model_of(dataset: Dataset, rows: int = 1_000, judged: bool = True) -> Model:
    model = Model(dataset, 30, judged)
    model.append(dataset.chunk(range(rows)))
    return model


def share(model: Model, phase: str, number: int) -> ClientWork:
    return ClientWork(model, PARAMS, phase, PORT, number)


def operations(slices: Any) -> list[Operations]:
    return list(slices)


PORT: Any = SimpleNamespace(sum="sum", frame=None, stats="stats", slice="slice", update="update", writing=lambda n: n)


def test_all_engines_get_the_same_inputs(dataset: Dataset) -> None:
    for phase in ("reads", "updates"):
        inputs = [
            [work.arguments for work in getattr(share(model_of(dataset), phase, number), phase)()]
            for number in (0, 0, 1)
        ]
        assert repr(inputs[0]) == repr(inputs[1]) != repr(inputs[2])


def test_a_cold_sum_is_done_once(dataset: Dataset) -> None:
    model = model_of(dataset)
    assert len(operations(share(model, "p", 0).sums(cold=True))) == 1
    assert operations(share(model, "p", 1).sums(cold=True)) == []
    assert len(operations(share(model, "p", 3).sums(cold=False))) == PARAMS["repeats"]
    (one, _) = operations(share(model, "p", 0).sums(cold=False))
    assert one.weights is None and one.sizes == [8_000]


def test_rows_that_were_not_written_void_the_phase(dataset: Dataset) -> None:
    model = model_of(dataset, 1_000)
    (added,) = operations(share(model, "append", 0).appends(range(1_000, 1_010)))
    held: Any = added.held
    assert held == 10
    assert added.sizes == [10 * ROW_BYTES]
    with pytest.raises(Wrong, match="rows 1000 to 1010 were not written: OSError: full"):
        added.check([Failure("OSError: full")])
    assert model.rows == 1_000
    added.check([None])
    assert model.rows == 1_010
    assert operations(share(model, "append", 1).appends(range(1_010, 1_020))) == []


def test_later_reads_and_sums_include_updates(dataset: Dataset) -> None:
    model = model_of(dataset, 100)
    held = {name: values.copy() for name, values in dataset.chunk(range(100)).items()}
    for number in range(3):
        for updates in operations(share(model, "u", number).updates()):
            for change in updates.arguments:
                assert isinstance(change, Change) and tuple(change.values) == UPDATED
                for name, values in change.values.items():
                    held[name][change.start : change.stop] = values
            updates.check([None] * len(updates.arguments))
    # 100 rows in slices of 30: the last is shorter, and 3 rounds of 4 updates visit each of the 4 slices three times.
    assert {version for version, _ in model.updated.values()} == {3}
    for rows in (range(100), range(29, 31), range(95, 100), range(31, 59)):
        model.check(rows, {name: values[rows.start : rows.stop] for name, values in held.items()})
        wrong = {name: values[rows.start : rows.stop].copy() for name, values in held.items()}
        wrong["total_price"][-1] += 1e-9
        with pytest.raises(Wrong, match=rf"total_price of rows .*: at {len(rows) - 1}, got"):
            model.check(rows, wrong)
    for name in UPDATED:
        model.check_sum(name, float(held[name].sum()))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda answer: list(answer.values()), "got list, expected a dict"),
        (lambda answer: {**answer, "uid": answer["uid"].tolist()}, "got list, expected an array of uint64"),
        (lambda answer: {**answer, "uid": answer["uid"].astype("i8")}, "of int64"),
        (lambda answer: {**answer, "uid": answer["uid"][:-1]}, r"\(9,\)"),
        (lambda answer: {name: answer[name] for name in NAMES[1:]}, "got columns"),
    ],
)
def test_a_wrong_slice_fails(dataset: Dataset, wrong: Any, said: str) -> None:
    model = model_of(dataset)
    right = dataset.chunk(range(5, 15))
    assert model.check(range(5, 15), dict(right)) == len(NAMES)
    with pytest.raises(Wrong, match=said):
        model.check(range(5, 15), wrong(dict(right)))


def test_answers_of_a_null_engine_are_not_checked(dataset: Dataset) -> None:
    model = model_of(dataset, judged=False)
    client = share(model, "p", 0)
    for work in chain(client.reads(), client.sums(False), client.stats()):
        assert isinstance(work, Operations) and work.check([None] * len(work.arguments)) == 0


# -- the declaration --------------------------------------------------------------------------------------


def test_default_engines_need_no_server() -> None:
    made = plan.make(RunRequest("arrays", preset="quick"))
    names = {cell.engine for cell in made.cells}
    assert "null" in names and not names & {"mariadb", "postgresql", "mysql"}
    assert all(cell.params["rows"] == 50_000 for cell in made.cells)


def test_flush_claims_use_each_engines_first_port(tmp_path: Path) -> None:
    from dyno.selftest.flushes import claims

    by_suite = {claim.spec.name: next(iter(claim.spec.ports)) for claim in claims()}
    assert by_suite["sqlite"] == "records" and by_suite["numpy_memmap"] == "arrays"
    for name, port in by_suite.items():
        assert port == next(iter(registry.engine(name).ports))
