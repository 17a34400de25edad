"""Tests how a client's slices become a tally: counts of operations, items, errors and checks; the end by budget or
duration; the unrecorded warm-up; the clocks of an open loop. One wrong answer voids the phase, and garbage collection
is off during it and on afterwards.
"""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from clockwork import Clock, both_loops, install, the_loop

from dyno.contracts.histogram import Recorder, percentiles
from dyno.contracts.model import Wrong
from dyno.contracts.pace import FLOOR_PATIENCE, PATIENCE, POISSON, Pace
from dyno.contracts.suite import Bulk, Failure, Operations
from dyno.host.usage import Usage
from dyno.measure import pauses
from dyno.measure.arrivals import Arrivals
from dyno.measure.batches import BatchRules
from dyno.measure.driver import measure
from dyno.measure.position import ONE, ClientPosition
from dyno.measure.schedule import SingleClient
from dyno.measure.tally import Tally

FOREVER = 10**15
MS, SECOND = 1_000_000, 10**9
WARM = 1_000_000
"""Rounds with this number or a higher one are warm-up rounds, which are not measured."""

Slices = Iterable[Operations | Bulk]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install(monkeypatch)


def nothing() -> None:
    pass


def once(
    slices: Slices, budget: int = FOREVER, ready: Callable[[], object] = nothing, loop: str = "python", **pace: Any
) -> Tally:
    """Measures the slices of a single round. The Python loop, whose clock tests can move, is the default."""
    the_loop(loop)

    def rounds(number: int) -> Iterator[Operations | Bulk]:
        return iter(slices if number == 0 else ())

    return measure(rounds, Pace(budget_ns=budget, loop=loop, **pace), ready)


def operations(
    call: Callable[[Any], Any],
    arguments: Sequence[Any],
    check: Callable[[Sequence[Any]], int] = len,
    weights: Sequence[int] | None = None,
) -> Operations:
    return Operations(lambda _: [call], arguments, check, weights)


def failing_at(*bad: Any) -> Callable[[Any], Any]:
    def call(argument: Any) -> Any:
        if argument in bad:
            raise OSError(f"no {argument}")
        return argument

    return call


def holds(recorder: Recorder | None, latencies: Sequence[int]) -> bool:
    """Returns whether exactly these values were recorded, at the recorder's precision."""
    expected = Recorder()
    expected.add(latencies)
    return recorder is not None and recorder.counts.tolist() == expected.counts.tolist()


def burn(ms: int) -> None:
    """Uses `ms` milliseconds of this thread's CPU time."""
    begin = time.thread_time_ns()
    while time.thread_time_ns() - begin < ms * MS:
        pass


# -- inputs that are built ahead --------------------------------------------------------------------------


class Large:
    """An input of 32 MiB. The class counts its living instances."""

    alive = most = 0

    def __init__(self) -> None:
        self.held = np.ones(4 << 20)
        Large.alive += 1
        Large.most = max(Large.most, Large.alive)

    def __del__(self) -> None:
        Large.alive -= 1


def test_batch_of_large_inputs_is_bounded_by_memory() -> None:
    the_loop("python")
    slices = (operations(lambda _: None, [Large()]) for _ in range(60))

    def rounds(number: int) -> Iterator[Operations]:
        return slices if number == 0 else iter(())

    # With a server, a batch lasts as long as many operations.
    tally = measure(
        rounds, Pace(budget_ns=FOREVER, loop="python"), nothing, scheduler=SingleClient(BatchRules(served=True))
    )
    assert (tally.operations, tally.ended_by) == (60, "count")
    # Memory is limited to 128 MiB, plus the inputs that are built between two checks of the limit.
    assert Large.most <= 20


# -- counts -----------------------------------------------------------------------------------------------


def test_operations_of_all_slices_are_counted_and_checked(clock: Clock) -> None:
    tally = once([operations(clock.taking(10), range(3)), operations(clock.taking(5), range(2))], 100)
    assert (tally.operations, tally.items, tally.checked, tally.errors) == (5, 5, 5, 0)
    assert tally.elapsed_ns == tally.busy_ns == 40
    assert (tally.ended_by, tally.void, tally.first_error, tally.bulk) == ("count", None, None, False)
    assert percentiles([tally.latency.encode()])["max"] == 10


def test_phase_ends_when_checks_take_too_long(clock: Clock) -> None:
    slices = [operations(clock.taking(10), range(3)) for _ in range(4)]
    tally = measure(lambda number: iter(slices if number == 0 else ()), python(check_ns=0), nothing)
    assert (tally.operations, tally.checked, tally.ended_by, tally.void) == (3, 3, "checks", None)
    assert tally.check_ns > 0


def test_items_are_the_sum_of_weights(clock: Clock) -> None:
    tally = once([operations(clock.taking(1), range(3), weights=[3, 30, 300])])
    assert (tally.operations, tally.items) == (3, 333)


def test_weights_of_undone_operations_are_not_counted(clock: Clock) -> None:
    tally = once([operations(clock.taking(10), range(3), weights=[3, 30, 300])], 15)
    assert (tally.operations, tally.items, tally.ended_by) == (2, 33, "budget")


@pytest.mark.claim("Operations that raise are counted, but not as work")
@both_loops
def test_errors_count_as_operations_without_items_or_latencies(loop: str) -> None:
    tally = once([operations(failing_at(1, 3), range(5))], loop=loop)
    assert (tally.operations, tally.items, tally.errors) == (5, 3, 2)
    assert tally.first_error == "OSError: no 1"
    assert int(tally.latency.counts.sum()) == 3


