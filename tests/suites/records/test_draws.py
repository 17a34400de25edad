"""Tests the key distributions of the records suite against probabilities that are calculated independently, their
memory, and the parameters `mix` and `distribution`."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from dyno.contracts.model import UsageError
from dyno.options import RunRequest
from dyno.runner import plan
from dyno.suites._shared.zipf import zipf_accepted
from dyno.suites.records import PRESETS, YCSB, distribution_of, mix_of
from dyno.suites.records.draws import draw, draw_ranks, zipf_table_ranks

HUGE = 10**8


def zipf_weights(count: int, theta: float) -> Any:
    return 1 / np.arange(1, count + 1) ** theta


def weight_up_to(rank: int, theta: float) -> float:
    """Sums the weights of the first ranks, beyond 1,000 by the formula of Euler and Maclaurin."""
    if rank <= 1_000:
        return float(zipf_weights(rank, theta).sum())
    low, high = 1_000.0, float(rank)
    area = np.log(high / low) if theta == 1 else (high ** (1 - theta) - low ** (1 - theta)) / (1 - theta)
    ends = (high**-theta - low**-theta) / 2 - theta * (high ** (-theta - 1) - low ** (-theta - 1)) / 12
    return float(zipf_weights(1_000, theta).sum() + area + ends)


# -- zipfian ----------------------------------------------------------------------------------------------


@pytest.mark.claim("Zipfian keys have exactly the probabilities of the distribution")
@pytest.mark.parametrize("theta", [0.01, 0.5, 0.99, 1.0, 1.3, 10.0])
@pytest.mark.parametrize("count", range(1, 21))
def test_rejection_inversion_accepts_each_rank_by_its_weight(count: int, theta: float) -> None:
    """An even grid in place of random numbers: the shares of the ranks are exact up to the width of the grid."""
    cells = 200_000
    ranks = zipf_accepted(count, theta, (np.arange(cells) + 0.5) / cells)
    weights = zipf_weights(count, theta)
    seen = np.bincount(ranks, minlength=count) / len(ranks)
    assert seen == pytest.approx(weights / weights.sum(), abs=3 / len(ranks))
    assert len(ranks) > 0.6 * cells, "few are rejected"


@pytest.mark.parametrize("theta", [0.5, 0.99, 1.0, 1.3])
@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_zipfian_ranks_have_the_right_frequencies(count: int, theta: float) -> None:
    drawn = {"table": zipf_table_ranks(count, 300_000, np.random.default_rng(5), theta)}
    drawn["rejection"] = draw_ranks(f"zipfian:{theta}", count, 300_000, np.random.default_rng(5))
    weights = zipf_weights(count, theta)
    for ranks in drawn.values():
        assert len(ranks) == 300_000
        seen = np.bincount(ranks, minlength=count)
        assert len(seen) == count
        assert count == 1 or chisquare(seen, 300_000 * weights / weights.sum()).pvalue > 0.001


@pytest.mark.claim("Zipfian keys have exactly the probabilities of the distribution")
@pytest.mark.parametrize("theta", [0.5, 0.99, 1.0, 1.3])
def test_zipfian_frequencies_are_right_for_100m_records(theta: float) -> None:
    assert weight_up_to(10**6, theta) == pytest.approx(float(zipf_weights(10**6, theta).sum()), rel=1e-10)
    ranks = draw_ranks(f"zipfian:{theta}", HUGE, 300_000, np.random.default_rng(7))
    edges = [0, 1, 2, 3, 5, 10, 100, *(int(10 ** (at / 2)) for at in range(6, 16)), HUGE]
    sums = np.array([weight_up_to(edge, theta) if edge else 0.0 for edge in edges])
    expected = 300_000 * np.diff(sums) / sums[-1]
    seen, _ = np.histogram(ranks, edges)
    # Count bins with few expected draws with the largest one.
    enough, largest = expected > 5, int(np.argmax(expected))
    for values in (seen, expected):
        values[largest] += values[~enough].sum()
    assert enough.sum() >= 7 and chisquare(seen[enough], expected[enough]).pvalue > 0.001


def test_the_chi_square_test_rejects_a_similar_distribution() -> None:
    ranks = draw_ranks("zipfian:0.95", 100, 200_000, np.random.default_rng(5))
    weights = zipf_weights(100, 0.99)
    assert chisquare(np.bincount(ranks, minlength=100), 200_000 * weights / weights.sum()).pvalue < 1e-6


@pytest.mark.claim("Key distributions need no table of all keys")
@pytest.mark.parametrize("distribution", ["zipfian:0.99", "hotspot:20:80", "latest:0.99", "uniform"])
def test_memory_is_independent_of_record_count(distribution: str) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            assert len(draw(distribution, count, 2_000, np.random.default_rng(1), 1, 8, 3)) == 2_000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10**4)
    assert peak(HUGE) < peak(10**4) * 1.2 < 2_000_000


# -- any distribution -------------------------------------------------------------------------------------

DISTRIBUTIONS = ("uniform", "zipfian", "latest", "zipfian:0.99", "latest:1.2", "hotspot:20:80", "hotspot:100:1")


@settings(max_examples=100)
@given(
    distribution=st.sampled_from(DISTRIBUTIONS),
    count=st.integers(1, 300),
    draws=st.integers(0, 300),
    seed=st.integers(0, 1_000),
    clients=st.integers(1, 9),
)
def test_draws_have_the_requested_number_range_and_owner(
    distribution: str, count: int, draws: int, seed: int, clients: int
) -> None:
    for client in (None, *range(min(clients, count))):
        arguments = distribution, count, draws
        drawn = draw(*arguments, np.random.default_rng(seed), seed, clients, client)
        assert len(drawn) == draws
        assert all(type(number) is int and 0 <= number < count for number in drawn)
        assert client is None or {number % clients for number in drawn} <= {client}
        assert drawn == draw(*arguments, np.random.default_rng(seed), seed, clients, client)


def test_uniform_draws_are_uniform() -> None:
    seen = np.bincount(draw("uniform", 100, 100_000, np.random.default_rng(2), 2), minlength=100)
    assert chisquare(seen).pvalue > 0.001


@pytest.mark.parametrize("distribution", ["latest", "latest:0.99"])
def test_latest_draws_favour_the_last_records(distribution: str) -> None:
    seen = np.bincount(draw(distribution, 100, 100_000, np.random.default_rng(2), 2), minlength=100)
    weights = zipf_weights(100, 0.99)
    assert chisquare(seen[::-1], 100_000 * weights / weights.sum()).pvalue > 0.001


@pytest.mark.parametrize("clients", [1, 8])
@pytest.mark.parametrize("distribution", ["zipfian", "zipfian:0.99"])
def test_zipfian_draws_scatter_hot_records_over_keys(distribution: str, clients: int) -> None:
    hottest = [
        Counter(draw(distribution, 1_000, 5_000, np.random.default_rng(seed), seed, clients)).most_common(1)[0][0]
        for seed in range(20)
    ]
    assert len(set(hottest)) > 15
    drawn = Counter(draw(distribution, 1_000, 50_000, np.random.default_rng(1), 1, clients))
    seen = sorted(drawn.values(), reverse=True)
    weights = zipf_weights(1_000, 0.99) / zipf_weights(1_000, 0.99).sum()
    assert seen[0] / 50_000 == pytest.approx(weights[0], rel=0.05)
    assert sum(seen[:50]) / 50_000 == pytest.approx(weights[:50].sum(), rel=0.05)
    if clients == 1:
        hot = sorted(number for number, _ in drawn.most_common(20))
        assert (np.diff(hot) == 1).sum() <= 2 and max(hot) - min(hot) > 500, "hot records are no neighbours"


@pytest.mark.claim("hotspot:R:O gives R percent of the records O percent of the operations")
@pytest.mark.parametrize("clients", [1, 8])
@pytest.mark.parametrize(("records", "operations"), [(20, 80), (1, 50), (50, 10), (0.01, 99)])
def test_hotspot_gets_its_share_of_operations(records: float, operations: float, clients: int) -> None:
    count, draws = 1_600, 200_000
    distribution, hot = f"hotspot:{records}:{operations}", max(round(count * records / 100), 1)
    ranks = draw_ranks(distribution, count, draws, np.random.default_rng(3))
    assert binomtest(int((ranks < hot).sum()), draws, operations / 100).pvalue > 0.001
    seen = np.bincount(ranks, minlength=count)
    assert chisquare(seen[hot:]).pvalue > 0.001 and (hot == 1 or chisquare(seen[:hot]).pvalue > 0.001)
    # The same records are hot for reads and, of each client, for writes.
    numbers = Counter(draw(distribution, count, draws, np.random.default_rng(3), 1, clients))
    assert sorted(numbers.values()) == sorted(seen[seen > 0].tolist())
    if hot % clients == 0 and operations >= 50:
        hottest = {number for number, _ in numbers.most_common(hot)}
        for client in range(clients):
            own = np.array(draw(distribution, count, draws, np.random.default_rng(4), 1, clients, client))
            share = np.isin(own, list(hottest)).sum()
            assert binomtest(int(share), draws, operations / 100).pvalue > 0.001


@pytest.mark.parametrize("distribution", ["zipfian", "zipfian:0.99"])
@pytest.mark.parametrize("clients", [1, 8])
def test_reads_and_writes_favour_the_same_records(distribution: str, clients: int) -> None:
    reads = draw(distribution, 1_000, 5_000, np.random.default_rng(5), 1, clients)
    writes = draw(distribution, 1_000, 5_000, np.random.default_rng(6), 1, clients, 0)
    assert reads != writes
    hottest_read, hottest_written = (Counter(each).most_common(1)[0][0] // clients for each in (reads, writes))
    assert hottest_read == hottest_written


INPUTS = {
    "uniform": [473, 512, 755, 950],
    "zipfian": [875, 869, 113, 236],
    "latest": [974, 302, 998, 311],
    "zipfian:0.99": [605, 824, 350, 824],
    "latest:1.2": [995, 998, 869, 998],
    "hotspot:20:80": [650, 611, 395, 809],
    "hotspot:100:1": [587, 596, 968, 551],
}


def test_inputs_do_not_change_between_versions_of_dyno() -> None:
    """If they changed, two versions of Dyno would do different work under the same name."""
    assert {name: draw(name, 1_000, 4, np.random.default_rng(1), 1, 3, 2) for name in DISTRIBUTIONS} == INPUTS


# -- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "percent"),
    [
        ("a", {"get": 50, "update": 50}),
        ("80:20", {"get": 80, "update": 20}),
        ("get:70+update:20+scan:5+insert:5", {"get": 70, "update": 20, "scan": 5, "insert": 5}),
        ("modify:100", {"modify": 100}),
    ],
)
def test_mix_is_parsed_to_percentages(mix: str, percent: dict[str, int]) -> None:
    assert mix_of(mix).percent == percent


def cells(**params: str) -> Any:
    given = {name: [value] for name, value in params.items()}
    return plan.make(RunRequest("records", ["memory"], phases=["mixed"], params=given)).cells[0].params


def test_mix_and_distribution_are_normalised() -> None:
    assert cells(mix="insert:5+get:95")["mix"] == cells(mix="get:95+insert:5+scan:0")["mix"] == "get:95+insert:5"
    assert cells(distribution="zipfian:0.990")["distribution"] == "zipfian:0.99"


BAD_MIXES = [
    "",
    "g",
    "get",
    "get:",
    "get:99",
    "get:50+get:50",
    "get:60+update:60",
    "get:50+delete:50",
    "get:-1+scan:101",
]
BAD_MIXES += ["80:30", "50:50:0", "get:50.5+update:49.5", "get:100+", "a+b", "get:1e2"]
BAD_DISTRIBUTIONS = ["", "zipf", "zipfian:", "zipfian:0", "zipfian:-1", "zipfian:11", "zipfian:nan", "zipfian:inf"]
BAD_DISTRIBUTIONS += ["zipfian:1:1", "uniform:1", "hotspot", "hotspot:20", "hotspot:0:80", "hotspot:20:101", "mix:1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("mix", value) for value in BAD_MIXES), *(("distribution", value) for value in BAD_DISTRIBUTIONS)],
)
def test_invalid_mix_or_distribution_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"parameter {name}=.*expected .*as 80:20|expected mix, uniform") as refused:
        cells(**{name: value})
    assert "\n" not in str(refused.value)


@pytest.mark.claim("The presets ycsb-a to ycsb-f are YCSB's core workloads")
def test_ycsb_presets_are_the_core_workloads() -> None:
    # readproportion, updateproportion, scanproportion, insertproportion, readmodifywriteproportion and
    # requestdistribution of the files workloads/workloada to workloadf of YCSB 0.17.0.
    core = {
        "a": ({"get": 50, "update": 50}, "zipfian"),
        "b": ({"get": 95, "update": 5}, "zipfian"),
        "c": ({"get": 100}, "zipfian"),
        "d": ({"get": 95, "insert": 5}, "latest"),
        "e": ({"scan": 95, "insert": 5}, "zipfian"),
        "f": ({"get": 50, "modify": 50}, "zipfian"),
    }
    for letter, (percent, distribution) in core.items():
        made = plan.make(RunRequest("records", ["memory"], preset=f"ycsb-{letter}"))
        params, mix = made.cells[0].params, mix_of(str(made.cells[0].params["mix"]))
        assert mix.percent == percent == YCSB[letter].percent
        assert distribution_of(str(params["distribution"])) == (distribution, (0.99,))
        assert mix.shortest_scan == 1 and params["value_size"] == 1_000
        assert made.phases == ("insert-blind-indices", "mixed")
    assert {name for name in PRESETS if name.startswith("ycsb-")} == {f"ycsb-{letter}" for letter in core}
