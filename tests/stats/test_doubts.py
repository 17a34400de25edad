"""Guards the doubts about a number: its cause raises each doubt, just above its threshold and not just below. No
other cause raises it, and it is absent where it makes no sense. Unknown facts raise none. Each doubt has a meaning to
print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from madeup import (
    SECOND,
    a_run,
    a_sample,
    an_attempt,
    codes,
    declared,
    read_row,
    recorded,
    repeated,
    said,
    sound,
    worst,
)

from dyno.contracts.decoded_types import Loop
from dyno.contracts.model import Tier
from dyno.results import Attempt, Run
from dyno.stats.doubts import MEANINGS, doubts

MS, MIB = 10**6, 1 << 20
RATE = 1_000
UNKNOWN = dict.fromkeys(("user_ns", "system_ns", "read_bytes"))


def cpu(percent: float, system_percent: float = 0) -> dict[str, int | None]:
    """Resources that a process used in one second."""
    return {"user_ns": int(percent * 10 * MS), "system_ns": int(system_percent * 10 * MS), "read_bytes": 0}


def opened(operations: int = RATE, **changed: Any) -> dict[str, Any]:
    """A sample of one second of an open loop."""
    times = {"response": recorded(1_000_000), "late": recorded(1_000)}
    return {"per_second": operations, **times, **changed}


def strained(**suffered: Any) -> Run:
    """Three trials of one second; the last has these values for the state of the machine."""
    calm = {
        "steal_percent": 0.0,
        "swapped_in_bytes": 0,
        "throttled_ns": 0,
        "memory_stall_ns": 0,
        "elapsed_ns": SECOND,
    }
    trials = [an_attempt(block, a_sample(), strain=calm) for block in range(2)]
    return a_run(*trials, an_attempt(2, a_sample(), strain={**calm, **suffered}))


def two_clients(per_second: int) -> dict[str, Any]:
    """A sample of operations of 2 ms: two clients that are always at work reach 1,000 a second."""
    return {"per_second": per_second, "clients": 2, "histogram": recorded(*[2 * MS] * per_second)}


def committed(p50_ns: int, **changed: Any) -> list[Attempt]:
    return sound(histogram=recorded(p50_ns), settled=True, **changed)


WAKING = {"wakeups": {"cost_ns": 20_000}}


def waited(client: int | None, server: int | None = 0, **changed: Any) -> dict[str, Any]:
    """A sample of 1,000 operations of 1 ms, in which client and server gave up a core this often to wait."""
    used = {**UNKNOWN, "user_ns": 0, "system_ns": 0}
    both = ({**used, "voluntary_switches": count} for count in (client, server))
    return {"per_second": 1_000, **dict(zip(("client", "server"), both, strict=True)), **changed}


EIGHT = {"cpu": {"available_cores": 8, "quota_cores": None}}

HERE = {"python": {"version": "3.12.1"}}


def measured_in(version: str) -> list[Attempt]:
    loop = Loop(name="python", clock="monotonic", python=version, operation_ns=900.0, span_ns=90.0)
    return [replace(attempt, loop=loop) for attempt in sound()]


def natively(run: Run) -> Run:
    """The run of an engine for which native load was requested."""
    return replace(run, cells=tuple(replace(cell, options={"client": "native"}) for cell in run.cells))


# For each doubt, a run that raises only that doubt.


SEARCHED = {"limit": ["p50<1ms"], "phases": ["read"]}


def last_probe(judged: int = 1_000, **maintenance: int | None) -> Run:
    """A search whose last probe held, and saw the engine's occasional work so many times."""
    sample = a_sample(judged=judged, broken={"p50<1ms": 0}, maintenance=maintenance)
    probe = an_attempt(1, sample, stage="last", rate=500.0)
    return a_run(an_attempt(0, a_sample()), probe, plan=SEARCHED)


def idle_machine() -> Run:
    """A null engine's search in which no rate holds."""
    sample = a_sample(judged=1_000, broken={"p50<1ms": 900})
    probes = [an_attempt(at, sample, stage="explore", rate=500.0 / at) for at in range(1, 5)]
    run = a_run(an_attempt(0, a_sample()), *probes, plan=SEARCHED)
    return replace(run, cells=tuple(replace(cell, floor=True) for cell in run.cells))