@pytest.mark.claim("Operations that raise are counted, but not as work")
def test_times_exclude_failed_operations(clock: Clock) -> None:
    """Two of seven operations fail, one at once and one slowly: neither is in a latency, a response time or the
    series."""

    def call(taking_ns: int) -> None:
        clock.let_pass(abs(taking_ns))
        if taking_ns <= 0:
            raise OSError("refused")

    def slices() -> Slices:
        work = operations(call, [10, 0, 20, -MS // 2, 30, SECOND])
        work.kinds = ["get", "put", "put", "get", "get", "get"]
        yield work
        yield operations(call, [40])

    for rate in (RATE, None):
        tally = once(slices(), rate=rate)
        assert (tally.operations, tally.errors) == (7, 2)
        assert holds(tally.latency, [10, 20, 30, 40, SECOND])
        assert holds(tally.by_kind["get"], [10, 30, SECOND]) and holds(tally.by_kind["put"], [20])
        assert sum(point["operations"] for point in tally.series.points()) in (0, 5)
    tally = once(slices(), rate=RATE)
    # The last operation is due at 7 ms, but the one before it lasts a second from 6 ms on.
    assert holds(tally.response, [10, 20, 30, SECOND, SECOND - MS + 40])


@both_loops
def test_items_exclude_weights_of_failed_operations(loop: str) -> None:
    tally = once([operations(failing_at(1), range(3), weights=[3, 30, 300])], loop=loop)
    assert (tally.operations, tally.items, tally.errors) == (3, 303, 1)


@both_loops
def test_first_error_is_from_earliest_failing_slice(loop: str) -> None:
    slices = [operations(failing_at(), [1]), operations(failing_at(2), [2]), operations(failing_at(3), [3])]
    tally = once(slices, loop=loop)
    assert (tally.errors, tally.first_error) == (2, "OSError: no 2")


@both_loops
def test_check_receives_one_answer_per_operation(loop: str) -> None:
    seen: list[Any] = []

    def check(answers: Sequence[Any]) -> int:
        seen.extend(answers)
        return 40

    tally = once([operations(failing_at(1), range(3), check)], loop=loop)
    assert seen == [0, Failure("OSError: no 1"), 2]
    assert tally.checked == 40


@pytest.mark.claim("The loop's own time is in no latency")
def test_busy_time_excludes_the_time_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, reading=7)
    tally = once([operations(clock.taking(100), range(3))] * 2)
    # Busy time includes a clock reading for entering a transaction and one for leaving it, although there is none.
    assert tally.busy_ns == 2 * (3 * 107 + 2 * 7)
    # Elapsed time includes two readings for each operation and four around each slice.
    assert tally.elapsed_ns == 2 * (3 * 114 + 4 * 7)


def test_latencies_are_recorded_by_kind_and_overall(clock: Clock) -> None:
    slices = (
        Operations(lambda _: [clock.let_pass], times, len, kinds=kinds)
        for times, kinds in (([100, 7, 100, 8], ["get", "put", "get", "put"]), ([9], ["put"]))
    )
    tally = once(slices)
    kinds = {kind: percentiles([recorder.encode()]) for kind, recorder in tally.by_kind.items()}
    assert {kind: (found["p50"], found["max"]) for kind, found in kinds.items()} == {"get": (100, 100), "put": (8, 9)}
    assert [int(tally.by_kind[kind].counts.sum()) for kind in ("get", "put")] == [2, 3]
    assert int(tally.latency.counts.sum()) == 5


def test_without_kinds_there_are_no_latencies_by_kind(clock: Clock) -> None:
    assert once([operations(clock.taking(1), range(3))]).by_kind == {}


# -- bulk -------------------------------------------------------------------------------------------------


def bulk(call: Callable[[Any], Any], slices: list[list[int]], check: Any = lambda answer, taken: taken) -> Bulk:
    return Bulk(call, iter(slices), 3, check)


def test_bulk_phase_is_one_operation_without_latency(clock: Clock) -> None:
    def call(items: Any) -> int:
        clock.let_pass(1_000)
        return sum(items)

    answers: list[tuple[Any, int]] = []

    def check(answer: Any, taken: int) -> int:
        answers.append((answer, taken))
        return 17

    tally = once([bulk(call, [[1, 2], [3]], check)])
    assert (tally.operations, tally.items, tally.checked, tally.bulk) == (1, 9, 17, True)
    assert tally.elapsed_ns == tally.busy_ns == 1_000
    assert tally.latency.encode() is None
    assert answers == [(6, 3)]


def test_raising_bulk_phase_counts_no_items_or_checks() -> None:
    def call(items: Any) -> int:
        raise OSError("disk full")

    def check(answer: Any, taken: int) -> int:
        raise AssertionError("there is no answer to check")

    tally = once([bulk(call, [[1, 2]], check)])
    assert (tally.operations, tally.items, tally.errors, tally.checked) == (1, 0, 1, 0)
    assert tally.first_error == "OSError: disk full"


def test_bulk_phase_out_of_time_counts_consumed_items(clock: Clock) -> None:
    def call(items: Any) -> None:
        for _ in items:
            clock.let_pass(1)

    tally = once([bulk(call, [list(range(1_000))])], 300)
    assert (tally.items, tally.checked, tally.ended_by) == (3 * 512, 512, "budget")


# -- wrong answers ----------------------------------------------------------------------------------------


def wrong(answers: Sequence[Any]) -> int:
    raise Wrong("got 1, expected 2")


@pytest.mark.claim("One wrong answer voids the phase")
@both_loops
def test_wrong_answer_voids_the_phase_and_ends_it(loop: str) -> None:
    called: list[int] = []
    slices = iter(
        [operations(called.append, [1]), operations(called.append, [2], wrong), operations(called.append, [3])]
    )
    tally = once(slices, loop=loop)
    assert tally.void == "got 1, expected 2"
    assert called == [1, 2]


def test_wrong_answer_of_a_bulk_phase_voids_it() -> None:
    tally = once([bulk(sum, [[1]], lambda answer, taken: wrong([answer]))])
    assert tally.void == "got 1, expected 2"


# -- budget -----------------------------------------------------------------------------------------------


def test_budget_covers_all_slices_together(clock: Clock) -> None:
    slices = iter([operations(clock.taking(10), range(3)) for _ in range(3)])
    tally = once(slices, 45)
    assert (tally.operations, tally.elapsed_ns, tally.ended_by) == (5, 50, "budget")
    assert len(list(slices)) == 1, "a slice was built for nothing"


@pytest.mark.claim("Inputs are built while the clock stands still")
def test_building_and_checking_slices_cost_no_budget(clock: Clock) -> None:
    def check(answers: Sequence[Any]) -> int:
        clock.let_pass(10**9)
        return len(answers)

    def slices() -> Iterator[Operations | Bulk]:
        for _ in range(3):
            clock.let_pass(10**9)
            yield operations(clock.taking(10), range(3), check)

    tally = once(slices(), 90)
    assert (tally.operations, tally.elapsed_ns) == (9, 90)


def test_answers_before_budget_end_are_checked(clock: Clock) -> None:
    assert once([operations(clock.taking(10), range(9), wrong)], 25).void is not None


def test_phase_with_all_operations_done_ends_by_count(clock: Clock) -> None:
    tally = once([operations(clock.taking(10), range(2))], 15)
    assert tally.operations == 2
    assert tally.ended_by == "count"


# -- before and after the measuring -----------------------------------------------------------------------


@both_loops
def test_ready_is_called_once_after_building_first_slice(loop: str) -> None:
    events: list[str] = []

    def slices() -> Iterator[Operations | Bulk]:
        for number in range(2):
            events.append(f"built {number}")
            yield operations(lambda _: events.append("done"), [0])

    once(slices(), ready=lambda: events.append("ready"), loop=loop)
    assert events == ["built 0", "ready", "done", "built 1", "done"]


@both_loops
def test_client_without_operations_still_signals_ready(loop: str) -> None:
    events: list[str] = []
    tally = once((), ready=lambda: events.append("ready"), loop=loop)
    assert events == ["ready"]
    assert (tally.operations, tally.elapsed_ns, tally.ended_by) == (0, 0, "count")


@pytest.mark.claim("Garbage collection is off while the clock runs")
@both_loops
def test_garbage_collection_is_off_while_it_measures(loop: str) -> None:
    on: list[bool] = []
    assert gc.isenabled()
    once([operations(lambda _: on.append(gc.isenabled()), [0])], loop=loop)
    assert on == [False]
    assert gc.isenabled()


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


@both_loops
@pytest.mark.parametrize("where", ["check", "operation", "ready", "building"])
def test_garbage_collection_is_on_again_after_an_exception(where: str, loop: str) -> None:
    error = MemoryError()

    def slices() -> Iterator[Operations | Bulk]:
        yield operations(
            raising(error) if where == "operation" else str, [0], raising(error) if where == "check" else len
        )
        if where == "building":
            raise error

    with pytest.raises(MemoryError):
        once(slices(), ready=raising(error) if where == "ready" else nothing, loop=loop)
    assert gc.isenabled()


# -- duration ---------------------------------------------------------------------------------------------


class Rounds:
    """Rounds of operations that last `ns` each and have their round's number as argument. Records the requested
    rounds.

    Rounds after `last` are empty, but warm-up rounds never are.
    """

    def __init__(self, clock: Clock, ns: int, slices: Sequence[int] = (2,), last: int = WARM) -> None:
        self.clock, self.ns, self.slices, self.last = clock, ns, slices, last
        self.asked: list[int] = []
        self.done: list[int] = []
        self.checked: list[int] = []

    def __call__(self, number: int) -> Iterator[Operations | Bulk]:
        self.asked.append(number)
        for count in self.slices if number >= WARM or number <= self.last else ():
            yield operations(self.call, [number] * count, self.check)

    def call(self, number: int) -> int:
        self.clock.let_pass(self.ns)
        self.done.append(number)
        return number

    def check(self, answers: Sequence[int]) -> int:
        self.checked += answers
        return len(answers)


def python(**pace: Any) -> Pace:
    return Pace(loop="python", **pace)


def test_without_a_duration_there_is_one_round(clock: Clock) -> None:
    rounds = Rounds(clock, 10)
    assert measure(rounds, python(), nothing).ended_by == "count"
    assert (rounds.asked, rounds.done) == ([0], [0, 0])


@pytest.mark.claim("A duration is filled with rounds and replaces the budget")
def test_duration_is_filled_with_rounds(clock: Clock) -> None:
    rounds = Rounds(clock, 10, [2, 1])
    tally = measure(rounds, python(duration_ns=75), nothing)
    assert rounds.asked == [0, 1, 2]
    assert rounds.done == rounds.checked == [0, 0, 0, 1, 1, 1, 2, 2]
    assert (tally.operations, tally.items, tally.checked, tally.elapsed_ns) == (8, 8, 8, 80)
    assert tally.ended_by == "duration"


def test_duration_ending_with_a_round_starts_no_other(clock: Clock) -> None:
    rounds = Rounds(clock, 10)
    tally = measure(rounds, python(duration_ns=40), nothing)
    assert (rounds.done, tally.ended_by) == ([0, 0, 1, 1], "duration")


@pytest.mark.claim("A duration is filled with rounds and replaces the budget")
def test_unrepeatable_phase_ends_duration_by_count(clock: Clock) -> None:
    rounds = Rounds(clock, 10, last=1)
    tally = measure(rounds, python(duration_ns=1_000), nothing)
    assert (rounds.asked, rounds.done) == ([0, 1, 2], [0, 0, 1, 1])
    assert (tally.operations, tally.ended_by) == (4, "count")


@pytest.mark.claim("A duration is filled with rounds and replaces the budget")
def test_duration_replaces_the_budget(clock: Clock) -> None:
    tally = measure(Rounds(clock, 10), python(budget_ns=15, duration_ns=55), nothing)
    assert (tally.operations, tally.ended_by) == (6, "duration")


def test_wrong_answer_in_later_round_voids_phase(clock: Clock) -> None:
    def check(answers: Sequence[int]) -> int:
        return wrong(answers) if 1 in answers else len(answers)

    rounds = Rounds(clock, 10)
    rounds.check = check  # type: ignore[method-assign]
    tally = measure(rounds, python(duration_ns=1_000), nothing)
    assert tally.void == "got 1, expected 2"
    assert rounds.done == [0, 0, 1, 1]


@pytest.mark.claim("A duration ends where its pauses take ten times as long")
@pytest.mark.parametrize("patience", [PATIENCE, FLOOR_PATIENCE])
def test_duration_ends_when_pauses_exceed_patience(
    patience: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Building and checking a round take a second, but its operations are too short to ever fill the duration."""
    seconds = iter(range(1_000))
    monkeypatch.setattr("dyno.measure.phase_limits.monotonic_ns", lambda: next(seconds) * SECOND)
    rounds = Rounds(clock, 1)
    tally = measure(rounds, python(duration_ns=SECOND, patience=patience), nothing)
    assert patience / 2 <= tally.operations <= 3 * patience
    assert tally.elapsed_ns < SECOND and tally.ended_by == "duration"


def test_warm_up_ends_when_pauses_exceed_patience(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1_000))
    monkeypatch.setattr("dyno.measure.warm_up.monotonic_ns", lambda: next(seconds) * SECOND)
    rounds = Rounds(clock, 1)
    measure(rounds, python(warmup_ns=SECOND), nothing)
    assert 5 <= len([number for number in rounds.asked if number >= WARM]) <= 12


def test_bulk_calls_fill_a_duration_too(clock: Clock) -> None:
    def call(items: Iterable[int]) -> None:
        for _ in items:
            clock.let_pass(10)

    tally = measure(lambda number: iter([bulk(call, [[1, 2]])]), python(duration_ns=50), nothing)
    assert (tally.operations, tally.items, tally.elapsed_ns, tally.ended_by) == (3, 3 * 6, 60, "duration")


# -- warming up -------------------------------------------------------------------------------------------


@pytest.mark.claim("A warm-up is not recorded, and takes none of the measured time")
def test_warm_up_runs_own_rounds_without_recording(clock: Clock) -> None:
    rounds = Rounds(clock, 10)
    tally = measure(rounds, python(warmup_ns=55), nothing)
    # The sixth operation is the first one that ends after the warm-up time of 55 ns.
    assert rounds.asked == [WARM + 1, WARM + 2, WARM + 3, 0]
    assert rounds.done == [WARM + 1] * 2 + [WARM + 2] * 2 + [WARM + 3] * 2 + [0] * 2
    assert (tally.operations, tally.items, tally.elapsed_ns, tally.busy_ns) == (2, 2, 20, 20)
    assert holds(tally.latency, [10, 10])
    assert (tally.ended_by, tally.warm) == ("count", True)


@pytest.mark.claim("A warm-up is not recorded, and takes none of the measured time")
def test_warm_up_uses_none_of_the_budget(clock: Clock) -> None:
    rounds = Rounds(clock, 10, [20])
    tally = measure(rounds, python(warmup_ns=34, budget_ns=64), nothing)
    assert rounds.done == [WARM + 1] * 4 + [0] * 7
    assert tally.ended_by == "budget"


def test_phase_without_warm_up_rounds_is_not_warmed(clock: Clock) -> None:
    rounds = Rounds(clock, 10)

    def none_beforehand(number: int) -> Iterator[Operations | Bulk]:
        return iter(()) if number >= WARM else rounds(number)

    assert measure(none_beforehand, python(warmup_ns=55), nothing).operations == 2
    assert rounds.done == [0, 0]


def test_warm_up_answers_are_checked_but_not_counted(clock: Clock) -> None:
    rounds = Rounds(clock, 10, [3])
    tally = measure(rounds, python(warmup_ns=45), nothing)
    # Answers of the slice that was cut short are checked too.
    assert rounds.checked == rounds.done == [WARM + 1] * 3 + [WARM + 2] * 2 + [0] * 3
    assert tally.checked == 3


@pytest.mark.parametrize("hot", [False, True])
@both_loops
def test_wrong_untimed_answer_voids_phase_before_it_begins(loop: str, hot: bool) -> None:
    the_loop(loop)
    done: list[int] = []
    events: list[str] = []

    def rounds(number: int) -> Iterator[Operations | Bulk]:
        yield operations(done.append, [number], wrong)

    pace = Pace(warmup_ns=0 if hot else FOREVER, loop=loop)
    tally = measure(rounds, pace, lambda: events.append("ready"), hot=hot)
    assert tally.void == "got 1, expected 2"
    assert done == [WARM if hot else WARM + 1]
    assert events == ["ready"], "other clients wait for it"


def test_warm_up_errors_are_not_counted(clock: Clock) -> None:
    def call(number: int) -> None:
        clock.let_pass(10)
        if number >= WARM:
            raise OSError("not yet")

    tally = measure(lambda number: iter([operations(call, [number])]), python(warmup_ns=25), nothing)
    assert (tally.operations, tally.errors, tally.first_error) == (1, 0, None)


def test_warm_up_precedes_building_first_slice_and_ready(clock: Clock) -> None:
    events: list[str] = []

    def rounds(number: int) -> Iterator[Operations | Bulk]:
        events.append(f"built {number}")
        yield operations(clock.taking(10), [number])
        events.append(f"left {number}")

    measure(rounds, python(warmup_ns=15), lambda: events.append("ready"))
    warm = [f"{what} {WARM + number}" for number in (1, 2) for what in ("built", "left")]
    assert events == [*warm, "built 0", "ready", "left 0"]


@both_loops
def test_hot_phase_runs_untimed_once_before_ready(loop: str) -> None:
    the_loop(loop)
    events: list[Any] = []

    def rounds(number: int) -> Iterator[Operations | Bulk]:
        for _ in range(2):
            yield operations(events.append, [number] * 2)

    tally = measure(rounds, Pace(loop=loop), lambda: events.append("ready"), hot=True)
    assert events == [WARM] * 4 + ["ready"] + [0] * 4
    assert (tally.operations, tally.checked, tally.warm) == (4, 4, True)


@pytest.mark.parametrize(
    ("budget", "beforehand", "warm"), [(60, 6, True), (51, 6, True), (49, 5, False), (35, 4, False), (5, 1, False)]
)
def test_hot_phase_is_warm_only_after_complete_round(clock: Clock, budget: int, beforehand: int, warm: bool) -> None:
    rounds = Rounds(clock, 10, [4, 2])
    tally = measure(rounds, python(budget_ns=budget), nothing, hot=True)
    assert rounds.done.count(WARM) == beforehand
    assert tally.warm is warm


def test_hot_phase_at_budget_is_warm_if_complete(clock: Clock) -> None:
    assert measure(Rounds(clock, 10, [4]), python(budget_ns=40), nothing, hot=True).warm
    assert not measure(Rounds(clock, 10, [4, 1]), python(budget_ns=40), nothing, hot=True).warm


def test_hot_phase_warms_up_after_its_untimed_round(clock: Clock) -> None:
    rounds = Rounds(clock, 10)
    measure(rounds, python(warmup_ns=15), nothing, hot=True)
    assert rounds.asked == [WARM, WARM + 1, 0]


@pytest.mark.parametrize("hot", [False, True])
def test_bulk_calls_warm_up_too(clock: Clock, hot: bool) -> None:
    """Some bulk calls can be repeated, such as an update in one transaction."""
    done: list[tuple[int, int]] = []
    checked: list[int] = []

    def rounds(number: int) -> Iterator[Operations | Bulk]:
        def call(items: Iterable[int]) -> int:
            for item in items:
                clock.let_pass(10)
                done.append((number, item))
            return number

        def check(answer: int, taken: int) -> int:
            checked.append(answer)
            return taken

        yield bulk(call, [[1], [2]], check)

    pace = python() if hot else python(warmup_ns=15)
    tally = measure(rounds, pace, nothing, hot=hot)
    warm = WARM if hot else WARM + 1
    assert done == [(warm, 1), (warm, 2), (0, 1), (0, 2)]
    assert checked == [warm, 0]
    assert (tally.operations, tally.items, tally.checked, tally.elapsed_ns) == (1, 6, 2, 20)


def test_hot_bulk_phase_is_warm_only_if_complete(clock: Clock) -> None:
    def rounds(number: int) -> Iterator[Operations | Bulk]:
        def call(items: Iterable[int]) -> None:
            for _ in items:
                clock.let_pass(1)

        for _ in range(2):
            yield bulk(call, [list(range(600))])

    # A feed checks its time once every 256 items.
    assert measure(rounds, python(budget_ns=1_200), nothing, hot=True).warm
    assert measure(rounds, python(budget_ns=1_112), nothing, hot=True).warm
    assert not measure(rounds, python(budget_ns=1_111), nothing, hot=True).warm


def test_raising_warm_up_bulk_call_is_not_checked(clock: Clock) -> None:
    def rounds(number: int) -> Iterator[Operations | Bulk]:
        def call(items: Iterable[int]) -> None:
            clock.let_pass(10)
            if number >= WARM:
                raise OSError("not yet")

        yield bulk(call, [[1]], lambda answer, taken: taken if answer is None else wrong([answer]))

    tally = measure(rounds, python(warmup_ns=5), nothing)
    assert (tally.void, tally.errors) == (None, 0)


# -- open loop --------------------------------------------------------------------------------------------

RATE = 1_000.0
"""Operations per second: one is due each ms, the first at 1 ms."""


def stalled(clock: Clock, slices: Sequence[int], **more: Any) -> Tally:
    """Measures six operations of 10 ns, except that the second takes 3.5 ms, in slices of these sizes."""
    lasting = iter([10, 7 * MS // 2, 10, 10, 10, 10])
    return once([operations(lambda _: clock.let_pass(next(lasting)), range(n)) for n in slices], rate=RATE, **more)


def test_response_time_equals_latency_when_on_time(clock: Clock) -> None:
    tally = once([operations(clock.taking(10), range(4))], rate=RATE)
    assert holds(tally.latency, [10] * 4)
    assert holds(tally.response, [10] * 4)
    assert holds(tally.late, [0] * 4)
    assert (tally.elapsed_ns, tally.busy_ns) == (4 * MS + 10, 40)


@pytest.mark.claim("A stall is in the response times of all operations that waited for it")
@pytest.mark.parametrize("slices", [[6], [1] * 6, [2, 4], [3, 3]], ids=str)
def test_stall_delays_response_times_but_not_latencies(clock: Clock, slices: list[int]) -> None:
    """Operations of later slices inherit the delay too."""
    tally = stalled(clock, slices)
    # Operations are due at 1, 2, 3 ... ms. The second ends at 5.5 ms, and the next three follow at once.
    assert holds(tally.latency, [10, 3_500_000, 10, 10, 10, 10])
    assert holds(tally.response, [10, 3_500_000, 2_500_010, 1_500_020, 500_030, 10])
    assert tally.elapsed_ns == 6 * MS + 10
    # The delay is the engine's: Dyno started each operation as soon as the loop was free.
    assert holds(tally.late, [0] * 6)


@pytest.mark.claim("Dyno's own lateness is recorded separately, also for operations behind a late one")
@pytest.mark.parametrize("slices", [[4], [1] * 4, [2, 2]], ids=str)
def test_lateness_of_the_harness_is_recorded(monkeypatch: pytest.MonkeyPatch, slices: list[int]) -> None:
    clock = install(monkeypatch, late=300)
    tally = once([operations(clock.taking(10), range(n)) for n in slices], rate=RATE)
    assert holds(tally.latency, [10] * 4)
    assert holds(tally.response, [310] * 4)
    assert holds(tally.late, [300] * 4)


@pytest.mark.claim("Dyno's own lateness is recorded separately, also for operations behind a late one")
@pytest.mark.parametrize("slices", [[5], [1] * 5, [2, 3]], ids=str)
def test_lateness_propagates_to_operations_behind_it(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, slices: list[int]
) -> None:
    """Dyno sleeps 2.5 ms too long, once. Operations that are due meanwhile begin as soon as possible."""
    late = iter([0, 5 * MS // 2])

    def oversleep(seconds: float) -> None:
        clock.sleep(seconds)
        clock.let_pass(next(late, 0))

    monkeypatch.setattr("dyno.measure.loop.sleep", oversleep)
    tally = once([operations(clock.taking(10), range(n)) for n in slices], rate=RATE)
    # Operations are due at 1, 2, 3, 4 and 5 ms. The second begins at 4.5 ms, and two more follow at once.
    assert holds(tally.response, [10, 2_500_010, 1_500_020, 500_030, 10])
    assert holds(tally.late, [0, 2_500_000, 1_500_010, 500_020, 0])


@pytest.mark.claim("Dyno's own lateness is recorded separately, also for operations behind a late one")
def test_time_between_slices_counts_as_lateness(clock: Clock) -> None:
    """Building a slice takes 3 ms here, as it may if a thread waits for the interpreter's lock."""

    def calls(_: Any) -> Sequence[Any]:
        clock.let_pass(3 * MS)
        return [clock.taking(10)]

    tally = once([operations(clock.taking(10), [0]), Operations(calls, [1, 2, 3], len)], rate=RATE)
    # The slice's operations are due at 2, 3 and 4 ms. The first begins a little after 4 ms.
    assert holds(tally.response, [10, 2 * MS + 20, MS + 30, 40])
    assert holds(tally.late, [0, 2 * MS + 10, MS + 20, 30])


@pytest.mark.claim("Dyno's own lateness is recorded separately, also for operations behind a late one")
def test_transaction_time_counts_as_response_not_lateness(clock: Clock) -> None:
    @contextmanager
    def around() -> Iterator[None]:
        clock.let_pass(4 * MS)
        yield
        clock.let_pass(2 * MS)

    work = [Operations(lambda _: [clock.taking(10)], range(2), len, around=around) for _ in range(2)]
    tally = once(work, rate=RATE)
    # The first slice is due at 1 and 2 ms and begins at 4 ms. The second is due at 3 and 4 ms and begins at 10 ms.
    assert holds(tally.response, [3 * MS + 10, 2 * MS + 20, 7 * MS + 30, 6 * MS + 40])
    assert holds(tally.late, [0] * 4)


@pytest.mark.claim("An offered rate holds on the wall clock")
def test_building_and_checking_add_no_response_time(clock: Clock) -> None:
    def check(answers: Sequence[Any]) -> int:
        clock.let_pass(10**9)
        return len(answers)

    def slices() -> Iterator[Operations | Bulk]:
        for _ in range(3):
            clock.let_pass(10**9)
            yield operations(clock.taking(10), range(2), check)

    tally = once(slices(), rate=RATE)
    assert holds(tally.response, [10] * 6)
    assert tally.elapsed_ns == 6 * MS + 10


def test_each_client_has_its_share_of_the_rate(clock: Clock) -> None:
    def rounds(number: int) -> Iterator[Operations | Bulk]:
        yield operations(clock.taking(10), range(3))

    ends = [
        measure(rounds, python(rate=RATE), nothing, ClientPosition(client, 2)).elapsed_ns - 10 for client in range(2)
    ]
    assert ends == [5 * MS, 6 * MS], "due at 1, 3, 5 and at 2, 4, 6 ms"


def test_arrivals_follow_distribution_and_seed(clock: Clock) -> None:
    for seed in (4, 5):
        tally = once([operations(clock.taking(10), range(4))], rate=1.0, arrivals=POISSON, seed=seed)
        due = Arrivals(1.0, POISSON, 0, 1, seed).take(4)
        assert tally.elapsed_ns == due[-1] + 10


def test_open_loop_ends_with_last_operation_due(clock: Clock) -> None:
    tally = once([operations(clock.taking(10), range(4))] * 3, 6 * MS, rate=RATE)
    assert (tally.operations, tally.elapsed_ns, tally.ended_by) == (6, 6 * MS + 10, "budget")
    assert holds(tally.response, [10] * 6)


@pytest.mark.claim("A rate of few operations counts as reached if all that were due were done")
@pytest.mark.parametrize("taking_ns", [10, 3 * MS // 4])
@pytest.mark.parametrize("operations_due", [1, 2, 6])
def test_last_operation_due_in_time_always_counts(clock: Clock, taking_ns: int, operations_due: int) -> None:
    tally = once([operations(clock.taking(taking_ns), range(4))] * 3, operations_due * MS, rate=RATE)
    assert (tally.operations, tally.due, tally.ended_by) == (operations_due, operations_due, "budget")


@pytest.mark.parametrize("budget_ns", [FOREVER, 11 * MS])
def test_due_count_includes_unstarted_operations(clock: Clock, budget_ns: int) -> None:
    """Six operations take 2 ms each, and one is due each ms. When the last one begins at 11 ms, eleven are due."""
    tally = once([operations(clock.taking(2 * MS), range(6))], budget_ns, rate=RATE)
    assert (tally.operations, tally.due) == (6, 11)


def test_exhausted_open_loop_counts_nothing_more_as_due(clock: Clock) -> None:
    tally = once([operations(clock.taking(3 * MS // 4), range(3))], rate=RATE)
    assert (tally.operations, tally.due, tally.ended_by) == (3, 3, "count")


def test_open_loop_with_nothing_due_does_nothing(clock: Clock) -> None:
    tally = once([operations(clock.taking(10), range(4))], MS - 1, rate=RATE)
    assert (tally.operations, tally.checked, tally.ended_by) == (0, 0, "budget")
    assert holds(tally.response, []) and holds(tally.late, [])


@pytest.mark.claim("A rate that can't be held is served as fast as possible, in constant memory")
def test_inputs_of_an_overloaded_open_loop_are_bounded(clock: Clock) -> None:
    """An operation is due each ms and takes 100 ms, and building the inputs of one takes as long."""
    built = 0

    def rounds(number: int) -> Iterator[Operations]:
        nonlocal built
        clock.let_pass(SECOND)
        built += 10
        yield operations(clock.taking(100 * MS), range(10))

    tally = measure(rounds, python(duration_ns=100 * SECOND, rate=RATE), nothing)
    assert (tally.operations, tally.ended_by) == (1_000, "duration")
    assert tally.due == 100_000
    assert tally.response is not None and tally.response.counts.sum() == 1_000
    assert built <= 3_100


def test_due_times_continue_across_rounds(clock: Clock) -> None:
    rounds = Rounds(clock, 10)
    tally = measure(rounds, python(duration_ns=5 * MS, rate=RATE), nothing)
    assert rounds.done == [0, 0, 1, 1, 2]
    assert holds(tally.response, [10] * 5)


def test_untimed_rounds_ignore_due_times(clock: Clock) -> None:
    rounds = Rounds(clock, 10)
    tally = measure(rounds, python(warmup_ns=15, rate=RATE), nothing, hot=True)
    assert rounds.asked == [WARM, WARM + 1, 0]
    assert clock.sleeps == 2
    assert holds(tally.response, [10] * 2)


@both_loops
def test_open_and_closed_loops_count_alike(loop: str) -> None:
    def slices() -> Slices:
        for _ in range(2):
            work = operations(failing_at(1), range(3), weights=[3, 30, 300])
            work.kinds = ["get", "put", "get"]
            yield work

    for rate in (1_000_000.0, None):
        tally = once(slices(), rate=rate, loop=loop)
        assert (tally.operations, tally.items, tally.errors, tally.checked) == (6, 606, 2, 6)
        assert {kind: int(own.counts.sum()) for kind, own in tally.by_kind.items()} == {"get": 4, "put": 0}
        times = [tally.response, tally.late]
        # Lateness counts for failed operations, too.
        assert [None if one is None else int(one.counts.sum()) for one in times] == ([4, 6] if rate else [None] * 2)


@both_loops
@pytest.mark.parametrize("rate", [None, RATE])
def test_start_of_slowest_operation_is_recorded(loop: str, rate: float | None) -> None:
    """The slowest is the sixth of eight, in the second slice."""
    tally = once(
        [operations(lambda ms: time.sleep(ms / 1_000), slice_ms) for slice_ms in ([1] * 4, [1, 60, 1, 1])],
        rate=rate,
        loop=loop,
    )
    assert tally.slowest is not None
    span_ns, at_ns = tally.slowest
    assert span_ns >= 60 * MS and at_ns >= 5 * MS
    assert at_ns + span_ns <= tally.elapsed_ns


# -- series over time -------------------------------------------------------------------------------------


def test_series_contains_only_measured_time_and_operations(clock: Clock) -> None:
    def check(answers: Sequence[Any]) -> int:
        clock.let_pass(10 * SECOND)
        return len(answers)

    def rounds(number: int) -> Iterator[Operations | Bulk]:
        for _ in range(3):
            yield operations(clock.taking(SECOND // 4), range(3), check)

    tally = measure(rounds, python(warmup_ns=5 * SECOND), nothing, hot=True)
    # Nine operations end at 0.25, 0.5 ... 2.25 s.
    points = [(point["from_ns"] // SECOND, point["operations"]) for point in tally.series.points()]
    assert points == [(0, 3), (1, 4), (2, 2)]


# -- CPU time of pauses ------------------------------------------------------------------------------------


@both_loops
def test_pause_cpu_time_excludes_operations(loop: str) -> None:
    def check(answers: Sequence[Any]) -> int:
        burn(40)
        return len(answers)

    def slices() -> Slices:
        for _ in range(2):
            burn(40)
            yield operations(lambda _: burn(100), range(2), check)

    paused = sum(once(slices(), loop=loop).paused)
    # The pauses are two checks and the building of one slice: the first slice was built before the phase began.
    assert 110 * MS <= paused < 200 * MS


def test_thread_counters_are_the_outermost_of_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reading other counters costs is in the pause, and not in the clients' CPU time."""
    read = list[str]()

    def named(name: str) -> Callable[..., Any]:
        original = getattr(pauses, name)

        def recorded(*given: Any) -> Any:
            read.append(name)
            return original(*given)

        return recorded

    for name in ("of_thread_ns", "waits_of_thread", "process_time_ns"):
        monkeypatch.setattr(pauses, name, named(name))
    meter = pauses.PauseMeter(ONE, lambda: 0)
    meter.end(Tally())
    meter.close()
    middle = ["process_time_ns", "waits_of_thread"]
    assert read == ["of_thread_ns", *middle, *reversed(middle), "of_thread_ns"]


def test_building_bulk_items_counts_as_pause() -> None:
    def feed() -> Iterator[list[int]]:
        for number in range(2):
            burn(40)
            yield [number]

    def call(items: Iterable[int]) -> None:
        for _ in items:
            burn(100)

    works: list[Operations | Bulk] = [Bulk(call, feed(), 1, lambda answer, taken: taken) for _ in range(2)]
    paused = sum(once(works).paused)
    # The first slice of the first call doesn't count: it was built before the phase began.
    assert 110 * MS <= paused < 200 * MS


def test_first_bulk_items_are_built_before_ready() -> None:
    events: list[str] = []

    def feed() -> Iterator[list[int]]:
        for number in range(2):
            events.append(f"built {number}")
            yield [number]

    def call(items: Iterable[int]) -> None:
        events.extend(f"took {item}" for item in items)

    tally = once([Bulk(call, feed(), 1, lambda answer, taken: taken)], ready=lambda: events.append("ready"))
    assert events == ["built 0", "ready", "took 0", "built 1", "took 1"]
    assert tally.items == 2


def test_bulk_phase_without_items_signals_ready() -> None:
    events: list[str] = []
    tally = once([bulk(sum, [])], ready=lambda: events.append("ready"))
    assert (events, tally.operations, tally.items) == (["ready"], 1, 0)


# -- several clients --------------------------------------------------------------------------------------


def test_merging_sums_counts_and_keeps_longest_time() -> None:
    one = Tally(operations=2, items=6, elapsed_ns=100, busy_ns=90, checked=2)
    one.slowest = (5, 1)
    other = Tally(operations=3, items=9, elapsed_ns=70, busy_ns=60, errors=1, checked=3, first_error="x", bulk=True)
    other.ended_by, other.void, other.slowest = "budget", "wrong", (7, 0)
    one.latency.add([5])
    other.latency.add([7, 7])
    other.by_kind = {"get": Recorder()}
    other.by_kind["get"].add([7])
    one.merge(other)
    further = Tally()
    further.by_kind = dict(other.by_kind)
    one.merge(further)
    assert int(one.by_kind["get"].counts.sum()) == 2
    assert (one.operations, one.items, one.errors, one.checked) == (5, 15, 1, 5)
    assert (one.elapsed_ns, one.busy_ns) == (100, 150)
    assert (one.ended_by, one.first_error, one.void, one.bulk) == ("budget", "x", "wrong", True)
    assert int(one.latency.counts.sum()) == 3
    one.merge(Tally())
    assert (one.ended_by, one.first_error, one.void, one.slowest) == ("budget", "x", "wrong", (7, 0))


def test_percentiles_of_merged_machines_match_all_values() -> None:
    """Four machines of different speed, as their tallies come home: pickled."""
    draws = np.random.default_rng(41)
    values = [np.ceil(draws.lognormal(11 + at / 2, 0.8, 50_000)).astype(np.int64) for at in range(4)]
    tallies = []
    for of_one in values:
        tally = Tally(operations=len(of_one))
        tally.latency.add(of_one.tolist())
        tallies.append(pickle.loads(pickle.dumps(tally)))
    whole, *others = tallies
    for other in others:
        whole.merge(other)
    merged = percentiles([whole.latency.encode()])
    raw = np.sort(np.concatenate(values))
    for name, percent in (("p50", 50), ("p90", 90), ("p99", 99), ("p999", 99.9)):
        assert merged[name] == pytest.approx(raw[round(len(raw) * percent / 100) - 1], rel=0.001)


def test_merging_sums_usage_and_requires_all_clients_warm() -> None:
    one, other = Tally(), Tally()
    one.paused, one.usage = (1, 20), Usage(*range(8))
    other.paused, other.usage = (300, 4_000), Usage(*range(10, 18))
    other.warm, other.ended_by = False, "duration"
    one.merge(other)
    assert one.paused == (301, 4_020)
    assert one.usage == Usage(10, 12, 14, 16, 18, 20, 22, 24)
    assert (one.warm, one.ended_by) == (False, "duration")
    one.merge(Tally())
    assert (one.warm, one.ended_by) == (False, "duration")


def test_merging_sums_known_memory_and_keeps_largest_child() -> None:
    one, other, third = Tally(), Tally(), Tally()
    one.peak_bytes, other.peak_bytes, third.peak_bytes = 50, 70, 90
    one.merge(other)
    assert (one.peak_bytes, one.client_peak_bytes) == (120, 120)
    other.child_peak_bytes, third.child_peak_bytes = 4, 3
    one.merge(other)
    one.merge(third)
    assert (one.peak_bytes, one.child_peak_bytes, one.client_peak_bytes) == (280, 4, 4)
    one.merge(Tally())
    assert one.peak_bytes is None
    assert one.client_peak_bytes == 4


def test_merging_keeps_responses_of_open_loops_only() -> None:
    tallies = [Tally(), Tally()]
    for tally, response in zip(tallies, (100, 200), strict=True):
        tally.response, tally.late = Recorder(), Recorder()
        tally.response.add([response])
        tally.late.add([response // 10])
    whole = Tally()
    whole.merge(Tally())
    assert (whole.response, whole.late) == (None, None)
    for tally in tallies:
        whole.merge(tally)
    assert holds(whole.response, [100, 200]) and holds(whole.late, [10, 20])


def test_merging_adds_series_second_by_second() -> None:
    def client(clock: Clock) -> Tally:
        return once([operations(clock.taking(SECOND // 2), range(4))])

    with pytest.MonkeyPatch.context() as patch:
        clock = install(patch)
        one, other = client(clock), client(clock)
    one.merge(other)
    assert [point["operations"] for point in one.series.points()] == [2, 4, 2]
