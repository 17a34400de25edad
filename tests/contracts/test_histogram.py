"""Tests histograms: the native recorder and NumPy's count exactly like the library, merging and the interchange
format lose nothing, and percentiles are right to three significant digits.
"""

from __future__ import annotations

import base64
import math
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from clockwork import the_loop
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from dyno.contracts.histogram import (
    DIGITS,
    HIGHEST,
    LOWEST,
    PERCENTILES,
    Recorder,
    add_counters,
    curve,
    percentiles,
    quantile,
)
from dyno.contracts.rank import rank

POWERS = [1 << bit for bit in range(42)]
EDGES = sorted({n for power in POWERS for n in (power - 1, power, power + 1) if LOWEST <= n <= HIGHEST})
TENS = [digit * 10**power for power in range(13) for digit in (1, 5, 9) if digit * 10**power <= HIGHEST]
PRECISION = 10.0**-DIGITS


@pytest.fixture(scope="module", params=["native", "numpy"], autouse=True)
def recorders(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs every test with the native recorder and with the one in NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "native":
            the_loop("native")
        else:
            patch.setattr("dyno.contracts.histogram._record", None)
            patch.setattr("dyno.contracts.histogram._restore", add_counters)
        yield


def library(values: list[int]) -> HdrHistogram:
    histogram = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    for value in values:
        assert histogram.record_value(value)
    return histogram


def recorded(values: list[int]) -> Recorder:
    recorder = Recorder()
    recorder.add(values)
    return recorder


def of_all_magnitudes(count: int, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(value) for value in np.exp(rng.uniform(0, np.log(HIGHEST), count))]


# -- the same counts as the library's ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [EDGES, TENS, [LOWEST, HIGHEST, HIGHEST - 1], list(range(1, 10_000)), of_all_magnitudes(20_000, seed=3)],
    ids=["powers of two and their neighbours", "decades", "ends", "small", "all magnitudes"],
)
def test_recorder_counts_match_the_library(values: list[int]) -> None:
    assert recorded(values).counts.tolist() == list(library(values).counts)


@given(st.lists(st.integers(LOWEST, HIGHEST), max_size=50))
def test_recorder_counts_match_library_for_any_values(values: list[int]) -> None:
    assert recorded(values).counts.tolist() == list(library(values).counts)


def test_adding_in_slices_equals_adding_at_once() -> None:
    values = of_all_magnitudes(5_000, seed=4)
    sliced = Recorder()
    for start in range(0, len(values), 700):
        sliced.add(values[start : start + 700])
    sliced.add([])
    assert sliced.counts.tolist() == recorded(values).counts.tolist()


def test_out_of_range_values_are_clipped() -> None:
    recorder = recorded([-5, 0, HIGHEST + 1, 10 * HIGHEST])
    assert recorder.counts.tolist() == list(library([LOWEST, LOWEST, HIGHEST, HIGHEST]).counts)


# -- lossless ---------------------------------------------------------------------------------------------


def test_merging_recorders_equals_recording_everything_in_one() -> None:
    values = of_all_magnitudes(9_000, seed=5)
    merged = recorded(values[:1_000])
    merged.merge(recorded(values[1_000:]))
    merged.merge(Recorder())
    assert merged.counts.tolist() == recorded(values).counts.tolist()


def test_library_decodes_encoded_histogram_with_equal_counts() -> None:
    values = [*of_all_magnitudes(9_000, seed=6), *EDGES, *[77_777] * 100_000]
    encoded = recorded(values).encode()
    assert encoded is not None
    decoded = HdrHistogram.decode(base64.b64encode(encoded))
    assert list(decoded.counts) == recorded(values).counts.tolist()
    assert decoded.get_total_count() == len(values)


@pytest.mark.claim("Histograms merge without loss")
def test_percentiles_of_merged_parts_match_the_whole() -> None:
    values = of_all_magnitudes(9_000, seed=7)
    parts = [recorded(values[start::4]).encode() for start in range(4)]
    assert percentiles(parts) == percentiles([*parts, None]) == percentiles([recorded(values).encode()])