RAISED: dict[str, Callable[[], Run]] = {
    "few": lambda: a_run(*sound(2), samples=2),
    "tail": lambda: a_run(*sound(histogram=repeated(MS, 166))),
    "wide": lambda: a_run(*(an_attempt(b, a_sample(per_second=rate)) for b, rate in enumerate((500, 1_000, 2_000)))),
    "budget": lambda: a_run(*worst(ended_by="budget")),
    "harness": lambda: a_run(*worst(busy_ns=SECOND // 2)),
    "preempted": lambda: a_run(*worst(wall_ns=SECOND, client={"core_wait_ns": SECOND // 10})),
    "waiting": lambda: declared(a_run(*sound(client={"user_ns": SECOND // 3, "system_ns": 0})), reported=True),
    "short": lambda: a_run(*worst(per_second=9, elapsed_ns=9 * MS, busy_ns=9 * MS)),
    "stall": lambda: a_run(*worst(histogram=recorded(*[MS] * 1_000, 200 * MS))),
    "errors": lambda: a_run(*worst(errors=1, first_error="OSError: busy")),
    "attempts": lambda: a_run(an_attempt(0, outcome="crash"), *sound()),
    "partial": lambda: a_run(*sound(3), samples=5),
    "ram": lambda: a_run(*sound(), host={"filesystem": {"type": "tmpfs", "ram_backed": True}}),
    "flush": lambda: a_run(*committed(10_000), tier=Tier.POWER),
    "lukewarm": lambda: a_run(*worst(temperature="lukewarm")),
    "client": lambda: a_run(*worst(client=cpu(90), server=cpu(0)), host=EIGHT),
    "cores": lambda: a_run(*worst(client=cpu(50), server=cpu(700)), host=EIGHT),
    "overload": lambda: a_run(*worst(**opened(900)), rate=RATE),
    "pauses": lambda: a_run(*sound(**opened(wall_ns=2 * SECOND, due=RATE)), rate=RATE),
    "unpaced": lambda: a_run(*sound(bulk=True), rate=RATE),
    "late": lambda: a_run(*sound(**opened(late=recorded(900_000))), rate=RATE),
    "idle": lambda: a_run(*worst(load="native", load_processes=1, **two_clients(960)), clients=2),
    "unfair": lambda: a_run(*worst(least_served=9, fair_share=100, ended_by="duration"), clients=2),
    "library": lambda: natively(a_run(*sound(load="library", load_processes=1))),
    "wake-ups": lambda: a_run(*worst(**waited(10_000, 10_000)), host=WAKING),
    "server-idle": lambda: a_run(*sound(**waited(1_000, 0))),
    "unsettled": lambda: a_run(*worst(settled=False)),
    "unseen": lambda: last_probe(checkpoint=0),
    "brief": lambda: last_probe(judged=400),
    "machine": idle_machine,
    "interpreter": lambda: a_run(*measured_in("3.10.13"), host=HERE),
    "steal": lambda: strained(steal_percent=50.0),
    "swap": lambda: strained(swapped_in_bytes=10 * MIB),
    "throttled": lambda: strained(throttled_ns=SECOND // 2),
    "memory": lambda: strained(memory_stall_ns=SECOND // 2),
    "unchecked": lambda: answered(answers_unchecked=True),
    "empty": lambda: answered(answers_judged=1_000, answers_empty=51, answers_same=51),
    "same-answer": lambda: answered(answers_judged=1_000, answers_same=501),
    "aborts": lambda: answered(answers_judged=1_000, answers_aborts=1),
    "uneven": lambda: remote(operations=700),
    "network": lambda: remote(round_trip_ns=MS),
    "clock": lambda: remote(skew_ns=SECOND // 50),
}


def remote(**changed: int) -> Run:
    """A run with clients on three machines, of which the first has these figures."""
    usual = {
        "clients": 1,
        "processes": 1,
        "cores": 2,
        "operations": 1_000,
        "elapsed_ns": SECOND,
        "cpu_ns": SECOND // 10,
        "late_p99_ns": None,
        "response_p99_ns": None,
        "round_trip_ns": 20_000,
        "offset_ns": -5 * SECOND,
        "uncertainty_ns": 100_000,
        "skew_ns": 0,
    }
    machines = {"10.0.0.2": {**usual, **changed}, "10.0.0.3": usual, "10.0.0.4": usual}
    return a_run(*sound(machines=machines))


def test_doubts_about_remote_clients_name_their_machine() -> None:
    busy, late = remote(cpu_ns=SECOND), remote(late_p99_ns=MS, response_p99_ns=2 * MS)
    assert said(busy, "client")[0] == "client 10.0.0.2"
    assert said(late, "late")[0] == "late 10.0.0.2"
    assert codes(remote(cpu_ns=SECOND * 79 // 100)) == codes(remote()) == set()


def answered(**facts: Any) -> Any:
    """A run with facts about answers that nobody knows beforehand."""
    return a_run(*worst(facts=facts))


@pytest.mark.claim("Each doubt is raised by its cause, at its threshold")
@pytest.mark.parametrize("code", RAISED)
def test_each_cause_raises_only_its_own_doubt(code: str) -> None:
    assert codes(RAISED[code]()) == {code}


@pytest.mark.claim("Each doubt is raised by its cause, at its threshold")
def test_every_doubt_has_meaning_and_tested_cause() -> None:
    assert RAISED.keys() == MEANINGS.keys()
    assert all(re.match(rf"{code}\b.*: ", meaning) for code, meaning in MEANINGS.items())


@pytest.mark.parametrize("code", RAISED)
def test_doubt_has_a_short_label_and_one_line(code: str) -> None:
    short, text = said(RAISED[code](), code)
    # The name of a machine is longer than a word.
    assert 0 < len(short.replace("10.0.0.2", "")) < 15 and len(short) < len(text)
    assert "\n" not in short + text


def test_sound_open_or_closed_loop_run_has_no_doubts() -> None:
    assert codes(a_run(*sound())) == set()
    assert codes(a_run(*sound(**opened()), rate=RATE)) == set()


@pytest.mark.parametrize("outcome", ["crash", "wrong"])
def test_void_row_has_no_doubts(outcome: str) -> None:
    restless: dict[str, Any] = {"settled": False, "temperature": "lukewarm", "errors": 0}
    restless |= {"client": cpu(99), "server": cpu(0)}
    strain = {"steal_percent": 90.0}
    void = [an_attempt(b, a_sample(void="lost", **restless), strain=strain, outcome=outcome) for b in range(3)]
    assert codes(a_run(*void)) == set()


def test_engine_in_another_python_version_is_doubted() -> None:
    short, text = said(a_run(*measured_in("3.10.13"), host=HERE), "interpreter")
    assert short == "Python 3.10.13" and all(word in text for word in ("python loop", "3.10.13", "3.12.1"))
    assert codes(a_run(*measured_in("3.12.1"), host=HERE)) == set()
    assert codes(a_run(*measured_in("3.10.13"))) == set(), "where nothing tells what is usual"


# -- trials -------------------------------------------------------------------------------------------------------


def test_few_trials_are_a_doubt() -> None:
    assert codes(a_run(*sound(2), samples=2)) == {"few"}
    assert codes(a_run(*sound(1), samples=1)) == {"few"}
    assert codes(a_run(*sound(3), samples=3)) == set()


def test_incomplete_run_is_doubted() -> None:
    assert codes(a_run(*sound(3), samples=5)) == {"partial"}


@pytest.mark.parametrize(("spread", "doubted"), [(0.08, False), (0.11, True)])
def test_wide_interval_is_doubted(spread: float, doubted: bool) -> None:
    # For three trials, Student's t interval reaches 2.48 standard deviations: the spreads give 22 % and 31 %.
    rates = (10_000 * (1 - spread), 10_000, 10_000 * (1 + spread))
    run = a_run(*(an_attempt(block, a_sample(per_second=rate)) for block, rate in enumerate(rates)))
    assert codes(run) == ({"wide"} if doubted else set())


# -- time ---------------------------------------------------------------------------------------------------------


def test_phase_ended_by_budget_is_doubted() -> None:
    run = a_run(*worst(operations=900, ended_by="budget"))
    assert codes(run) == {"budget"}
    assert "in 1 of 3 trials, after 900 operations" in said(run, "budget")[1]


def test_phase_ended_by_checks_is_doubted() -> None:
    run = a_run(*worst(operations=900, ended_by="checks"))
    assert codes(run) == {"budget"}
    assert "checks ended it in 1 of 3 trials" in said(run, "budget")[1]


@pytest.mark.parametrize("ended_by", ["count", "duration"])
def test_phase_ended_as_requested_raises_no_doubt(ended_by: str) -> None:
    assert codes(a_run(*worst(ended_by=ended_by))) == set()


@pytest.mark.parametrize(("busy_percent", "doubted"), [(100, False), (91, False), (89, True), (0, True)])
def test_harness_share_over_a_tenth_is_doubted(busy_percent: int, doubted: bool) -> None:
    run = a_run(*worst(busy_ns=busy_percent * 10 * MS))
    assert codes(run) == ({"harness"} if doubted else set())
    if doubted:
        assert f"up to {100 - busy_percent} %" in said(run, "harness")[1]


def test_unknown_harness_share_raises_no_doubt() -> None:
    assert codes(a_run(*worst(busy_ns=SECOND // 2, clients=2), clients=2)) == set(), "times of several are not apart"
    assert codes(a_run(*worst(**opened(busy_ns=MS)), rate=RATE)) == set(), "an open loop waits for what is due"


def test_floor_is_exempt_from_harness_and_short_doubts() -> None:
    attempts = [an_attempt(block, a_sample(busy_ns=0, elapsed_ns=MS)) for block in range(3)]
    assert codes(a_run(*attempts, floor=True)) == set()
    assert codes(a_run(*attempts)) == {"harness", "short"}


@pytest.mark.parametrize(("elapsed_ns", "doubted"), [(10 * MS, False), (10 * MS - 1, True)])
def test_too_short_trial_is_doubted(elapsed_ns: int, doubted: bool) -> None:
    run = a_run(*worst(per_second=10, elapsed_ns=elapsed_ns, busy_ns=elapsed_ns))
    assert codes(run) == ({"short"} if doubted else set())


# -- an open loop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operations", "doubted"), [(950, False), (949, True)])
def test_rate_under_95_percent_is_doubted(operations: int, doubted: bool) -> None:
    run = a_run(*worst(**opened(operations)), rate=RATE)
    assert codes(run) == ({"overload"} if doubted else set())
    if doubted:
        assert said(run, "overload") == (
            "95 % of rate",
            f"{operations} of 1,000 operations that were due were done, {operations} a second",
        )


def test_failed_operations_do_not_count_towards_the_rate() -> None:
    failing = opened(operations=1_000, items=940, errors=60, first_error="x", due=1_000)
    run = a_run(*worst(**failing), *(an_attempt(b, a_sample(**opened())) for b in range(3, 9)), rate=RATE, samples=9)
    assert codes(run) == {"errors", "overload"}
    assert said(run, "overload")[0] == "94 % of rate"


@pytest.mark.claim("A rate of few operations counts as reached if all that were due were done")
@pytest.mark.parametrize(("done", "due"), [(1, 1), (2, 2), (10, 10), (20, 20), (19, 20)])
def test_low_rate_is_held_despite_late_last_operation(done: int, due: int) -> None:
    """The last operation ends after its time. Divided by the total time, each of these would be below 95 % of the
    rate.
    """
    sample = opened(done, due=due, elapsed_ns=SECOND + SECOND // 5, busy_ns=SECOND)
    assert "overload" not in codes(a_run(*worst(**sample), rate=due))


@pytest.mark.parametrize(("done", "due"), [(0, 1), (1, 2), (8, 10), (18, 20)])
def test_few_missed_operations_break_a_low_rate(done: int, due: int) -> None:
    run = a_run(*worst(**opened(done, due=due)), rate=due)
    assert said(run, "overload")[1].startswith(f"{done} of {due} operations that were due were done")


def test_a_closed_loop_has_no_rate_to_fall_behind() -> None:
    assert codes(a_run(*worst(per_second=900))) == set()
    assert codes(a_run(*worst(per_second=900), rate=RATE)) == set(), "as far as the sample tells"
    assert codes(a_run(*worst(**opened(900)))) == set(), "none was asked for"


@pytest.mark.parametrize(("due", "doubted"), [(900, False), (1_000, True)])
def test_poisson_rate_is_judged_by_operations_due(due: int, doubted: bool) -> None:
    run = a_run(*worst(**opened(900, due=due)), rate=RATE, plan={"arrivals": "poisson"})
    assert codes(run) == ({"overload"} if doubted else set())


def test_trial_without_due_operations_is_not_overloaded() -> None:
    assert "overload" not in codes(a_run(*worst(**opened(0, elapsed_ns=0, busy_ns=0)), rate=RATE))


@pytest.mark.parametrize(
    ("late_ns", "response_ns", "doubted"),
    [
        (49_900, 60_000, False),
        (50_100, 60_000, True),
        (99_000, 1_000_000, False),
        (101_000, 1_000_000, True),
    ],
)
def test_lateness_over_both_thresholds_is_doubted(late_ns: int, response_ns: int, doubted: bool) -> None:
    times = opened(late=recorded(late_ns), response=recorded(response_ns))
    assert codes(a_run(*sound(**times), rate=RATE)) == ({"late"} if doubted else set())


def test_unknown_or_rare_lateness_raises_no_doubt() -> None:
    assert codes(a_run(*sound(**opened(late=None)), rate=RATE)) == set()
    rare = recorded(*[1_000] * 2_000, 900_000)
    assert codes(a_run(*sound(**opened(late=rare)), rate=RATE)) == set(), "the p99.9 is told, not the worst"


def test_lateness_only_in_p999_is_labelled_p999() -> None:
    late, response = recorded(*[1_000] * 1_000, *[900_000] * 9), recorded(*[1_000_000] * 1_009)
    run = a_run(*sound(**opened(late=late, response=response)), rate=RATE)
    assert said(run, "late") == ("late p99.9", "Dyno began 900 µs late (p99.9), in a response time of 1,000 µs")
    run = a_run(*sound(**opened(late=recorded(900_000))), rate=RATE)
    assert said(run, "late") == ("late", "Dyno began 900 µs late (p99), in a response time of 1,000 µs")


@pytest.mark.parametrize("threads", [False, True])
def test_lateness_of_thread_clients_mentions_the_interpreter_lock(threads: bool) -> None:
    run = a_run(*sound(**opened(late=recorded(900_000), clients=4, threads=threads)), rate=RATE, clients=4)
    assert ("wait for the interpreter's lock" in said(run, "late")[1]) is threads


@pytest.mark.parametrize(
    ("rate", "bulk", "doubted"), [(RATE, True, True), (RATE, False, False), ("max", True, False)]
)
def test_bulk_call_at_a_rate_is_unpaced(rate: Any, bulk: bool, doubted: bool) -> None:
    assert codes(a_run(*sound(bulk=bulk), rate=rate)) == ({"unpaced"} if doubted else set())


# -- a stall ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("longest_ms", "typical_ms", "doubted"), [(101, 1, True), (99, 0.5, False), (401, 40, True), (399, 40, False)]
)
def test_operation_far_longer_than_typical_is_a_stall(longest_ms: int, typical_ms: float, doubted: bool) -> None:
    spans = recorded(*[int(typical_ms * MS)] * 1_000, longest_ms * MS)
    assert codes(a_run(*worst(histogram=spans))) == ({"stall"} if doubted else set())


def test_stall_label_has_its_moment_if_known() -> None:
    spans = recorded(*[MS] * 1_000, 4_000 * MS)
    run = a_run(*worst(histogram=spans, slowest_at_ns=1_230 * MS))
    assert said(run, "stall")[0] == "stall 4.0 s at 1.2 s"
    assert said(a_run(*worst(histogram=spans)), "stall")[0] == "stall 4.0 s"


def test_a_slow_kind_of_operation_is_no_stall() -> None:
    mixed = recorded(*[MS] * 1_000, *[150 * MS] * 5)
    kinds = {"get": recorded(MS), "commit": recorded(150 * MS)}
    assert codes(a_run(*worst(histogram=mixed, by_kind=kinds))) == set()


# -- temperature --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "doubted"), [("lukewarm", True), ("cold", False), ("hot", False), ("none", False)]
)
def test_lukewarm_phase_is_doubted(temperature: str, doubted: bool) -> None:
    assert codes(a_run(*sound(temperature=temperature))) == ({"lukewarm"} if doubted else set())


def test_lukewarm_doubt_states_known_residency() -> None:
    residency = {"file_bytes": 1_000, "resident_bytes": 123, "evicted_by": "files"}
    known = a_run(*sound(temperature="lukewarm", residency=residency))
    assert "12.3 % of its files were in the page cache" in said(known, "lukewarm")[1]
    unknown = a_run(*sound(temperature="lukewarm", residency={**residency, "resident_bytes": None}))
    assert "%" not in said(unknown, "lukewarm")[1]


# -- bottlenecks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "clients", "doubted"),
    [(cpu(80), 1, False), (cpu(80.1), 1, True), (cpu(40, 40.1), 1, True), (cpu(160), 2, False), (cpu(161), 2, True)],
)
def test_client_busy_over_80_percent_is_doubted(client: Mapping[str, Any], clients: int, doubted: bool) -> None:
    run = a_run(*worst(client=client, server=cpu(10), clients=clients), clients=clients, host=EIGHT)
    assert codes(run) == ({"client"} if doubted else set())


@pytest.mark.claim("A closed loop whose clients waited for each other says so")
@pytest.mark.parametrize(
    ("changed", "doubted"),
    [
        ({**two_clients(960), "load": "native"}, True),
        ({**two_clients(975), "load": "native"}, False),
        # Half of the operations failed, and took as long as the others.
        ({**two_clients(490), "load": "native", "operations": 980, "errors": 490}, False),
        # The library's clients also waited for their transactions.
        ({**two_clients(500), "load": "library", "busy_ns": 2 * SECOND}, False),
        # The clients of an engine without a server have work of their own between operations.
        ({**two_clients(500), "load": None}, False),
    ],
)
def test_idle_clients_of_a_closed_loop_are_a_doubt(changed: Mapping[str, Any], doubted: bool) -> None:
    run = a_run(*worst(load_processes=1, **changed), clients=2)
    assert ("idle" in codes(run)) == doubted


@pytest.mark.claim("A row whose server did nothing says so")
@pytest.mark.parametrize(
    ("wake_ups", "cpu_ns", "changed", "doubted"),
    [
        (0, 0, {}, True),
        # A server that never wakes up has answered nothing, however short the trial was.
        (0, 0, {"elapsed_ns": 20 * MS, "busy_ns": 20 * MS}, True),
        # Timers of the server wake it up, too.
        (99, 0, {"elapsed_ns": 2 * SECOND, "busy_ns": 2 * SECOND}, True),
        (101, 0, {"elapsed_ns": 2 * SECOND, "busy_ns": 2 * SECOND}, False),
        # In one second, a tick of 10 ms more or less is 1 %.
        (99, 0, {}, False),
        # It computes all the time, and waits for nothing.
        (0, SECOND, {}, False),
        # One call may be one request.
        (1, 0, {"bulk": True, "elapsed_ns": 2 * SECOND, "busy_ns": 2 * SECOND}, False),
        (None, 0, {}, False),
        (0, None, {}, False),
    ],
)
def test_a_server_that_did_nothing_is_a_doubt(
    wake_ups: int | None, cpu_ns: int | None, changed: Mapping[str, Any], doubted: bool
) -> None:
    used = {"user_ns": cpu_ns, "system_ns": 0, "voluntary_switches": wake_ups}
    run = a_run(*sound(server=used, operations=1_000, **changed))
    assert ("server-idle" in codes(run)) == doubted
    unknown = a_run(*sound(2, server=used), an_attempt(2, a_sample(server={**used, "voluntary_switches": None})))
    assert "server-idle" not in codes(unknown), "a trial's use is unknown"


def test_busy_client_of_embedded_engine_raises_no_doubt() -> None:
    assert codes(a_run(*sound(client=cpu(100), server=None), host=EIGHT)) == set()


@pytest.mark.parametrize(
    ("cores", "quota", "server_percent", "doubted"),
    [
        (8, None, 670, False),
        (8, None, 671, True),
        (8, 2, 130, False),
        (8, 2, 131, True),
        (2, 8, 130, False),
        (2, 8, 131, True),
        (None, 2, 131, True),
        (None, None, 10_000, False),
    ],
)
def test_nearly_exhausted_cores_are_doubted(
    cores: int | None, quota: float | None, server_percent: int, doubted: bool
) -> None:
    host = {"cpu": {"available_cores": cores, "quota_cores": quota}}
    run = a_run(*worst(client=cpu(50), server=cpu(server_percent)), host=host)
    assert codes(run) == ({"cores"} if doubted else set())


def test_unknown_cpu_use_or_cores_raise_no_doubt() -> None:
    for client, server in ((None, cpu(0)), (UNKNOWN, UNKNOWN), (UNKNOWN, cpu(10)), (cpu(10), UNKNOWN), ({}, {})):
        assert codes(a_run(*sound(client=client, server=server), host=EIGHT)) == set()
    assert codes(a_run(*sound(client=cpu(10), server=cpu(5_000)))) == set(), "of how many cores?"


# -- wake-ups -----------------------------------------------------------------------------------------------------


@pytest.mark.claim("A row that waking cores could slow by a quarter has a doubt")
@pytest.mark.parametrize(
    ("client", "server", "clients", "doubted"),
    [
        # Each switch costs 20 µs; 12.5 switches per operation are 25 % of its millisecond.
        (6_500, 6_000, 1, False),
        (6_500, 6_001, 1, True),
        (12_501, None, 2, True),
        (12_501, None, 1, False),
    ],
)
def test_wake_ups_over_quarter_of_latency_are_doubted(
    client: int, server: int | None, clients: int, doubted: bool
) -> None:
    sample = waited(client, server, clients=clients)
    if server is None:
        sample["server"] = None
    run = a_run(*worst(**sample), host=WAKING, clients=clients)
    assert codes(run) == ({"wake-ups"} if doubted else set())
    if doubted:
        told = "12.5 wake-ups an operation, of 20.0 µs each here, could be 25 % of its 1,000.0 µs"
        assert said(run, "wake-ups")[1] == told


def test_open_loop_waits_are_no_wake_ups() -> None:
    run = a_run(*sound(**opened(**waited(7_000, 6_500))), rate=RATE, host=WAKING)
    assert codes(run) == set()
    assert codes(a_run(*sound(**waited(7_000, 6_500)), host=WAKING)) == {"wake-ups"}


def test_wake_up_share_is_capped_at_100_percent() -> None:
    assert said(a_run(*worst(**waited(90_000, 90_000)), host=WAKING), "wake-ups")[0] == "wake-ups 100 %"


def test_lateness_of_few_operations_is_judged_by_p95() -> None:
    sample = opened(late=repeated(900_000, 100), response=repeated(MS, 100), histogram=repeated(MS, 100))
    run = a_run(*sound(**sample), rate=RATE)
    assert codes(run) == {"late", "tail"}
    assert "p95" in said(run, "late")[1]


def test_irrelevant_or_unknown_wake_ups_raise_no_doubt() -> None:
    attempts = sound(**waited(20_000, 20_000))
    assert codes(a_run(*attempts, host=WAKING)) == {"wake-ups"}
    assert codes(a_run(*attempts, host=WAKING, plan={"awake": True})) == set()
    assert codes(a_run(*attempts, host=WAKING, floor=True)) == set()
    for host in ({}, {"wakeups": None}, {"wakeups": {"cost_ns": None}}, {"wakeups": {"cost_ns": 0}}):
        assert codes(a_run(*attempts, host=host)) == set()
    assert codes(a_run(*sound(**waited(None, 20_000)), host=WAKING)) == set()
    assert codes(a_run(*sound(**waited(20_000, None)), host=WAKING)) == set()


# -- flushes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p50_ns", "doubted"), [(20_100, False), (19_900, True)])
def test_commit_under_20_us_is_doubted(p50_ns: int, doubted: bool) -> None:
    run = a_run(*committed(p50_ns), tier=Tier.POWER)
    assert codes(run) == ({"flush"} if doubted else set())
    if doubted:
        assert "19.9 µs" in said(run, "flush")[1]


def test_flush_doubt_is_only_for_tier_power_commits() -> None:
    fast = committed(1_000)
    assert codes(a_run(*fast, tier=Tier.PROCESS)) == codes(a_run(*fast, tier=Tier.VOLATILE)) == set()
    assert codes(a_run(*fast, tier=Tier.POWER, floor=True)) == set()
    assert codes(a_run(*sound(histogram=recorded(1_000)), tier=Tier.POWER)) == set(), "a phase that does not write"
    assert codes(a_run(*committed(1_000, bulk=True), tier=Tier.POWER)) == set(), "one call is not one commit"
    assert codes(a_run(*sound(histogram=None, settled=True), tier=Tier.POWER)) == set(), "not known"


def test_fast_commits_on_tmpfs_raise_only_ram_doubt() -> None:
    host = {"filesystem": {"type": "tmpfs", "ram_backed": True}}
    assert codes(a_run(*committed(1_000), tier=Tier.POWER, host=host)) == {"ram"}


KINDS = {"peek": False, "walk": False, "poke": True, "add": True}


@pytest.mark.parametrize(
    ("kinds", "doubted"),
    [
        ({"peek": 1_000, "poke": 900_000}, False),
        ({"walk": 1_000, "add": 900_000}, False),
        ({"peek": 900_000, "poke": 1_000}, True),
        ({"peek": 1_000}, False),
        ({"strange": 1_000}, False),
    ],
    ids=str,
)
def test_flush_doubt_judges_only_writes_of_a_mix(kinds: Mapping[str, int], doubted: bool) -> None:
    by_kind = {kind: recorded(ns) for kind, ns in kinds.items()}
    run = a_run(*committed(1_000, by_kind=by_kind), tier=Tier.POWER)
    assert codes(declared(run, kinds=KINDS)) == ({"flush"} if doubted else set())
    assert codes(run) == set(), "a run file that does not tell its kinds"


# -- pauses -------------------------------------------------------------------------------------------------------


@pytest.mark.claim("Work of an engine while the clock is stopped is reported, and so is a schedule that stood still")
@pytest.mark.parametrize(
    ("changed", "doubted"),
    [
        ({"clients": 2, "client": cpu(100)}, False),
        ({"clients": 2, "client": cpu(98)}, True),
        ({"clients": 1, "client": cpu(98)}, False),
        ({"client": cpu(50), "server": cpu(50)}, False),
        ({"client": cpu(50), "server": cpu(48)}, True),
        ({"clients": 2, "client": cpu(98), "wall_ns": None}, False),
        ({"clients": 2, "client": cpu(98), "pause_cpu_ns": None}, False),
        ({"clients": 2, "client": UNKNOWN}, False),
    ],
    ids=str,
)
def test_engine_work_during_pauses_is_doubted(changed: dict[str, Any], doubted: bool) -> None:
    """50 ms of CPU time in the pauses are 5 % of one second under load."""
    run = a_run(*worst(**{"wall_ns": 2 * SECOND, "pause_cpu_ns": 50 * MS, **changed}), host=EIGHT)
    assert codes(run) - {"client"} == ({"pauses"} if doubted else set())
    if doubted:
        short, text = said(run, "pauses")
        assert short == "pauses 5 %" and "under load was 50 % of the time" in text


@pytest.mark.claim("Work of an engine while the clock is stopped is reported, and so is a schedule that stood still")
@pytest.mark.parametrize(("wall", "doubted"), [(1.0100, False), (1.0110, True), (None, False)])
def test_open_loop_schedule_pause_is_doubted(wall: float | None, doubted: bool) -> None:
    wall_ns = None if wall is None else int(wall * SECOND)
    run = a_run(*sound(**opened(wall_ns=wall_ns, due=RATE)), rate=RATE)
    assert codes(run) == ({"pauses"} if doubted else set())
    if doubted:
        assert said(run, "pauses")[1].endswith("989 operations a second were offered and 989 served")
        row = read_row(run)
        assert row.offered_per_second == row.served_per_second == pytest.approx(RATE / 1.011)


# -- storage of the data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "floor", "doubted"),
    [
        (Tier.POWER, False, True),
        (Tier.PROCESS, False, True),
        (Tier.VOLATILE, False, False),
        (Tier.POWER, True, False),
    ],
)
def test_durable_tier_on_memory_file_system_is_doubted(tier: Tier, floor: bool, doubted: bool) -> None:
    host = {"filesystem": {"type": "tmpfs", "ram_backed": True}}
    run = a_run(*sound(), tier=tier, floor=floor, host=host)
    assert codes(run) == ({"ram"} if doubted else set())


@pytest.mark.parametrize("host", [{}, {"filesystem": None}, {"filesystem": {"type": "xfs", "ram_backed": False}}])
def test_disk_or_unknown_file_system_raises_no_doubt(host: Any) -> None:
    assert codes(a_run(*sound(), tier=Tier.POWER, host=host)) == set()


@pytest.mark.parametrize(("settled", "doubted"), [(False, True), (True, False), (None, False)])
def test_unsettled_engine_is_doubted(settled: bool | None, doubted: bool) -> None:
    run = a_run(*worst(settled=settled))
    assert codes(run) == ({"unsettled"} if doubted else set())
    if doubted:
        assert "in 1 of 3 trials" in said(run, "unsettled")[1]


@pytest.mark.parametrize(("seen", "doubted"), [(0, True), (None, True), (1, False)])
def test_last_probe_without_maintenance_is_doubted(seen: int | None, doubted: bool) -> None:
    run = last_probe(checkpoint=seen)
    assert codes(run) == ({"unseen"} if doubted else set())
    assert not doubted or "checkpoint" in said(run, "unseen")[1]


# -- strain on the machine ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffered", "doubted"),
    [
        ({"steal_percent": 1.0}, None),
        ({"steal_percent": 1.01}, "steal"),
        ({"swapped_in_bytes": MIB}, None),
        ({"swapped_in_bytes": MIB + 4_096}, "swap"),
        ({"swapped_out_bytes": MIB}, None),
        ({"swapped_out_bytes": MIB + 4_096}, "swap"),
        ({"throttled_ns": 10 * MS}, None),
        ({"throttled_ns": 11 * MS}, "throttled"),
        ({"thermal_throttles": 0}, None),
        ({"thermal_throttles": 1}, "throttled"),
        ({"memory_stall_ns": 10 * MS}, None),
        ({"memory_stall_ns": 11 * MS}, "memory"),
        # Other processes' I/O and shared cores are no fault of the machine.
        ({"io_stall_ns": SECOND, "cpu_stall_ns": SECOND}, None),
    ],
    ids=str,
)
def test_machine_strain_in_one_trial_is_doubted(suffered: Mapping[str, Any], doubted: str | None) -> None:
    assert codes(strained(**suffered)) == (set() if doubted is None else {doubted})


def test_unknown_machine_strain_raises_no_doubt() -> None:
    names = ("steal_percent", "swapped_in_bytes", "swapped_out_bytes", "throttled_ns", "thermal_throttles")
    assert codes(strained(**dict.fromkeys((*names, "memory_stall_ns")))) == set()
    assert codes(strained(throttled_ns=SECOND, memory_stall_ns=SECOND, elapsed_ns=None)) == set()
    assert codes(a_run(*sound())) == set()


def test_strain_of_trials_without_used_sample_is_ignored() -> None:
    stolen = {"steal_percent": 90.0}
    retried = an_attempt(0, a_sample(), outcome="crash", strain=stolen)
    again = [an_attempt(0, a_sample(), attempt=1), *sound()[1:]]
    assert codes(a_run(retried, *again)) == {"attempts"}
    elsewhere = an_attempt(2, a_sample("fill"), outcome="crash", strain=stolen)
    assert codes(a_run(*sound(2), elsewhere)) == {"attempts", "few", "partial"}


def test_strain_doubt_shows_the_worst_trial() -> None:
    trials = [an_attempt(b, a_sample(), strain={"steal_percent": p}) for b, p in enumerate((2.0, 31.0, 7.0))]
    assert said(a_run(*trials), "steal")[0] == "steal 31 %"


# -- failures -----------------------------------------------------------------------------------------------------


def test_failed_attempts_doubt_names_first_failure_and_phase() -> None:
    run = a_run(an_attempt(0, outcome="timeout"), *sound())
    assert said(run, "attempts") == (
        "timeout",
        "1 of 4 attempts failed; the first: why it ended by timeout (in read)",
    )


def test_several_doubts_are_raised_together() -> None:
    run = a_run(*worst(settled=False, errors=1, first_error="x", busy_ns=SECOND // 2), samples=4)
    assert [doubt.code for doubt in doubts(read_row(run), run)] == ["partial", "harness", "errors", "unsettled"]
