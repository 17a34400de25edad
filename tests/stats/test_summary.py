"""Guards the summary of a row: one wrong answer voids it, failures are reported and hide nothing, and a fact that is
unknown for one trial is not guessed for all.
"""

from __future__ import annotations

from typing import Any

import pytest
from madeup import PHASES, a_cell, a_run, a_sample, an_attempt, codes, of_cells, read_row, recorded, sound

from dyno.contracts.model import Caveat, UsageError
from dyno.fields import Sample
from dyno.stats.doubts import doubts
from dyno.stats.estimate import estimate
from dyno.stats.summary import absences, summarize

# -- rows -------------------------------------------------------------------------------------------------


def test_rows_cover_cells_and_phases_in_plan_order() -> None:
    run = of_cells(a_cell("sqlite"), a_cell("lmdb"))
    rows = [(row.phase, row.cell.engine, row.valid, row.why) for row in summarize(run)]
    unmeasured = (False, "not measured yet")
    assert rows == [(phase, engine, *unmeasured) for phase in PHASES for engine in ("sqlite", "lmdb")]


def test_sound_row_has_figures_and_no_doubts() -> None:
    run = a_run(*sound())
    row = read_row(run)
    assert (row.valid, row.why, len(row.samples), row.unit) == (True, None, 3, "op")
    assert row.throughput is not None and row.throughput.median == 1_001
    assert row.throughput == estimate([1_000, 1_001, 1_002])
    assert (row.items, row.operations, row.elapsed_ns, row.bytes_on_disk) == (1_001, 3_003, 10**9, 4_096)
    assert row.latency_ns["max"] == pytest.approx(1_000_000, rel=1e-3)
    assert (row.version, row.settings, row.caveats) == ("1.0", {"sync": True}, (Caveat("columns", "has columns"),))
    assert doubts(row, run) == []


def test_unknown_figures_are_none() -> None:
    run = a_run(an_attempt(0, a_sample(histogram=None, bytes_on_disk=None)))
    row = read_row(run)
    assert row.bytes_on_disk is None
    assert set(row.latency_ns.values()) == {None}
    fill = next(row for row in summarize(run) if row.phase == "fill")
    assert (fill.valid, fill.throughput, fill.items, fill.operations, fill.elapsed_ns) == (
        False,
        *[None] * 4,
    )


def test_a_rate_counts_items_and_not_operations() -> None:
    run = a_run(an_attempt(0, a_sample(operations=10, items=300, elapsed_ns=2 * 10**9)))
    row = read_row(run)
    assert row.throughput is not None and row.throughput.median == 150


# -- reasons for a missing number -------------------------------------------------------------------------


@pytest.mark.claim("One wrong answer in one trial voids the row")
@pytest.mark.parametrize("bad", range(3))
def test_one_wrong_answer_in_one_trial_voids_the_row(bad: int) -> None:
    attempts = sound()
    attempts[bad] = an_attempt(bad, a_sample(void="got 1, expected 2"))
    row = read_row(a_run(*attempts))
    assert (row.valid, row.why) == (False, "void: got 1, expected 2")
    assert (row.samples, row.throughput, row.operations) == ((), None, None)
    assert set(row.latency_ns.values()) == {None}


def test_wrong_answer_voids_only_its_phase() -> None:
    attempts = [an_attempt(b, a_sample("fill", void="lost one" if b == 1 else None), a_sample()) for b in range(3)]
    fill, read = summarize(a_run(*attempts))
    assert (fill.why, read.why) == ("void: lost one", None)


def test_wrong_answer_outside_phases_voids_every_phase() -> None:
    run = a_run(*sound(2), an_attempt(2, outcome="wrong", phase="conformance"))
    assert [row.why for row in summarize(run)] == ["void: why it ended by wrong"] * 2