# -- percentiles ------------------------------------------------------------------------------------------


@pytest.mark.claim("Latencies are exact to 3 significant digits, in memory that does not grow")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", ["log-uniform", "log-normal", "two humps", "all the same"])
def test_percentiles_are_exact_to_three_significant_digits(shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {
        "log-uniform": np.array(of_all_magnitudes(30_000, seed)),
        "log-normal": rng.lognormal(9, 1.5, 30_000).astype(np.int64) + 1,
        "two humps": np.concatenate([rng.normal(2_000, 50, 29_800), rng.normal(9e6, 1e6, 200)]).astype(np.int64),
        "all the same": np.full(5_000, 123_456_789),
    }[shape]
    found = percentiles([recorded(values.tolist()).encode()])
    ordered = np.sort(values)
    count = len(values)
    for name, at in PERCENTILES.items():
        exact, got = ordered[math.ceil(Fraction(str(at)) * count / 100) - 1], found[name]
        assert got is not None and exact * (1 - PRECISION) <= got <= exact * (1 + PRECISION), name
    assert found["max"] == pytest.approx(ordered[-1], rel=PRECISION)


def test_percentile_rank_is_least_covering_its_share() -> None:
    counted = np.arange(1, 3_001)
    for count in range(1, 3_001):
        ranks = {name: rank(at, count) for name, at in PERCENTILES.items()}
        covered = {name: 1_000 * counted[:count] >= round(10 * at) * count for name, at in PERCENTILES.items()}
        assert ranks == {name: int(np.argmax(each)) + 1 for name, each in covered.items()}, count


@pytest.mark.claim("A percentile has at least five operations beyond it")
@pytest.mark.parametrize(("name", "least"), [("p90", 50), ("p95", 100), ("p99", 500), ("p999", 5_000)])
def test_a_percentile_needs_five_values_beyond_it(name: str, least: int) -> None:
    values = list(range(1, least + 1))
    enough = percentiles([recorded(values).encode()])
    few = percentiles([recorded(values[:-1]).encode()])
    assert enough[name] == pytest.approx(least - 5, rel=PRECISION)
    assert few[name] is None


def test_median_is_known_for_a_single_value() -> None:
    of_one = percentiles([recorded([7]).encode()])
    assert (of_one["p50"], of_one["max"]) == (7, 7)
    assert of_one["p99"] is None


def test_ranks_of_large_counts_are_exact() -> None:
    assert rank(99.9, 1_000) == 999
    assert rank(99.99, 10**18) == 9_999 * 10**14


@pytest.mark.parametrize("count", [5_000, 30_000])
def test_quantile_of_filled_counters_equals_percentile(count: int) -> None:
    recorder = recorded(of_all_magnitudes(count, seed=count))
    filled = np.flatnonzero(recorder.counts)
    found = {name: quantile(filled, recorder.counts[filled], at) for name, at in PERCENTILES.items()}
    expected = percentiles([recorder.encode()])
    assert found == {name: expected[name] for name in PERCENTILES}


def test_an_empty_histogram_has_no_percentiles() -> None:
    assert Recorder().encode() is None
    unknown = {"p50": None, "p90": None, "p95": None, "p99": None, "p999": None, "max": None}
    assert percentiles([]) == percentiles([None, None]) == unknown


def test_curve_ends_where_too_few_values_remain() -> None:
    halves = [recorded(list(range(low, low + 500))).encode() for low in (1, 501)]
    assert curve([*halves, None], [0, 50, 99, 99.9, 99.99]) == [(0, 1), (50, 500), (99, 990), (99.9, 999)]
    assert curve([None], [50]) == curve([], [50]) == []


@pytest.mark.claim("Latencies are exact to 3 significant digits, in memory that does not grow")
def test_recorder_memory_is_independent_of_value_count() -> None:
    recorder = Recorder()
    size = recorder.counts.nbytes
    for _ in range(10):
        recorder.add([random.Random(1).randrange(1, HIGHEST) for _ in range(1_000)])
    assert recorder.counts.nbytes == size < 1 << 20
