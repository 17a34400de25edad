"""Draws record numbers by the distributions of `dyno.suites.records.distribution_of`.

A zipfian distribution with a theta, and a hotspot, take the same memory for any number of records. Without a theta,
`zipfian` and `latest` use a table of all records, which gives the inputs of Dyno 0.1.0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.suites._shared.permutation import Permutation
from dyno.suites.records import THETA, distribution_of

Ranks = NDArray[np.int64]
"""Positions in the order of popularity: 0 is the most popular record."""


def draw(
    distribution: str,
    count: int,
    draws: int,
    rng: np.random.Generator,
    seed: int,
    clients: int = 1,
    client: int | None = None,
) -> list[int]:
    """Draws `draws` record numbers below `count`. With `client`, draws only records of that client, whose numbers are
    `client` modulo `clients`: it takes the place of a neighbour, so that all clients' hot records are neighbours.

    Hot records are spread over the records. Only `seed` and `clients` decide which ones are hot, so that reads and
    writes favour the same ones.
    """

    def own(positions: Ranks) -> Ranks:
        if client is None:
            return positions
        mine = positions - positions % clients + client
        return np.where(mine < count, mine, mine - clients)

    name, numbers = distribution_of(distribution)
    if name == "uniform":
        drawn = own(rng.integers(0, count, draws))
    elif name == "latest":
        drawn = own(count - 1 - draw_ranks(distribution, count, draws, rng))
    elif name == "zipfian" and not numbers:
        order = np.random.default_rng([seed, 3]).permutation(count)
        drawn = own(order[draw_ranks(distribution, count, draws, rng)])
    else:
        drawn = _spread(own(draw_ranks(distribution, count, draws, rng)), count, clients, seed)
    result: list[int] = drawn.tolist()
    return result


def draw_ranks(distribution: str, count: int, draws: int, rng: np.random.Generator) -> Ranks:
    """Draws `draws` ranks below `count`, by any distribution except uniform."""
    name, numbers = distribution_of(distribution)
    if name == "hotspot":
        return _hotspot_ranks(count, draws, rng, *numbers)
    if not numbers:
        return zipf_table_ranks(count, draws, rng)
    accepted = np.empty(0, np.int64)
    while len(accepted) < draws:
        accepted = np.append(accepted, zipf_accepted(count, numbers[0], rng.random(draws - len(accepted))))
    return accepted


def zipf_table_ranks(count: int, draws: int, rng: np.random.Generator, theta: float = THETA) -> Ranks:
    """Draws ranks by inversion of a table. The probability of rank r is proportional to 1 / (r + 1) ** theta."""
    weights = np.cumsum(1.0 / np.arange(1, count + 1, dtype=np.float64) ** theta)
    ranks: Ranks = np.searchsorted(weights, rng.random(draws) * weights[-1]).clip(0, count - 1)
    return ranks


def zipf_accepted(count: int, theta: float, uniforms: NDArray[np.float64]) -> Ranks:
    """Returns the zipfian ranks for those of the uniform numbers that rejection-inversion accepts (Hormann and
    Derflinger, Rejection-inversion to generate variates from monotone discrete distributions, 1996). The
    distribution is exact.

    The area under x ** -theta is inverted, and the result x is rounded to k, which is rank k - 1. Of the area of k,
    which ends at k + 1/2, the last k ** -theta are accepted. All x from k - near on are among them.
    """

    def area(x: Any) -> Any:
        log = np.log(x)
        return log * _ratio(np.expm1, (1 - theta) * log)

    def inverse(area: Any) -> Any:
        return np.exp(area * _ratio(np.log1p, np.maximum((1 - theta) * area, -1)))

    low, high = area(1.5) - 1, area(count + 0.5)
    near = 2 - inverse(area(2.5) - 2.0**-theta)
    areas = high + uniforms * (low - high)
    # The area of a large theta ends within rounding errors of its limit, whose inverse is infinite.
    with np.errstate(divide="ignore", over="ignore"):
        x = inverse(areas)
    k = np.rint(x.clip(1, count))
    accepted: Ranks = k[(k - x <= near) | (areas >= area(k + 0.5) - k**-theta)].astype(np.int64) - 1
    return accepted


def _ratio(function: Any, x: Any) -> Any:
    """Returns function(x) / x, which is 1 in the limit for x = 0."""
    return np.divide(function(x), x, out=np.ones_like(x), where=x != 0)


def _hotspot_ranks(count: int, draws: int, rng: np.random.Generator, records: float, operations: float) -> Ranks:
    """Draws ranks so that the first `records` percent get `operations` percent of the draws. Hot ranks are equally
    likely, and so are the others."""
    hot = min(max(round(count * records / 100), 1), count)
    is_hot = rng.random(draws) < operations / 100
    return np.where(is_hot, rng.integers(0, hot, draws), rng.integers(hot % count, count, draws))


def _spread(ranks: Ranks, count: int, clients: int, seed: int) -> Ranks:
    """Returns a record number for each rank: a bijection, in which `clients` consecutive ranks stay together, so that
    each client owns one of them. The last `count % clients` stay where they are."""
    rows = count // clients
    moved = ranks < rows * clients
    row, column = np.divmod(ranks[moved], clients)
    numbers = ranks.copy()
    numbers[moved] = Permutation(max(rows, 1), [seed, 3]).at(row) * clients + column
    return numbers
