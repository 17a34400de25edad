"""Tests the records (unique, seeded, of the documented shape and order), and the model's
`following_records`."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from clockwork import the_loop
from hypothesis import given
from hypothesis import strategies as st

from dyno.suites.records import PARAMS, dataset
from dyno.suites.records.dataset import (
    ABSENT,
    Dataset,
    Model,
    following_records,
    pseudo_words,
)
from dyno.suites.records.port import VERSION_DIGITS

DEFAULT_RECORDS = next(int(setting.default) for setting in PARAMS if setting.name == "records")

FIRST_OF_77 = "V+qeu6HXyo3B1"


def small(records: int = 500, spare: int = 0, value_size: int = 150, seed: int = 1) -> Dataset:
    return Dataset(records, spare, value_size, seed)


# -- text -------------------------------------------------------------------------------------------------


def test_stubs_do_not_change_between_versions_of_dyno() -> None:
    """If stubs changed, two versions of Dyno would measure different records."""
    assert dataset.python_stub(b"1:", 77, 3, 13) == "0000003" + FIRST_OF_77
    assert dataset.stub(b"1:", 77, 3, 13) == "0000003" + FIRST_OF_77


@given(
    prefix=st.binary(max_size=20),
    number=st.integers(0, 2**63),
    version=st.integers(0, 10**9),
    chars=st.integers(0, 5_000),
)
def test_native_and_python_stubs_agree(prefix: bytes, number: int, version: int, chars: int) -> None:
    the_loop("native")
    arguments = prefix, number, version, chars
    assert dataset._native.stub(*arguments) == dataset.python_stub(*arguments)


# -- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [DEFAULT_RECORDS, 2_500_000])
def test_names_are_unique(count: int) -> None:
    # Random names have two duplicates with the default count, and about eighty with 2.5 million. The latter are more
    # than the reserve, so some names are drawn again.
    names = pseudo_words(count, seed=1)
    assert len(names) == len(set(names.tolist())) == count


def test_names_are_lower_case_letters_about_ten_long() -> None:
    names = [name.decode() for name in pseudo_words(20_000, seed=1)]
    assert all(name.isascii() and name.isalpha() and name.islower() for name in names)
    assert min(map(len, names)) >= 8 and max(map(len, names)) <= 11
    assert 9.5 < sum(map(len, names)) / len(names) < 10.5


def test_names_are_not_in_key_order() -> None:
    names = pseudo_words(20_000, seed=1)
    rising = int((names[:-1] < names[1:]).sum())
    assert 9_500 < rising < 10_500


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1_000])
def test_the_requested_number_of_names_is_made(count: int) -> None:
    assert len(pseudo_words(count, seed=1)) == count


def test_records_depend_on_the_seed() -> None:
    one, again, other = small(seed=7), small(seed=7), small(seed=8)
    numbers = range(500)
    assert [one.record(n, n % 3) for n in numbers] == [again.record(n, n % 3) for n in numbers]
    assert len(set(one.names.tolist()) & set(other.names.tolist())) < 5
    assert one.record(0)["stub"] != other.record(0)["stub"]


def test_the_spare_names_are_unique_too() -> None:
    dataset = small(100, spare=50)
    assert len(set(dataset.names.tolist())) == 150


# -- records ----------------------------------------------------------------------------------------------


def test_location_is_uppercase_name_and_key_has_both() -> None:
    dataset = small()
    for number in range(500):
        record = dataset.record(number)
        assert list(record) == ["name", "location", "stub"]
        assert record["location"] == record["name"].upper() != record["name"]
        assert dataset.key(number) == (record["name"], record["location"])


@pytest.mark.parametrize("size", [8, 9, 10, 11, 12, 13, 150, 1000])
def test_a_stub_has_the_requested_length(size: int) -> None:
    dataset = small(50, value_size=size)
    for number in range(50):
        for version in (0, 1, 99):
            stub = dataset.record(number, version)["stub"]
            assert len(stub) == len(stub.encode()) == size
            assert "=" not in stub, "padding is not random"


def test_a_record_differs_by_number_and_version() -> None:
    dataset = small(100)
    stubs = {dataset.record(number, version)["stub"] for number in range(100) for version in range(5)}
    assert len(stubs) == 500
    noises = {stub[VERSION_DIGITS:] for stub in stubs}
    assert len(noises) == 500
    assert dataset.record(3, 42)["stub"].startswith("0000042")
    assert {dataset.record(3, version)["name"] for version in range(5)} == {dataset.record(3)["name"]}


def test_stubs_do_not_repeat() -> None:
    stub = small(1, value_size=1_000).record(0)["stub"]
    pieces = Counter(stub[at : at + 4] for at in range(VERSION_DIGITS, len(stub) - 4))
    assert pieces.most_common(1)[0][1] <= 2


def test_the_mean_record_size_excludes_spare_records() -> None:
    for size in (8, 150):
        dataset = small(50, spare=70, value_size=size)
        sizes = [sum(map(len, dataset.record(number).values())) for number in range(50)]
        assert len(set(sizes)) > 1
        assert dataset.mean_record_bytes == pytest.approx(sum(sizes) / 50, rel=1e-12)


# -- order ------------------------------------------------------------------------------------------------


def test_order_and_rank_agree_with_sorting_the_keys() -> None:
    dataset = small(1_000, spare=200)
    numbers = sorted(range(1_200), key=dataset.key)
    assert dataset.order.tolist() == numbers
    assert [int(dataset.rank[number]) for number in numbers] == list(range(1_200))


ORDERED = small(40, spare=10)
FEW = small(7)


def naive(dataset: Dataset, versions: Any, number: int, count: int) -> list[int]:
    """Computes `following_records` by its definition, record by record."""
    start = dataset.key(number)
    numbers = range(len(dataset.names))
    present = [n for n in numbers if versions[n] != ABSENT and dataset.key(n) >= start]
    return sorted(present, key=dataset.key)[:count]


@given(
    present=st.sets(st.integers(0, 49)),
    number=st.one_of(st.integers(0, 49), st.sampled_from([int(n) for n in ORDERED.order[-4:]])),
    count=st.one_of(st.integers(0, 4), st.integers(0, 60)),
)
def test_following_has_the_present_records_in_key_order(present: set[int], number: int, count: int) -> None:
    versions = np.full(50, ABSENT, np.int32)
    versions[sorted(present)] = 3
    assert following_records(versions, ORDERED, number, count) == naive(ORDERED, versions, number, count)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
def test_following_is_right_for_any_absent_records(count: int) -> None:
    versions = np.full(7, ABSENT, np.int32)
    for chosen in product((ABSENT, 0), repeat=7):
        versions[:] = chosen
        for number in range(7):
            assert following_records(versions, FEW, number, count) == naive(FEW, versions, number, count)


def test_a_new_and_a_cleared_model_are_empty() -> None:
    model = Model({setting.name: setting.default for setting in PARAMS} | {"records": 50}, clients=1, seed=1)
    every, first = model.dataset, int(model.dataset.order[0])
    assert following_records(model.versions, every, first, 50) == []
    model.versions[:] = 0
    assert len(following_records(model.versions, every, first, 50)) == 50
    model.clear()
    assert following_records(model.versions, every, first, 50) == []


def test_records_are_independent_of_spare_records() -> None:
    assert Dataset(500, 0, 150, 1).names.tolist() == Dataset(500, 77, 150, 1).names[:500].tolist()
