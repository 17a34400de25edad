"""Tests that rows whose limit was the load generator take part in no comparison, and that answers name the remedy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from madeup import (
    SECOND,
    a_cell,
    a_run,
    a_sample,
    an_attempt,
    changed,
    codes,
    declared,
    of_rates,
    read_row,
    said,
    written,
)

import dyno
from dyno.contracts.cell import Cell
from dyno.fields import Sample
from dyno.measure.tally import Tally
from dyno.published.claims import Claim, Finding
from dyno.report.site import data
from dyno.report.tables import wording
from dyno.report.tables.table import groups
from dyno.results import Run
from dyno.stats import answer, findings
from dyno.stats.compare import pairs, tables
from dyno.stats.metric import metric
from dyno.stats.summary import summarize
from dyno.stats.two_runs import compare_runs

CLAIM = pytest.mark.claim("A row whose limit was the load generator is not compared, and the answer names the remedy")
HOST = {"cpu": {"available_cores": 2}}
SLOW, FAST = [1_000.0, 1_001.0, 1_002.0], [2_000.0, 2_001.0, 2_002.0]


def spread(counts: Sequence[int], ended_by: str = "duration") -> set[str]:
    """The doubts about a trial whose clients did so many operations each."""
    tally = Tally()
    tally.by_client = list(counts)
    sample = a_sample(ended_by=ended_by, least_served=tally.least_served, fair_share=tally.fair_share)
    trials = [an_attempt(block, sample) for block in range(3)]
    return codes(a_run(*trials, clients=len(counts))) - {"cores"}


@pytest.mark.claim("A server that hardly serves a tenth of the clients is doubted")
@pytest.mark.parametrize(
    "counts", [[0] * 56 + [400] * 8, [0] * 7 + [100] * 57, [1] + [20] * 7, [9, 181]], ids=["56", "7", "1 of 8", "2"]
)
def test_starved_clients_are_a_doubt(counts: list[int]) -> None:
    assert spread(counts) == {"unfair"}
    assert spread(counts, ended_by="count") == set(), "each did all of its own"


def test_poisson_spread_of_clients_is_not_starvation() -> None:
    """Each client's operations take exponential times, so that their numbers are Poisson's. None are starved."""
    draws = np.random.default_rng(1)
    for clients in (2, 8, 64):
        for counts in draws.poisson(20, (60, clients)).tolist():
            assert spread(counts) == set()
    assert spread([0] * 7 + [18] * 57) == set(), "too few operations to tell"


def used(seconds: float) -> dict[str, int]:
    return {"user_ns": int(seconds * SECOND), "system_ns": 0}


def loaded(sample: Sample, client: float, server: float | None, processes: int | None = 16, **more: Any) -> Sample:
    """The sample with a load generator of so many processes. Clients and server used so many seconds of CPU time in
    one second."""
    load = None if processes is None else "library"
    served = None if server is None else used(server)
    return replace(sample, client=used(client), server=served, load=load, load_processes=processes, **more)


def a_limited_run(clients: int = 16, native: tuple[str, ...] = (), **percents: float) -> Run:
    """A run of two servers and an embedded engine. `percents`: CPU time of a server's clients, in percent of two
    cores; 10 for those that are not named. The server uses little."""
    cells = [a_cell(name, clients=clients) for name in ("redis", "postgresql", "mariadb", "lmdb")]
    rates = {"redis": FAST, "postgresql": SLOW, "mariadb": SLOW, "lmdb": SLOW}
    run = of_rates(
        *((cell, {"read": rates[cell.engine]}) for cell in cells), phases=["read"], host=HOST, native=native
    )

    def load(name: str, sample: Sample) -> Sample:
        if name == "lmdb":
            return replace(sample, client=used(1.9), clients=clients)
        return loaded(sample, percents.get(name, 10) / 50, 0.1, clients=clients)

    return changed(run, load)


def names(run: Run) -> set[str]:
    return {cell.engine for pair in pairs(run) for cell in (pair.engine, pair.baseline)}


def test_clients_over_80_percent_cpu_limit_the_row() -> None:
    run = a_limited_run(redis=81, postgresql=79)
    limits = {row.cell.engine: row.limit for row in summarize(run)}
    assert limits["redis"] is not None and round(limits["redis"].percent) == 81
    assert limits["postgresql"] is limits["mariadb"] is limits["lmdb"] is None
    assert names(run) == {"postgresql", "mariadb", "lmdb"}


@pytest.mark.parametrize(
    ("client", "server", "processes", "limited"),
    [
        (0.9, 0.5, 1, True),
        # One process can use one core, and two processes both.
        (0.9, 0.5, 2, False),
        # No more than the machine has.
        (1.7, 0.1, 16, True),
        # The cores are exhausted: whoever used more was the limit.
        (1.2, 0.7, 16, True),
        (0.7, 1.2, 16, False),
        (1.0, 0.5, 16, False),
        # A server of the user's own, whose CPU time is unknown.
        (0.9, None, 1, True),
        (0.5, None, 1, False),
        # A file of an earlier version.
        (1.9, 0.1, None, False),
    ],
)
def test_limit_follows_cpu_use_of_clients_and_server(
    client: float, server: float | None, processes: int | None, limited: bool
) -> None:
    run = of_rates((a_cell(), {"read": SLOW}), phases=["read"], host=HOST)
    run = changed(run, lambda _, sample: loaded(sample, client, server, processes))
    row = read_row(run)
    assert (row.limit is not None) == limited and row.throughput is not None
    text = " ".join(doubt_text for code in codes(run) & {"client", "cores"} for doubt_text in said(run, code))
    assert ("not compared" in text) == limited


def test_limit_is_decided_by_most_trials() -> None:
    run = of_rates((a_cell(), {"read": SLOW}), phases=["read"], host=HOST)
    for limited in (1, 2):
        clients = dict(zip(SLOW, [0.95] * limited + [0.5] * (3 - limited), strict=True))
        row = read_row(changed(run, lambda _, s, clients=clients: loaded(s, clients[s.items], 0.1, 1)))  # type: ignore[misc]
        assert (row.limit is not None) == (limited == 2)


def test_unknown_cores_or_cpu_time_set_no_limit() -> None:
    run = of_rates((a_cell(), {"read": SLOW}), phases=["read"])
    assert read_row(changed(run, lambda _, s: loaded(s, 1.2, 0.7, 16))).limit is None
    assert read_row(changed(run, lambda _, s: replace(loaded(s, 0, 0.7, 1), client=None))).limit is None


def test_embedded_engine_is_doubted_but_still_compared() -> None:
    run = of_rates((a_cell("lmdb", clients=16), {"read": SLOW}), phases=["read"], host=HOST)
    run = changed(run, lambda _, sample: replace(sample, client=used(2.0), clients=16))
    assert codes(run) == {"cores"} and "16 clients" in said(run, "cores")[1] and read_row(run).limit is None
    few = changed(run, lambda _, sample: replace(sample, clients=2))
    assert codes(few) == set()


@CLAIM
def test_limited_row_is_compared_only_by_resource_use() -> None:
    run = changed(a_limited_run(redis=96), lambda _, s: replace(s, client_peak_bytes=5, server_peak_bytes=7))
    for name in ("throughput", "p50", "p99"):
        assert all("redis" not in [row.cell.engine for row, _ in table.rows] for table in tables(run, metric(name)))
    for name in ("cpu", "memory"):
        (by_need,) = tables(run, metric(name))
        assert "redis" in [row.cell.engine for row, _ in by_need.rows] and not by_need.limited


def test_limited_row_is_last_without_bar_or_rank() -> None:
    (group,) = groups(a_limited_run(redis=96))
    (row,) = (each for each in group.rows if each.name == "redis")
    assert group.rows[-1] is row and row.speed is None and group.best == pytest.approx(1_001)


@CLAIM
def test_limited_answer_names_engines_clients_cpu_and_remedies() -> None:
    run = a_limited_run(redis=96, postgresql=90, native=("read",))
    *ranked, limited = wording.answers(declared(run, alias="get"), {"read": "get"})
    assert "redis" not in " ".join(ranked) and "mariadb" in ranked[0]
    for part in ("redis, postgresql: not compared with 16 clients in get", "90 to 96 %", "--load native"):
        assert part in limited
    assert "fewer clients" in limited and "another machine" in limited and limited.startswith("At tier process")


def test_remedies_that_do_not_apply_are_left_out() -> None:
    (*_, unable) = wording.answers(a_limited_run(redis=96))
    assert "--load native" not in unable and "fewer clients" in unable
    (*_, single) = wording.answers(a_limited_run(redis=96, clients=1))
    assert "1 client " in single and "fewer" not in single
    run = a_limited_run(redis=96, native=("read",))
    cells = tuple(replace(cell, options={"client": "hiredis"}) for cell in run.cells)
    (*_, named) = wording.answers(replace(run, cells=cells))
    assert "--load native" not in named


def test_run_with_only_limited_rows_has_no_winner() -> None:
    run = a_limited_run(redis=96, postgresql=90, mariadb=85)
    only = replace(run, cells=run.cells[:3], attempts=tuple(each for each in run.attempts if each.cell < 3))
    (sentence,) = wording.answers(only)
    assert "redis, postgresql, mariadb: not compared" in sentence and not pairs(only) and not answer.answers(only)


def test_last_unlimited_engine_is_not_called_without_competitor() -> None:
    run = a_limited_run(redis=96, postgresql=90)
    first, _ = wording.answers(
        replace(run, cells=run.cells[:3], attempts=tuple(each for each in run.attempts if each.cell < 3))
    )
    assert "mariadb" in first and "no competitor" not in first and "only" in first


def test_phase_limiting_one_engine_is_set_aside() -> None:
    cells = [a_cell(name, clients=16) for name in ("redis", "mariadb")]
    both: Mapping[str, Mapping[str, list[float]]] = {
        "redis": {"fill": FAST, "read": FAST},
        "mariadb": {"fill": SLOW, "read": SLOW},
    }
    run = of_rates(*((cell, both[cell.engine]) for cell in cells), host=HOST)
    run = changed(run, lambda name, s: loaded(s, 1.9 if (name, s.phase) == ("redis", "read") else 0.2, 0.1))
    (of,) = answer.answers(run)
    assert of.phases == ("fill",) and of.best.engine == "redis" and not of.left_out
    sentence, limited = wording.answers(run)
    assert "Not counted: read" in sentence and "redis: not compared with 16 clients in read" in limited


# -- other comparisons -----------------------------------------------------------------------------------------------


def a_served_run(clients: float, rates: list[float]) -> Run:
    run = of_rates((a_cell("redis", clients=16), {"read": rates}), phases=["read"], host=HOST)
    return changed(run, lambda _, sample: loaded(sample, clients, 0.1))


def test_row_limited_in_either_run_is_not_compared() -> None:
    free, limited = a_served_run(0.2, FAST), a_served_run(1.9, SLOW)
    assert len(compare_runs(free, a_served_run(0.2, SLOW)).changes) == 1
    for one, other in ((free, limited), (limited, free), (limited, limited)):
        result = compare_runs(one, other)
        assert not result.changes and not result.lost and not result.new and len(result.limited) == 1
        assert result.limited[0].limit is not None
    assert len(compare_runs(free, limited, metric("cpu")).changes) == 1


@CLAIM
def test_gate_reports_limited_row_without_judging_it(tmp_path: Path) -> None:
    base = written(a_served_run(0.2, FAST), tmp_path / "base.json")
    after = written(a_served_run(1.9, SLOW), tmp_path / "after.json")
    check = dyno.check(after, base)
    assert len(check) == 0 and not check.lost
    assert any("redis" in line and "not compared" in line and "95 %" in line for line in check.lines)
    (row,) = check.to_dict()["limited"]
    assert (row["engine"], row["phase"]) == ("redis", "read")


def test_limited_row_leaves_a_published_claim_unclear() -> None:
    claim = Claim(
        "redis", "over", ("mariadb",), ("read",), {}, metric="throughput", fact=False, low=1.0, high=math.inf
    )
    finding = Finding((claim,), shows="redis is faster")
    (result,) = findings.check(a_limited_run(redis=96), [finding])
    assert result.kind == findings.UNCLEAR and "load generator" in str(result.checks[0].why)
    assert findings.check(a_limited_run(), [finding])[0].kind == findings.CONFIRMED


def test_site_gives_reason_for_uncompared_row() -> None:
    def why(run: Run) -> str | None:
        collection = data.Collection()
        collection.add(run, data.entry(run, "made"))
        comparison: Any = collection.compare()
        return comparison["rows"][0][0]["why"]

    assert why(a_served_run(0.2, FAST)) is None
    assert "not compared" in str(why(a_served_run(1.9, FAST)))


def test_library_load_despite_native_request_is_doubted() -> None:
    cell = Cell("records", "redis", {"client": "native"}, None, {"clients": 2, "rate": "max"})
    run = of_rates((cell, {"read": SLOW}), phases=["read"], host=HOST)
    assert "library" in codes(changed(run, lambda _, s: loaded(s, 0.2, 0.1, 2)))
    assert "library" not in codes(changed(run, lambda _, s: replace(loaded(s, 0.2, 0.1, 1), load="native")))
