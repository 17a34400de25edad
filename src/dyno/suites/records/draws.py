"""Draws record numbers by the distributions of `dyno.suites.records.distribution_of`.

A zipfian distribution with a theta, and a hotspot, take the same memory for any number of records. Without a theta,
`zipfian` and `latest` use a table of all records, which gives the inputs of Dyno 0.1.0.
"""

import numpy as np

from dyno.suites._shared.permutation import Permutation
from dyno.suites._shared.zipf import Ranks, zipf_ranks
from dyno.suites.records import THETA, distribution_of


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

    def move_to_own(positions: Ranks) -> Ranks:
        if client is None:
            return positions
        mine = positions - positions % clients + client
        return np.where(mine < count, mine, mine - clients)

    name, numbers = distribution_of(distribution)
    if name == "uniform":
        drawn = move_to_own(rng.integers(0, count, draws))
    elif name == "latest":
        drawn = move_to_own(count - 1 - draw_ranks(distribution, count, draws, rng))
    elif name == "zipfian" and not numbers:
        order = np.random.default_rng([seed, 3]).permutation(count)
        drawn = move_to_own(order[draw_ranks(distribution, count, draws, rng)])
    else:
        drawn = _spread(move_to_own(draw_ranks(distribution, count, draws, rng)), count, clients, seed)
    result: list[int] = drawn.tolist()
    return result


def draw_ranks(distribution: str, count: int, draws: int, rng: np.random.Generator) -> Ranks:
    """Draws `draws` ranks below `count`, by any distribution except uniform."""
    name, numbers = distribution_of(distribution)
    if name == "hotspot":
        return _hotspot_ranks(count, draws, rng, *numbers)
    if not numbers:
        return zipf_table_ranks(count, draws, rng)
    return zipf_ranks(count, numbers[0], draws, rng)


def zipf_table_ranks(count: int, draws: int, rng: np.random.Generator, theta: float = THETA) -> Ranks:
    """Draws ranks by inversion of a table. The probability of rank r is proportional to 1 / (r + 1) ** theta."""
    weights = np.cumsum(1.0 / np.arange(1, count + 1, dtype=np.float64) ** theta)
    ranks: Ranks = np.searchsorted(weights, rng.random(draws) * weights[-1]).clip(0, count - 1)
    return ranks


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
    numbers[moved] = Permutation(max(rows, 1), [seed, 3]).numbers_at(row) * clients + column
    return numbers
