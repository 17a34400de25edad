"""Tests the random orders of inputs: bijections of any size that depend only on the seed, look random, and take
constant memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyno.suites._shared.permutation import Permutation, Shuffled

N = 100_000
SEEDS = st.integers(0, 2**32)


@pytest.mark.claim("A random order of inputs is a bijection, and is random")
@given(st.integers(1, 3_000), SEEDS)
def test_permutation_has_every_number_once(n: int, seed: int) -> None:
    assert sorted(Permutation(n, seed)[:].tolist()) == list(range(n))


@given(st.integers(1, 2**62), SEEDS, st.data())
def test_a_permutation_of_any_size_is_a_bijection(n: int, seed: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, n - 1))
    found = Permutation(n, seed)[start : start + 50].tolist()
    assert len(found) == len(set(found)) == min(50, n - start)
    assert all(0 <= number < n for number in found)


@given(st.integers(1, 3_000), SEEDS, st.slices(3_000))
def test_slices_agree_with_the_whole(n: int, seed: int, piece: slice) -> None:
    order = Permutation(n, seed)
    assert order[piece].tolist() == order[:].tolist()[piece]
    assert order[piece].dtype == np.int64 and len(order) == n


def test_the_order_depends_only_on_the_seed() -> None:
    first = Permutation(N, [1, 2])[:].tolist()
    assert Permutation(N, [1, 2])[:].tolist() == first
    assert all(Permutation(N, other)[:100].tolist() != first[:100] for other in ([1, 3], [2, 1], 1))
    # These values must never change, or runs of two versions of Dyno would have different inputs.
    assert Permutation(10, 1)[:].tolist() == [1, 2, 0, 3, 7, 5, 9, 4, 8, 6]


@pytest.mark.parametrize("n", [0, -1, 2**62 + 1])
def test_empty_or_too_large_range_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=r"1 to 2 \*\* 62"):
        Permutation(n, 1)


# -- randomness. All seeds are fixed, so results never change. --------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10])
def test_every_number_is_equally_likely_at_every_position(n: int) -> None:
    orders = [Permutation(n, seed)[:].tolist() for seed in range(2_000)]
    for place in range(n):
        assert chi_square(Counter(order[place] for order in orders), n, 2_000) < 4 * n + 12


@pytest.mark.claim("A random order of inputs is a bijection, and is random")
@pytest.mark.parametrize("n", [N, 1 << 16, 317 * 317])
def test_numbers_move_evenly_over_the_range(n: int) -> None:
    order, places = Permutation(n, 7)[:], np.arange(n)
    cells = 10 * (order * 10 // n) + places * 10 // n
    assert chi_square(Counter(cells.tolist()), 100, n) < 150
    steps = (np.diff(order) % n) * 100 // n
    assert chi_square(Counter(steps.tolist()), 100, n - 1) < 150
    for one, other in ((places, order), (order[:-1], order[1:]), (order[:-2], order[2:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.02
    # On average one number stays at its position.
    assert int((order == places).sum()) < 8


@pytest.mark.claim("A random order of inputs is a bijection, and is random")
def test_orders_have_no_long_runs() -> None:
    order = Permutation(N, 3)[:]
    longest, run = 0, 1
    for up, before in zip(np.diff(order)[1:] > 0, np.diff(order)[:-1] > 0, strict=True):
        run = run + 1 if up == before else 1
        longest = max(longest, run)
    assert longest < 12
    # On average two of n pairs stay neighbours.
    assert int((np.abs(np.diff(order)) == 1).sum()) < 12


def test_orders_of_two_seeds_are_independent() -> None:
    for one, other in ((1, 2), ([1, 0], [1, 1])):
        first, second = Permutation(N, one)[:], Permutation(N, other)[:]
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.02 and int((first == second).sum()) < 8


def chi_square(counts: Counter[int], cells: int, draws: int) -> float:
    expected = draws / cells
    return sum((counts[cell] - expected) ** 2 / expected for cell in range(cells))


# -- memory, and ranges -------------------------------------------------------------------------------------------


def peak(n: int) -> int:
    tracemalloc.start()
    try:
        order = Permutation(n, 1)
        for start in (0, n // 2, n - 1_000):
            order[start : start + 1_000]
        shuffled = Shuffled(range(n), 1)
        assert shuffled[n // 2 : n // 2 + 5]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.claim("A random order of inputs is a bijection, and is random")
def test_memory_does_not_grow_with_the_range() -> None:
    peak(10**4)
    assert peak(10**9) < 2 * peak(10**5) < 4_000_000


@given(st.integers(0, 9_000), st.integers(1, 4), SEEDS)
def test_a_range_is_shuffled_whole_or_in_part(n: int, step: int, seed: int) -> None:
    numbers = range(step - 1, n, step)
    whole = Shuffled(numbers, seed)[:]
    assert sorted(whole) == list(numbers) and all(type(number) is int for number in whole)
    part = Shuffled(numbers, seed, 5_000)
    assert len(part) == min(5_000, len(whole)) and part[:] == whole[:5_000]
    assert part[4_000:4_200] == whole[4_000:4_200] and part[10:3] == []