def test_wrong_answer_in_retried_attempt_voids_the_row() -> None:
    crashed = an_attempt(0, a_sample(void="got 1, expected 2"), outcome="crash", phase="scan")
    run = a_run(crashed, an_attempt(0, a_sample(), attempt=1), *sound()[1:])
    assert read_row(run).why == "void: got 1, expected 2"


@pytest.mark.parametrize("outcome", ["crash", "timeout", "out-of-memory", "refused", "error"])
def test_row_without_samples_gives_trial_outcome_as_reason(outcome: str) -> None:
    run = a_run(*(an_attempt(block, outcome=outcome) for block in range(3)))
    row = read_row(run)
    assert (row.valid, row.why) == (False, f"{outcome} in read: why it ended by {outcome}")
    assert row.throughput is None
    assert codes(run) == set()


def test_row_with_failed_trials_is_valid_but_doubted() -> None:
    run = a_run(*sound(2), an_attempt(2, outcome="crash"))
    row = read_row(run)
    assert row.valid and len(row.samples) == 2
    assert codes(run) == {"attempts", "partial", "few"}
    attempts = next(doubt for doubt in doubts(row, run) if doubt.code == "attempts")
    assert attempts.short == "crash"
    assert "1 of 3 attempts failed" in attempts.text and "why it ended by crash (in read)" in attempts.text


def test_samples_before_a_crash_still_count() -> None:
    run = a_run(*sound(2), an_attempt(2, a_sample("fill"), a_sample(), outcome="crash", phase="scan"))
    assert len(read_row(run).samples) == 3
    assert codes(run) == {"attempts"}


def test_last_attempt_of_retried_trial_counts() -> None:
    first = an_attempt(0, a_sample(per_second=1), outcome="crash")
    run = a_run(first, an_attempt(0, a_sample(per_second=1_000), attempt=1), *sound()[1:])
    assert [sample.items for sample in read_row(run).samples] == [1_000, 1_001, 1_002]
    assert codes(run) == {"attempts"}


def failed(**changed: Any) -> Sample:
    return a_sample(items=0, errors=1_000, first_error="OSError: disk full", **changed)


def test_row_with_only_errors_has_no_number() -> None:
    row = read_row(a_run(*(an_attempt(block, failed()) for block in range(3))))
    assert (row.valid, row.why, row.throughput) == (False, "error: OSError: disk full", None)


def test_phase_without_operations_gives_reason() -> None:
    row = read_row(a_run(an_attempt(0, a_sample(items=0, operations=0, elapsed_ns=0, busy_ns=0))))
    assert (row.valid, row.why) == (False, "error: nothing was done")
    row = read_row(a_run(an_attempt(0, a_sample(items=0, operations=0, elapsed_ns=0, busy_ns=0, due=0))))
    assert row.why == "error: no operation was due: measure for longer, by --duration"


def test_errors_raise_a_doubt_with_their_count() -> None:
    errors = a_sample(operations=1_000, items=993, errors=7, first_error="OSError: busy")
    run = a_run(*sound(2), an_attempt(2, errors))
    assert read_row(run).valid
    assert codes(run) == {"errors"}
    text = doubts(read_row(run), run)[0].text
    assert "7 of 3,001 operations failed" in text and "OSError: busy" in text


@pytest.mark.claim("A row with over 1 % of failed operations has no number and is in no verdict")
@pytest.mark.parametrize(("errors", "valid"), [(10, True), (11, False)])
def test_row_with_over_one_percent_errors_is_invalid(errors: int, valid: bool) -> None:
    bad = a_sample(operations=1_000, items=1_000 - errors, errors=errors, first_error="OSError: busy")
    row = read_row(a_run(*(an_attempt(block, bad) for block in range(3))))
    assert row.valid is valid
    if not valid:
        assert row.why is not None and row.why.startswith("error: 1.1 % of the operations failed")
        assert row.why.endswith("OSError: busy")
        assert row.throughput is None and set(row.latency_ns.values()) == {None}


