"""Compares the series of a phase with a plain calculation from all operations: intervals and latencies don't depend
on slices and clients. Memory is bounded, however long the phase.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dyno.contracts.histogram import DIGITS, HIGHEST, Recorder
from dyno.measure.series import MOST_POINTS, SECOND_NS, Series

Times = NDArray[np.int64]
PRECISION = 10.0**-DIGITS


def made(ends: Times, spans: Times, cuts: Sequence[int] = ()) -> Series:
    """Returns a series of operations, which were added in slices that end at `cuts`."""
    series = Series()
    bounds = [0, *sorted(cuts), len(ends)]
    for low, high in pairwise(bounds):
        series.add(ends[low:high], spans[low:high])
    return series


def operations(count: int, seconds: float, seed: int) -> tuple[Times, Times]:
    """Returns sorted ends, spread over `seconds`, and spans, which get longer."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.uniform(0, seconds * SECOND_NS, count)).astype(np.int64)
    spans = (rng.lognormal(10, 1, count) * (1 + ends / SECOND_NS)).astype(np.int64) + 1
    return ends, spans


def check(points: Sequence[Any], ends: Times, spans: Times, interval_ns: int = SECOND_NS) -> None:
    """Checks that the points equal a plain calculation from the operations."""
    places = ends // interval_ns
    assert [point["from_ns"] for point in points] == [int(place) * interval_ns for place in np.unique(places)]
    for point in points:
        own = np.sort(spans[places == point["from_ns"] // interval_ns])
        assert point["interval_ns"] == interval_ns
        assert point["operations"] == len(own)
        for name, percent in (("p50_ns", 50), ("p99_ns", 99)):
            # At least so many percent of the values are no larger; a bucket counts as its highest value.
            exact = own[-(-percent * len(own) // 100) - 1]
            assert exact <= point[name] <= exact * (1 + PRECISION), name


# -- points of a series -----------------------------------------------------------------------------------


@pytest.mark.claim("A phase's time series is per second, in constant memory")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slice", [1, 37, 1_000, 20_000])
def test_points_equal_direct_calculation_for_any_slice_size(slice: int, seed: int) -> None:
    ends, spans = operations(20_000 if slice > 1 else 2_000, 12.5, seed)
    check(made(ends, spans, range(slice, len(ends), slice)).points(), ends, spans)


def test_slice_across_seconds_is_split_at_whole_seconds() -> None:
    ends = np.array([SECOND_NS - 1, SECOND_NS, 2 * SECOND_NS - 1, 5 * SECOND_NS])
    points = made(ends, np.array([10, 20, 30, 40])).points()
    assert [(point["from_ns"], point["operations"], point["p99_ns"]) for point in points] == [
        (0, 1, 10),
        (SECOND_NS, 2, 30),
        (5 * SECOND_NS, 1, 40),
    ]


@pytest.mark.parametrize("ends", [[], [5], [0, 1, SECOND_NS - 1]])
def test_a_phase_within_one_second_has_no_points(ends: list[int]) -> None:
    assert made(np.array(ends, dtype=np.int64), np.array(ends, dtype=np.int64)).points() == ()


def test_points_can_be_read_while_series_grows() -> None:
    ends, spans = operations(1_000, 4.0, seed=1)
    series = Series()
    for low in range(0, 1_000, 100):
        series.add(ends[low : low + 100], spans[low : low + 100])
        series.points()
    check(series.points(), ends, spans)
    assert series.points() == series.points()


# -- several clients --------------------------------------------------------------------------------------


@pytest.mark.claim("A phase's time series is per second, in constant memory")
@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0, 1, 2, 5, 400, 700, 2_000]), min_size=1, max_size=4), st.integers(0, 1_000))
@example([2_000, 400], 0)
@example([400, 2_000], 0)
@example([2_000, 5, 700], 0)
@example([5, 0, 2], 0)
def test_merged_clients_equal_one_series_of_all_operations(seconds: list[int], seed: int) -> None:
    clients = [operations(50 * (length > 0), length or 1, seed + number) for number, length in enumerate(seconds)]
    merged = Series()
    for ends, spans in clients:
        merged.merge(made(ends, spans, [20]))
    ends, spans = (np.concatenate(parts) for parts in zip(*clients, strict=True))
    order = np.argsort(ends, kind="stable")
    assert merged.points() == made(ends[order], spans[order]).points()


def test_merging_includes_open_seconds_of_both_series() -> None:
    ends, spans = operations(3_000, 5.0, seed=3)
    one, other = made(ends[::2], spans[::2]), made(ends[1::2], spans[1::2])
    one.merge(other)
    check(one.points(), ends, spans)


def test_series_accepts_operations_after_a_merge() -> None:
    ends, spans = operations(3_000, 6.0, seed=4)
    series, early = made(ends[:1_000], spans[:1_000]), made(ends[1_000:2_000], spans[1_000:2_000])
    series.merge(early)
    series.add(ends[2_000:], spans[2_000:])
    check(series.points(), ends, spans)


# -- memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "interval"),
    [(599.5, 1), (600.5, 2), (1_199.5, 2), (1_201, 4), (3_600, 8), (86_400, 256)],
)
def test_long_phases_get_longer_intervals_within_point_limit(seconds: float, interval: int) -> None:
    ends, spans = operations(20_000, seconds, seed=5)
    # The last operation ends at the end of the phase.
    ends[-1] = int(seconds * SECOND_NS)
    points = made(ends, spans, range(0, 20_000, 90)).points()
    assert MOST_POINTS / 2 < len(points) <= MOST_POINTS
    check(points, ends, spans, interval * SECOND_NS)


def test_single_slice_over_whole_phase_widens_intervals() -> None:
    ends, spans = operations(5_000, 5_000, seed=6)
    points = made(ends, spans).points()
    assert len(points) <= MOST_POINTS
    check(points, ends, spans, points[0]["interval_ns"])


def size(series: Series) -> int:
    """Returns the memory of a series in bytes."""
    arrays = [array for sparse in series._past.values() for array in sparse]
    return sum(map(sys.getsizeof, arrays)) + series._now.counts.nbytes + sys.getsizeof(series._past)


@pytest.mark.claim("A phase's time series is per second, in constant memory")
def test_memory_stays_bounded_over_operations_and_time() -> None:
    rng, latencies = np.random.default_rng(7), np.geomspace(1, HIGHEST, 100).astype(np.int64)
    series, sizes = Series(), []
    for hour in range(4):
        begin = hour * 3_600 * SECOND_NS
        for second in range(0, 3_600, 10):
            ends = begin + second * SECOND_NS + np.sort(rng.integers(0, 10 * SECOND_NS, 1_000))
            series.add(ends, rng.choice(latencies, 1_000))
        sizes.append(size(series))
    # Each distinct latency has an index and a counter of 8 bytes, and Python adds overhead for two arrays.
    assert max(sizes) < MOST_POINTS * (100 * 16 + 500) + Recorder().counts.nbytes
    points = series.points()
    assert len(points) <= MOST_POINTS
    assert sum(point["operations"] for point in points) == 4 * 360 * 1_000
