"""Where the time of an item goes, and why a row takes longer than another, on made-up runs whose causes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells, recorded

from dyno.contracts.cell import Cell
from dyno.contracts.model import UsageError
from dyno.library.comparing import why
from dyno.library.result import Result
from dyno.report.tables.why import explain as in_words
from dyno.results import Run
from dyno.results.run import URL
from dyno.stats.account import (
    CLIENT_CPU,
    CLIENT_KERNEL,
    CLIENT_USER,
    CORE_WAIT,
    HARNESS,
    OTHER_WAIT,
    SERVER_USER,
    make_account,
)
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.why import Explanation, explain_run, explain_runs

ITEMS = 10_000
BLOCKS = 6
PARTS = {"user_ns": 2_000, "system_ns": 500, "core_wait_ns": 100, "other": 400}
"""Times of an item in ns."""
NOTHING = {
    **dict.fromkeys(("user_ns", "system_ns"), 0),
    **dict.fromkeys(("voluntary_switches", "involuntary_switches", "major_faults", "minor_faults"), 0),
    **dict.fromkeys(("asked_bytes", "read_bytes", "written_bytes", "read_calls", "write_calls"), 0),
    "device_wait_ns": None,
}


def sample_of(parts: Mapping[str, float], **changed: Any) -> Any:
    """A sample whose items take these times of one client."""
    elapsed_ns = round(sum(parts.values()) * ITEMS)
    used = {name: round(ns * ITEMS) for name, ns in parts.items() if name != "other"}
    values: dict[str, Any] = {"elapsed_ns": elapsed_ns, "busy_ns": elapsed_ns, "wall_ns": elapsed_ns}
    return a_sample("read", ITEMS, **{**values, "client": {**NOTHING, **used}, **changed})


def disturbed(parts: Mapping[str, float], random: np.random.Generator, spread: float = 0.01) -> dict[str, float]:
    return {name: ns * float(np.exp(spread * random.standard_normal())) for name, ns in parts.items()}


def run_of(*rows: tuple[Cell, Sequence[Any]]) -> Run:
    """A run of rows with a sample for each block."""
    cells = [cell for cell, _ in rows]
    attempts = tuple(
        replace(an_attempt(block, sample), cell=at)
        for at, (_, of) in enumerate(rows)
        for block, sample in enumerate(of)
    )
    return of_cells(*cells, attempts=attempts, samples=BLOCKS)


def of_parts(seed: int = 0, spread: float = 0.01, counts: Mapping[str, int] = {}, **more: float) -> Run:
    """A run of `lmdb` and of `sqlite`, whose items take more of some parts, and have these counts."""
    random = np.random.default_rng(seed)
    slower = {name: ns + more.get(name, 0) for name, ns in PARTS.items()}
    base = [sample_of(disturbed(PARTS, random, spread)) for _ in range(BLOCKS)]
    others = []
    for _ in range(BLOCKS):
        one = sample_of(disturbed(slower, random, spread))
        client = {**(one.client or {}), **{name: count * ITEMS for name, count in counts.items()}}
        others.append(replace(one, client=client))
    return run_of((a_cell("lmdb"), base), (a_cell("sqlite"), others))


def reason_of(run: Run) -> Explanation:
    (table,) = (each for each in explain_run(run, "lmdb") if each.table.phase == "read")
    (reason,) = table.explanations
    return reason


def read_rows(run: Run) -> dict[str, CellSummary]:
    return {row.cell.asked: row for row in summarize(run) if row.phase == "read"}


# -- accounts -------------------------------------------------------------------------------------------------


@pytest.mark.claim("The parts of an item's time add up to the elapsed time")
def test_parts_of_account_add_up_to_elapsed_time() -> None:
    run = run_of((a_cell(), [sample_of(PARTS)] * BLOCKS))
    account = make_account(run, read_rows(run)["sqlite"])
    assert account is not None
    means = account.mean_parts_ns
    assert means == pytest.approx({CLIENT_USER: 2_000, CLIENT_KERNEL: 500, CORE_WAIT: 100, OTHER_WAIT: 400})
    assert sum(means.values()) == pytest.approx(account.mean_total_ns) == 3_000
    assert not account.core_time


def test_harness_is_time_of_least_null_engine() -> None:
    floors = [
        (a_cell(name, floor=True), [sample_of({"user_ns": ns})]) for name, ns in (("null", 300), ("nullkv", 900))
    ]
    run = run_of((a_cell(), [sample_of(PARTS)] * BLOCKS), *floors)
    account = make_account(run, read_rows(run)["sqlite"])
    assert account is not None
    assert account.mean_parts_ns[HARNESS] == pytest.approx(300)
    assert account.mean_parts_ns[CLIENT_USER] == pytest.approx(1_700)
    assert account.mean_total_ns == pytest.approx(3_000)


def test_server_works_while_client_waits() -> None:
    served = {**NOTHING, "user_ns": 300 * ITEMS, "system_ns": 0, "core_wait_ns": 0}
    run = run_of((a_cell("redis"), [sample_of(PARTS, server=served)] * BLOCKS))
    account = make_account(run, read_rows(run)["redis"])
    assert account is not None
    assert account.mean_parts_ns[SERVER_USER] == pytest.approx(300)
    assert account.mean_parts_ns[OTHER_WAIT] == pytest.approx(100)
    assert account.mean_total_ns == pytest.approx(3_000)


def test_account_of_several_cores_is_of_core_time() -> None:
    served = {**NOTHING, "user_ns": 4_000 * ITEMS, "system_ns": 0, "core_wait_ns": 0}
    run = run_of((a_cell("redis"), [sample_of(PARTS, server=served)] * BLOCKS))
    account = make_account(run, read_rows(run)["redis"])
    assert account is not None
    assert account.core_time
    assert account.mean_total_ns == pytest.approx(6_500)


def test_waits_outside_clock_are_no_part_of_account() -> None:
    """Dyno's pauses end just before the clock starts, and the kernel's counters include what is between."""
    sample = sample_of({"user_ns": 900, "core_wait_ns": 200})
    run = run_of((a_cell(), [replace(sample, elapsed_ns=1_000 * ITEMS)] * BLOCKS))
    account = make_account(run, read_rows(run)["sqlite"])
    assert account is not None
    assert (account.mean_parts_ns[CORE_WAIT], account.mean_total_ns) == pytest.approx((100, 1_000))


def test_cpu_time_at_edges_is_no_second_core() -> None:
    """Dyno takes some CPU time before the first operation and after the last."""
    sample = sample_of({"user_ns": 90, "system_ns": 30})
    run = run_of((a_cell(), [replace(sample, elapsed_ns=60 * ITEMS)] * BLOCKS))
    account = make_account(run, read_rows(run)["sqlite"])
    assert account is not None
    assert not account.core_time
    assert (account.mean_parts_ns[CLIENT_USER], account.mean_parts_ns[CLIENT_KERNEL]) == pytest.approx((45, 15))
    assert account.mean_total_ns == pytest.approx(60)


@pytest.mark.parametrize(("times", "core_time"), [(1.08, False), (1.2, True)])
def test_cpu_time_around_batches_is_no_second_core(times: float, core_time: bool) -> None:
    sample = sample_of({"user_ns": times * 3_000})
    run = run_of((a_cell(), [replace(sample, elapsed_ns=3_000 * ITEMS)] * BLOCKS))
    account = make_account(run, read_rows(run)["sqlite"])
    assert account is not None
    assert account.core_time is core_time
    assert account.mean_total_ns == pytest.approx(3_000 * times if core_time else 3_000)


def test_several_clients_have_account_of_client_time() -> None:
    sample = replace(sample_of(PARTS), clients=4)
    run = run_of((a_cell(), [sample] * BLOCKS))
    account = make_account(run, read_rows(run)["sqlite"])
    assert account is not None
    assert account.mean_total_ns == pytest.approx(12_000)


@pytest.mark.parametrize(
    ("changed", "options", "why_not"),
    [
        ({"client": None}, {}, "unknown"),
        ({"reported_by": "fio 3.33"}, {}, "outside tool"),
        ({"response": recorded(1_000)}, {}, "due"),
        ({}, {URL: "redis://elsewhere"}, "did not start it"),
    ],
)
def test_missing_account_says_why(changed: dict[str, Any], options: dict[str, Any], why_not: str) -> None:
    cells = replace(a_cell("redis"), options=options), a_cell("lmdb")
    run = run_of((cells[0], [sample_of(PARTS, **changed)] * BLOCKS), (cells[1], [sample_of(PARTS)] * BLOCKS))
    without = [why_not in reason for table in explain_run(run) for _, reason in table.without]
    assert without == [True]
    reasons = [reason.missing for table in explain_run(run) for reason in table.explanations]
    assert all(why_not in reason for reason in reasons)


# -- reasons --------------------------------------------------------------------------------------------------

PLANTED = [
    ("user_ns", CLIENT_USER),
    ("system_ns", CLIENT_KERNEL),
    ("core_wait_ns", CORE_WAIT),
    ("other", OTHER_WAIT),
]


@pytest.mark.claim("The first reason for a planted difference is its cause")
@pytest.mark.parametrize("share", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(("part", "named"), PLANTED)
def test_planted_part_is_named_first(part: str, named: str, share: float) -> None:
    reason = reason_of(of_parts(0, 0.005, {}, **{part: share * sum(PARTS.values())}))
    assert reason.named[0] == named
    assert reason.explained
    others = {other for _, other in PLANTED} - {named}
    if share > 0.1:
        assert set(reason.named) == {named}
        assert set(reason.ruled_out) >= others


@pytest.mark.claim("Of 100 comparisons of equal rows, at most one names a reason")
def test_equal_rows_have_no_reason() -> None:
    named = [reason_of(of_parts(seed, spread=0.03)).named for seed in range(100)]
    assert sum(map(bool, named)) <= 3


def test_part_with_uncertain_difference_is_neither_named_nor_ruled_out() -> None:
    def noisy(seed: int) -> Explanation:
        random = np.random.default_rng(seed)

        def sample(user_ns: float) -> Any:
            return sample_of(disturbed({**PARTS, "user_ns": user_ns, "other": 400 * random.exponential()}, random))

        rows = ([sample(user_ns) for _ in range(BLOCKS)] for user_ns in (2_000, 4_000))
        return reason_of(run_of(*zip((a_cell("lmdb"), a_cell("sqlite")), rows, strict=True)))

    reasons = [noisy(seed) for seed in range(30)]
    assert {reason.named for reason in reasons} == {(CLIENT_USER,)}
    assert not any(OTHER_WAIT in reason.ruled_out for reason in reasons)


def test_cpu_time_is_named_whole_if_its_split_is_uncertain() -> None:
    """The kernel splits CPU time between user and kernel by samples."""
    random = np.random.default_rng(5)

    def sample(cpu_ns: float) -> Any:
        share = random.uniform(0.2, 0.8)
        return sample_of(
            disturbed({**PARTS, "user_ns": share * cpu_ns, "system_ns": (1 - share) * cpu_ns}, random, 0)
        )

    base, slower = ([sample(cpu_ns) for _ in range(BLOCKS)] for cpu_ns in (2_500, 3_000))
    reason = reason_of(run_of((a_cell("lmdb"), base), (a_cell("sqlite"), slower)))
    assert reason.named == (CLIENT_CPU,)
    assert "more CPU time, of its own or in system calls" in in_words(reason)[0]


def test_reason_is_found_on_noisy_machine_without_core_waits() -> None:
    random = np.random.default_rng(1)

    def sample(user_ns: float) -> Any:
        waits = float(random.exponential(8_000))
        return sample_of(disturbed({**PARTS, "user_ns": user_ns, "core_wait_ns": waits}, random))

    base, slower = ([sample(user_ns) for _ in range(BLOCKS)] for user_ns in (2_000, 3_000))
    reason = reason_of(run_of((a_cell("lmdb"), base), (a_cell("sqlite"), slower)))
    assert reason.undisturbed
    assert reason.named == (CLIENT_USER,)
    assert "without waiting for a core" in in_words(reason)[0]


def test_sentence_names_parts_counts_and_what_is_ruled_out() -> None:
    reason = reason_of(of_parts(system_ns=1_500, counts={"read_calls": 2}))
    first, counts = in_words(reason)
    assert first.startswith("sqlite takes 1.5")
    assert "longer than lmdb" in first
    assert "more in system calls." in first
    assert "Ruled out: CPU time of its own; waiting for a core; waiting for something else." in first
    assert "2 and 0 read calls" in counts


def test_own_counters_of_one_engine_are_shown_where_they_differ() -> None:
    def rows(engine: str, label: str, misses: int) -> tuple[Cell, list[Any]]:
        cell = replace(a_cell(engine), name=label, options={"cache": label})
        counters = {"hits": 5 * ITEMS, "misses": misses * ITEMS}
        return cell, [sample_of({**PARTS, "other": 400 + 1_000 * misses}, counters=counters)] * BLOCKS

    (table,) = explain_run(run_of(rows("redis", "large", 0), rows("redis", "small", 2)))
    (reason,) = table.explanations
    assert reason.differing_counters() == {"misses": (2, 0)}
    assert "2 and 0 misses" in in_words(reason)[-1]
    (table,) = explain_run(run_of(rows("redis", "large", 0), rows("valkey", "small", 2)))
    assert not table.explanations[0].differing_counters()


def test_counts_that_are_rare_are_not_shown() -> None:
    run = of_parts(system_ns=1_500, counts={"read_calls": 2})
    reason = reason_of(run)
    assert reason.accounts is not None
    row, base = reason.accounts
    few = {"asked_bytes": dict.fromkeys(row.total, 0.4), "read_calls": dict.fromkeys(row.total, 0.4)}
    shown = replace(reason, accounts=(replace(row, counts=few), base)).differing_counts()
    assert list(shown) == ["read_calls"]


def test_faster_row_takes_less() -> None:
    run = of_parts(user_ns=1_500)
    (table,) = explain_run(run, "sqlite")
    (reason,) = table.explanations
    assert in_words(reason)[0].startswith("lmdb takes 1.5")
    assert "less than sqlite" in in_words(reason)[0]
    assert "less CPU time of its own" in in_words(reason)[0]


def test_two_runs_are_explained_as_a_whole() -> None:
    before, after = of_parts(), of_parts(1, user_ns=1_500)
    reasons = {reason.row.cell.asked: reason for reason in explain_runs(before, after)}
    assert reasons["lmdb"].named == ()
    assert reasons["sqlite"].named == (CLIENT_USER,)
    assert "longer than before" in in_words(reasons["sqlite"])[0]


def test_older_run_without_core_waits_is_explained() -> None:
    def aged(run: Run) -> Run:
        attempts = []
        for attempt in run.attempts:
            (sample,) = attempt.samples
            client = {name: value for name, value in (sample.client or {}).items() if name != "core_wait_ns"}
            attempts.append(replace(attempt, samples=(replace(sample, client=client),)))
        return replace(run, attempts=tuple(attempts))

    before, after = aged(of_parts()), of_parts(1, user_ns=1_500)
    reasons = {reason.row.cell.asked: reason for reason in explain_runs(before, after)}
    assert reasons["sqlite"].named == (CLIENT_USER,)
    assert CORE_WAIT not in reasons["sqlite"].parts


# -- the library ----------------------------------------------------------------------------------------------


def test_library_explains_a_run_and_two() -> None:
    one, other = (Result(run) for run in (of_parts(), of_parts(1, user_ns=1_500)))
    found = why(other, baseline="lmdb")
    assert "CPU time of its own" in repr(found)
    data = found.to_dict()
    (reason,) = data["reasons"]
    assert (reason["named"], reason["baseline"], reason["explained"]) == ([CLIENT_USER], "lmdb", True)
    assert [account["engine"] for account in data["tables"][0]["accounts"]] == ["lmdb", "sqlite"]
    assert "read: sqlite takes" in why(one, other).to_markdown()
    with pytest.raises(UsageError, match="baseline is for engines within a run"):
        why(one, other, baseline="lmdb")