@pytest.mark.parametrize(("operations", "errors"), [(1_000_000, 999_999), (1, 1)])
def test_failure_share_weighs_trials_equally(operations: int, errors: int) -> None:
    bad = a_sample(operations=operations, items=operations - errors, errors=errors, first_error="OSError: busy")
    row = read_row(a_run(*sound(3), an_attempt(3, bad), samples=4))
    assert row.why is not None and row.why.startswith("error: 25.0 % ")


def test_transactions_repeated_by_a_tool_are_only_doubted() -> None:
    aborted = a_sample(operations=1_000, items=900, errors=100, first_error="a deadlock", reported_by="tool 1")
    run = a_run(*(an_attempt(block, aborted) for block in range(3)))
    assert read_row(run).valid and "errors" in codes(run)


# -- an open loop -----------------------------------------------------------------------------------------


def test_response_times_and_lateness_pool_all_trials() -> None:
    spans = (20_000, 40_000, 60_000)
    run = a_run(
        *(an_attempt(b, a_sample(response=recorded(ns), late=recorded(ns // 10))) for b, ns in enumerate(spans))
    )
    row = read_row(run)
    assert row.response_ns["p50"] == pytest.approx(40_000, rel=1e-3)
    assert row.response_ns["max"] == pytest.approx(60_000, rel=1e-3)
    assert row.late_ns["p50"] == pytest.approx(4_000, rel=1e-3)
    assert row.late_ns["max"] == pytest.approx(6_000, rel=1e-3)
    assert row.latency_ns["max"] == pytest.approx(1_000_000, rel=1e-3), "which is service time"


def test_closed_loop_has_no_response_time_or_lateness() -> None:
    row = read_row(a_run(*sound()))
    assert set(row.response_ns) == set(row.late_ns) == set(row.latency_ns)
    assert {*row.response_ns.values(), *row.late_ns.values()} == {None}


def test_void_row_has_no_times_or_resource_use() -> None:
    full: dict[str, Any] = {"response": recorded(1), "late": recorded(1), "temperature": "cold"}
    full |= {"client": USED, "server": USED, "residency": resident(1, 100), "written_bytes": 10, "payload_bytes": 5}
    row = read_row(a_run(*sound(2, **full), an_attempt(2, a_sample(void="lost one", **full))))
    assert {*row.response_ns.values(), *row.late_ns.values()} == {None}
    assert (row.client, row.server, row.resident_percent, row.write_amplification) == (None,) * 4
    assert row.temperature == "none"


# -- temperature ------------------------------------------------------------------------------------------


def resident(resident_bytes: int | None, file_bytes: int) -> dict[str, Any]:
    return {"resident_bytes": resident_bytes, "file_bytes": file_bytes, "evicted_by": "files"}


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        (("hot", "hot", "hot"), "hot"),
        (("cold", "cold", "cold"), "cold"),
        (("none", "none", "none"), "none"),
        (("lukewarm",) * 3, "lukewarm"),
        (("cold", "lukewarm", "cold"), "lukewarm"),
        (("hot", "hot", "lukewarm"), "lukewarm"),
    ],
)
def test_one_lukewarm_trial_makes_the_row_lukewarm(reached: tuple[str, ...], expected: str) -> None:
    run = a_run(*(an_attempt(block, a_sample(temperature=one)) for block, one in enumerate(reached)))
    assert read_row(run).temperature == expected


def test_the_residency_is_that_of_the_worst_trial() -> None:
    found = (resident(1, 1_000), resident(30, 2_000), resident(0, 500))
    run = a_run(*(an_attempt(block, a_sample(residency=one)) for block, one in enumerate(found)))
    assert read_row(run).resident_percent == pytest.approx(1.5)


@pytest.mark.parametrize("unknown", [resident(None, 100), resident(0, 0)], ids=["not told", "no data"])
def test_residency_unknown_in_one_trial_is_unknown(unknown: dict[str, Any]) -> None:
    run = a_run(*sound(2, residency=resident(0, 100)), an_attempt(2, a_sample(residency=unknown)))
    assert read_row(run).resident_percent is None


def test_a_phase_that_is_not_cold_has_no_residency() -> None:
    assert read_row(a_run(*sound())).resident_percent is None


# -- resource usage ---------------------------------------------------------------------------------------

USED: dict[str, Any] = {"user_ns": 10, "system_ns": 20, "read_bytes": 30}


@pytest.mark.parametrize("whose", ["client", "server"])
def test_each_counter_has_its_own_median_over_trials(whose: str) -> None:
    uses = (
        {**USED, "user_ns": 1},
        {**USED, "user_ns": 5, "system_ns": 70},
        {**USED, "user_ns": 9, "system_ns": 60},
    )
    samples: list[dict[str, Any]] = [{whose: used} for used in uses]
    row = read_row(a_run(*(an_attempt(block, a_sample(**sample)) for block, sample in enumerate(samples))))
    assert getattr(row, whose) == {"user_ns": 5, "system_ns": 60, "read_bytes": 30}
    assert (row.server if whose == "client" else row.client) is None


@pytest.mark.parametrize("whose", ["client", "server"])
@pytest.mark.parametrize("unknown", [{**USED, "read_bytes": None}, {"user_ns": 10, "system_ns": 20}], ids=str)
def test_counter_missing_in_one_trial_is_unknown(whose: str, unknown: dict[str, Any]) -> None:
    last: dict[str, Any] = {whose: unknown}
    run = a_run(*sound(2, **{whose: USED}), an_attempt(2, a_sample(**last)))
    assert getattr(read_row(run), whose) == {**USED, "read_bytes": None}


@pytest.mark.parametrize("whose", ["client", "server"])
def test_resource_use_missing_in_one_trial_is_unknown(whose: str) -> None:
    assert getattr(read_row(a_run(*sound(2, **{whose: USED}), an_attempt(2, a_sample()))), whose) is None


# The kernel reports a server's CPU time in ticks; fewer than five ticks count as unknown.
TICK_NS = 10_000_000


def cpu(user_ns: int | None, system_ns: int | None = 0) -> dict[str, int | None]:
    return {**USED, "user_ns": user_ns, "system_ns": system_ns}


@pytest.mark.claim(
    "CPU time per item has user and kernel time, per item of the throughput, as the median over trials"
)
def test_cpu_time_per_item_is_median_over_trials() -> None:
    """CPU time in user mode and in the kernel, divided by the items that the throughput counts, trial by trial."""
    found = ((60, 40, 100), (300, 100, 200), (600, 300, 100))
    samples = [
        a_sample(operations=1, items=items, client=cpu(user * 1_000, system * 1_000), server=cpu(user * TICK_NS))
        for user, system, items in found
    ]
    row = read_row(a_run(*(an_attempt(block, sample) for block, sample in enumerate(samples))))
    assert row.client_cpu_ns == 2_000, "of 1,000, 2,000 and 9,000"
    assert row.server_cpu_ns == 1.5 * TICK_NS, "of 0.6, 1.5 and 6 ticks"


@pytest.mark.claim("A server's CPU time is shown only if the kernel's ticks are fine enough")
@pytest.mark.parametrize(
    ("trial", "known"),
    [
        ({"server": cpu(2 * TICK_NS, 3 * TICK_NS)}, True),
        ({"server": cpu(2 * TICK_NS, 2 * TICK_NS)}, False),
        ({"server": cpu(0)}, False),
        ({"server": cpu(20 * TICK_NS, None)}, False),
        ({"server": None}, False),
        # Without items, that trial has no throughput either.
        ({"server": cpu(0), "items": 0}, True),
    ],
    ids=["five ticks", "four ticks", "none", "half is unknown", "no server", "nothing was done"],
)
def test_server_cpu_time_needs_five_ticks_per_measured_trial(trial: dict[str, Any], known: bool) -> None:
    steady = {"client": cpu(10**6), "server": cpu(5 * TICK_NS)}
    row = read_row(a_run(*sound(2, **steady), an_attempt(2, a_sample(**{**steady, **trial}))))
    assert (row.server_cpu_ns is not None) is known
    assert row.client_cpu_ns is not None


@pytest.mark.parametrize(("used", "known"), [(5_000, True), (4_000, False), (0, False), (None, False)])
def test_client_cpu_time_under_five_microseconds_is_unknown(used: int | None, known: bool) -> None:
    row = read_row(a_run(*sound(3, client=cpu(used))))
    assert (row.client_cpu_ns is not None) is known
    assert row.server_cpu_ns is None


@pytest.mark.claim(
    "CPU time per item has user and kernel time, per item of the throughput, as the median over trials"
)
def test_void_or_unrecorded_cpu_time_is_unknown() -> None:
    void = [an_attempt(b, a_sample(client=cpu(10**6), void="got 1" if b else None)) for b in range(3)]
    for run in (a_run(*void), a_run(*sound())):
        assert (read_row(run).client_cpu_ns, read_row(run).server_cpu_ns) == (None, None)


def test_write_amplification_is_the_median_of_the_trials() -> None:
    # Ratios of bytes written to payload bytes: 2, 3 and 10. The ratio of the sums would be 2.3.
    found = ((2_000, 1_000), (300, 100), (100, 10))
    run = a_run(*(an_attempt(b, a_sample(written_bytes=w, payload_bytes=p)) for b, (w, p) in enumerate(found)))
    assert read_row(run).write_amplification == 3


@pytest.mark.parametrize(
    ("written", "payload"), [(None, 100), (100, None), (None, None), (100, 0), (0, 100), (-4_096, 100)]
)
@pytest.mark.parametrize("where", ["one", "all"])
def test_write_amplification_needs_positive_figures_in_each_trial(
    written: int | None, payload: int | None, where: str
) -> None:
    odd: dict[str, Any] = {"written_bytes": written, "payload_bytes": payload}
    rest = odd if where == "all" else {"written_bytes": 200, "payload_bytes": 100}
    assert read_row(a_run(*sound(2, **rest), an_attempt(2, a_sample(**odd)))).write_amplification is None


# -- absent phases ----------------------------------------------------------------------------------------


def test_absent_phase_has_no_row_and_one_absence() -> None:
    why = "keeps nothing in files"
    gone = [an_attempt(block, a_sample("fill"), absent={"read": why}) for block in range(3)]
    there = [an_attempt(block, a_sample("fill"), a_sample(), cell=1) for block in range(3)]
    run = of_cells(a_cell("memory"), a_cell("lmdb"), attempts=(*gone, *there))
    assert [(row.phase, row.cell.engine) for row in summarize(run)] == [
        ("fill", "memory"),
        ("fill", "lmdb"),
        ("read", "lmdb"),
    ]
    assert [(found.cell.engine, found.phase, found.why) for found in absences(run)] == [("memory", "read", why)]


def test_phase_is_absent_only_for_the_reporting_cell() -> None:
    cells = a_cell("memory", records=1), a_cell("memory", records=2)
    run = of_cells(*cells, attempts=(an_attempt(0, absent={"read": "too few"}),))
    assert [row.cell.params["records"] for row in summarize(run) if row.phase == "read"] == [2]
    assert [found.cell.params["records"] for found in absences(run)] == [1]


def test_run_without_absent_phases_has_no_absences() -> None:
    assert absences(a_run(*sound())) == []


def test_damaged_histogram_error_names_the_file() -> None:
    with pytest.raises(UsageError, match=r"^run\.json is damaged: not a histogram"):
        summarize(a_run(an_attempt(0, a_sample(response=b"no histogram"))))
