"""Guards the metric by which rows are compared: more is always better, and an open loop is judged by its response
times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from madeup import (
    SECOND,
    a_cell,
    a_run,
    a_sample,
    an_attempt,
    changed,
    declared,
    of_rates,
    read_row,
    recorded,
    repeated,
)

from dyno.contracts.model import UsageError
from dyno.fields import Sample
from dyno.results import Run
from dyno.stats.answer import answers
from dyno.stats.compare import pairs, tables
from dyno.stats.metric import (
    BANDWIDTH,
    METRICS,
    RESPONSE,
    THROUGHPUT,
    choose_metric,
    estimate_metric,
    metric,
    rank,
    speeds,
)
from dyno.stats.summary import summarize

# Mostly quick operations and some slow ones, so that the percentiles differ.
SPANS = [1_000] * 980 + [50_000] * 15 + [900_000] * 5
LATENCIES = {"p50": 1_000, "p99": 50_000, "p999": 900_000}


def row(*samples: Sample):  # type: ignore[no-untyped-def]
    return read_row(a_run(*(an_attempt(block, sample) for block, sample in enumerate(samples))))


def open_loop(response_ns: int = 2_000) -> Sample:
    return a_sample(histogram=recorded(1_000), response=recorded(*[response_ns] * 90, *[9_000] * 10))


def test_throughput_is_items_a_second() -> None:
    assert THROUGHPUT.speed(a_sample(per_second=300)) == 300
    assert not THROUGHPUT.inverse


@pytest.mark.claim("An open loop is compared by response time, a closed one by the suite's metric")
@pytest.mark.parametrize("name", LATENCIES)
def test_lower_latency_is_better(name: str) -> None:
    found = metric(name)
    assert found.inverse
    assert found.speed(a_sample(histogram=recorded(*SPANS))) == pytest.approx(1 / LATENCIES[name], rel=1e-2)


@pytest.mark.parametrize(("name", "ns"), [("response-p50", 2_000), ("response-p99", 9_000)])
def test_response_time_metrics_use_the_response_histogram(name: str, ns: int) -> None:
    found = metric(name)
    assert found.inverse
    assert found.speed(open_loop()) == pytest.approx(1 / ns, rel=1e-2)
    assert found.speed(a_sample()) is None, "a closed loop has none"


@pytest.mark.parametrize("name", sorted(METRICS.keys() - {"throughput", "time"}))
def test_metric_without_its_data_has_no_speed(name: str) -> None:
    assert metric(name).speed(a_sample(histogram=None, bulk=True)) is None


def test_cpu_time_per_item_sums_client_and_server() -> None:
    client, server = {"user_ns": 30_000_000, "system_ns": 20_000_000}, {"user_ns": 0, "system_ns": 100_000_000}
    found, items = metric("cpu"), a_sample().items
    assert found.inverse
    assert found.of(a_sample(client=client)) == pytest.approx(50_000_000 / items)
    assert found.of(a_sample(client=client, server=server)) == pytest.approx(150_000_000 / items)


def test_cpu_time_with_an_unknown_part_is_unknown() -> None:
    client, few = {"user_ns": 30_000_000, "system_ns": 20_000_000}, {"user_ns": 10_000_000, "system_ns": 0}
    assert metric("cpu").of(a_sample(client=client, server=few)) is None, "of a tick of the server's clock"
    assert metric("cpu").of(a_sample(client=None, server=few)) is None


def test_memory_sums_client_and_server_peaks() -> None:
    found, used = metric("memory"), {"user_ns": 0, "system_ns": 0}
    assert found.inverse and found.kind == "size"
    assert found.of(a_sample(client_peak_bytes=300)) == 300
    assert found.of(a_sample(client_peak_bytes=300, server=used, server_peak_bytes=500)) == 800
    assert found.of(a_sample(client_peak_bytes=300, server=used)) is None, "the server's is not known"
    assert found.of(a_sample(server=used, server_peak_bytes=500)) is None
    assert found.speed(a_sample(client_peak_bytes=200)) == 1 / 200
    assert found.speed(a_sample()) is None, "a file of an earlier version"


def test_less_memory_is_better() -> None:
    peaks = {"few": 100 << 20, "many": 150 << 20}
    run = changed(of_two(), lambda name, s: replace(s, client_peak_bytes=peaks[name]))
    (table,) = tables(run, metric("memory"))
    assert [row.cell.engine for row, _ in table.rows] == ["few", "many"]
    (row, _) = summarize(run)
    assert (row.client_peak_bytes, row.server_peak_bytes) == (100 << 20, None)
    estimate = estimate_metric(row, metric("memory"))
    assert estimate is not None and estimate.median == 100 << 20


def test_metric_lookup_accepts_only_known_names() -> None:
    assert {name: metric(name).name for name in METRICS} == {name: name for name in METRICS}
    with pytest.raises(UsageError, match=r"^metric p95 is not known; did you mean p9+\?$"):
        metric("p95")
    with pytest.raises(UsageError, match=r"^metric speed is not known; "):
        metric("speed")


@pytest.mark.claim("An open loop is compared by response time, a closed one by the suite's metric")
def test_metric_is_response_time_only_for_open_loop() -> None:
    closed, opened = row(a_sample(), a_sample()), row(open_loop(), open_loop())
    assert choose_metric([closed]) is THROUGHPUT
    assert choose_metric([opened]) is choose_metric([opened, opened]) is RESPONSE
    assert choose_metric([opened, closed]) is choose_metric([row(open_loop(), a_sample())]) is THROUGHPUT
    assert choose_metric([]) is THROUGHPUT


def test_few_responses_are_compared_by_their_median() -> None:
    brief = replace(open_loop(), response=repeated(2_000, 499))
    assert choose_metric([row(brief, open_loop())]) is metric("response-p50")


def test_speeds_are_keyed_by_block_and_omit_missing() -> None:
    attempts = [an_attempt(block, a_sample(per_second=100 * (block + 1), elapsed_ns=10**9)) for block in range(4)]
    bulk = replace(attempts[2].samples[0], histogram=None)
    attempts[2] = replace(attempts[2], samples=(bulk,))
    found = read_row(a_run(attempts[3], attempts[0], attempts[2]))
    assert speeds(found, THROUGHPUT) == {3: 400, 0: 100, 2: 300}
    assert list(speeds(found, metric("p50"))) == [3, 0]


def moving(run: Run, **bytes_: int) -> Run:
    """The run with this many bytes per item, by engine."""
    return changed(run, lambda name, s: replace(s, bytes=s.items * bytes_[name] if name in bytes_ else None))


def of_two(**bytes_: int) -> Run:
    rows = ((a_cell(engine), {"read": (rate, rate, rate)}) for engine, rate in (("few", 100.0), ("many", 1_000.0)))
    return moving(of_rates(*rows, phases=["read"]), **bytes_)


def test_bandwidth_is_bytes_a_second_where_known() -> None:
    few, many = summarize(of_two(few=1_000_000))
    assert few.bandwidth and few.bandwidth.median == 1e8 and few.bytes == 100_000_000
    assert BANDWIDTH.speed(few.samples[0]) == 1e8 and not BANDWIDTH.inverse
    assert many.bandwidth is None and speeds(many, BANDWIDTH) == {}


@pytest.mark.claim("An open loop is compared by response time, a closed one by the suite's metric")
def test_rows_are_compared_by_the_suites_declared_metric() -> None:
    """The engine with fewer operations moves more bytes."""
    run = of_two(few=1_000_000, many=1_000)
    (table,) = tables(run)
    assert (table.metric, [row.cell.engine for row, _ in table.rows]) == (THROUGHPUT, ["many", "few"])
    (table,) = tables(declared(run, metric="bandwidth"))
    assert (table.metric, [row.cell.engine for row, _ in table.rows]) == (BANDWIDTH, ["few", "many"])
    assert [rank(row) for row in summarize(declared(run, metric="bandwidth"))] == [1e8, 1e6]
    (table,) = tables(declared(of_two(), metric="bandwidth"))
    assert table.metric is THROUGHPUT, "no row tells bytes"
    (table,) = tables(declared(run, metric="of a later dyno"))
    assert table.metric is THROUGHPUT


@pytest.mark.claim("Figures of an outside tool are in no ratio with what Dyno timed")
def test_tool_figures_are_not_paired_with_dyno_timings() -> None:
    run = changed(of_two(), lambda name, s: replace(s, reported_by="hammer 1.0") if name == "few" else s)
    assert [(t.reported_by, len(t.rows)) for t in tables(run)] == [(None, 1), ("hammer 1.0", 1)]
    assert pairs(run) == []
    assert {(a.best.engine, a.reported_by) for a in answers(run)} == {("few", "hammer 1.0"), ("many", None)}
    both = changed(of_two(), lambda _, s: replace(s, reported_by="hammer 1.0"))
    assert len(pairs(both)) == 2


@pytest.mark.claim("Time without waiting for a core drops what other processes take, and keeps other waiting")
@pytest.mark.parametrize(
    ("client", "server", "clients", "expected_ns"),
    [
        ({"core_wait_ns": SECOND // 4}, None, 1, 750_000),
        ({"core_wait_ns": 0}, None, 1, 1_000_000),
        ({"core_wait_ns": SECOND // 4}, {"core_wait_ns": SECOND // 2}, 1, 250_000),
        ({"core_wait_ns": SECOND // 4}, {"core_wait_ns": None}, 1, None),
        ({"core_wait_ns": SECOND // 4}, None, 2, None),
        ({"core_wait_ns": 2 * SECOND}, None, 1, None),
        ({}, None, 1, None),
    ],
)
def test_undisturbed_time_leaves_out_waiting_for_a_core(
    client: Any, server: Any, clients: int, expected_ns: float | None
) -> None:
    # 1,000 operations in a second.
    sample = a_sample(wall_ns=SECOND, client=client, server=server, clients=clients)
    undisturbed = metric("undisturbed").of(sample)
    assert undisturbed == (None if expected_ns is None else pytest.approx(expected_ns))


def test_waits_of_a_server_are_counted_without_pauses() -> None:
    paused = a_sample(wall_ns=2 * SECOND, client={"core_wait_ns": 0}, server={"core_wait_ns": SECOND // 2})
    assert metric("undisturbed").of(paused) == pytest.approx(750_000)
