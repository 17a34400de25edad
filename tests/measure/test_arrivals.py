"""Tests when the operations of an open loop are due: at the requested rate of all clients together, evenly or as a
Poisson process. The same seed gives the same moments, however many are taken at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from dyno.contracts.pace import ARRIVALS, POISSON, UNIFORM
from dyno.measure.arrivals import Arrivals

SECOND = 10**9
MANY = 1_000_000


def together(rate: float, kind: str, clients: int, each: int, seed: int = 1) -> NDArray[np.int64]:
    """Returns the moments of all clients, sorted by time."""
    every = [Arrivals(rate, kind, client, clients, seed).take(each) for client in range(clients)]
    return np.sort(np.concatenate(every))


def in_pieces(arrivals: Arrivals, pieces: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([arrivals.take(piece) for piece in pieces])


# -- both kinds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ARRIVALS)
@pytest.mark.parametrize("pieces", [[1] * 40, [0, 39, 0, 1], [13, 20, 7]])
def test_arrival_times_are_independent_of_batching(kind: str, pieces: list[int]) -> None:
    whole = Arrivals(333.0, kind, 1, 3, seed=5).take(40)
    found = in_pieces(Arrivals(333.0, kind, 1, 3, seed=5), pieces)
    # Random gaps are summed from different starting points, so rounding may differ by 1 ns.
    assert np.abs(found - whole).max() <= (0 if kind == UNIFORM else 1)


@pytest.mark.parametrize("kind", ARRIVALS)
def test_arrival_times_are_sorted_whole_nanoseconds(kind: str) -> None:
    arrivals = Arrivals(2_000_000.0, kind, 0, 2, seed=1)
    due = in_pieces(arrivals, [50_000, 50_000])
    assert due.dtype == np.int64
    assert due[0] >= 0
    assert (np.diff(due) >= 0).all()


@pytest.mark.parametrize("kind", ARRIVALS)
def test_billions_of_arrivals_are_counted_without_drawing(kind: str) -> None:
    arrivals = Arrivals(1e9, kind, 1, 4, seed=1)
    taken = arrivals.take(1_000)
    assert len(taken) + arrivals.take_until(10 * SECOND) == pytest.approx(10e9 / 4, rel=1e-6)


# -- uniform ----------------------------------------------------------------------------------------------


@pytest.mark.claim("The rate is that of all clients together")
@pytest.mark.parametrize("clients", [1, 2, 3, 7])
@pytest.mark.parametrize("rate", [0.5, 1.0, 3.0, 7_777.7, 1_000_000.0])
def test_uniform_arrivals_of_all_clients_form_one_grid(rate: float, clients: int) -> None:
    every = together(rate, UNIFORM, clients, 1_000)
    grid = np.arange(1, 1_000 * clients + 1) / rate * SECOND
    assert np.abs(every - grid).max() <= 1


def test_uniform_client_gets_every_nth_arrival() -> None:
    assert Arrivals(1_000.0, UNIFORM, 0, 4, 1).take(3).tolist() == [1_000_000, 5_000_000, 9_000_000]
    assert Arrivals(1_000.0, UNIFORM, 3, 4, 1).take(3).tolist() == [4_000_000, 8_000_000, 12_000_000]


def test_rounding_errors_of_arrival_times_do_not_accumulate() -> None:
    """The gap is not a whole number of nanoseconds: with rounded gaps, the last moment would be 333 µs off."""
    due = in_pieces(Arrivals(3_000_000.0, UNIFORM, 0, 1, 1), [1_000] * (MANY // 1_000))
    exact = np.round((np.arange(MANY) + 1) * (1_000 / 3)).astype(np.int64)
    assert np.abs(due - exact).max() <= 1
    assert due[-1] == 333_333_333


def test_uniform_arrivals_ignore_the_seed() -> None:
    assert (together(50.0, UNIFORM, 2, 100, seed=1) == together(50.0, UNIFORM, 2, 100, seed=2)).all()


# -- Poisson ----------------------------------------------------------------------------------------------


@pytest.mark.claim("The rate is that of all clients together")
@pytest.mark.parametrize("clients", [1, 4])
def test_poisson_gaps_are_exponential_at_the_total_rate(clients: int) -> None:
    rate, each = 20_000.0, 400_000 // clients
    every = together(rate, POISSON, clients, each)
    gaps = np.diff(every)
    # 400,000 gaps: the standard error of mean and spread is 1 / 600; the test allows six of them.
    assert gaps.mean() == pytest.approx(SECOND / rate, rel=0.01)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.01)
    # The gaps are exponential: a share of exp(-1) is longer than the mean, and exp(-3) longer than three means.
    for times in (1, 3):
        assert (gaps > times * SECOND / rate).mean() == pytest.approx(np.exp(-times), abs=0.006)
    # Gaps are independent of each other.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.01


@pytest.mark.claim("The rate is that of all clients together")
def test_poisson_clients_take_arrivals_in_turn() -> None:
    """Client n of 4 has every fourth moment of a single client, so all clients end at about the same time."""
    alone = Arrivals(1_000.0, POISSON, 0, 1, 1).take(400)
    each = [Arrivals(1_000.0, POISSON, client, 4, 1).take(100) for client in range(4)]
    assert all(np.abs(moments - alone[client::4]).max() <= 1 for client, moments in enumerate(each))


def test_poisson_arrivals_depend_on_the_seed() -> None:
    assert (together(100.0, POISSON, 2, 100, seed=1) == together(100.0, POISSON, 2, 100, seed=1)).all()
    assert (together(100.0, POISSON, 2, 100, seed=1) != together(100.0, POISSON, 2, 100, seed=2)).all()
