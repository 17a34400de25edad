"""Tests the timed loops, native and in Python, against their docstrings: the order of calls, errors, budgets, and
that no operation begins before it is due. With a fake clock, spans and elapsed time are also checked to the
nanosecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from clockwork import Clock, both_loops, install, the_loop

from dyno.contracts.suite import Bulk, Failure, Operations
from dyno.measure import slices
from dyno.measure.loop import AWAKE_NS, PIECE, InputFeed, Loop, Times, bulk, pick
from dyno.measure.slices import HeldTransaction, Slice

FOREVER = 10**15
SECOND = 10**9


class LoopResult(NamedTuple):
    """Result of a slice. Its times count from the moment before its transaction."""

    answers: list[Any]
    starts: Times
    ends: Times
    failures: list[Failure]
    transaction_ns: int
    elapsed_ns: int
    out_of_time: bool
    entered_ns: int


Run = Callable[[Operations, int], LoopResult]


def timed(loop: Loop, work: Operations, budget: int, due: Times | None = None) -> LoopResult:
    """Runs a whole slice through a loop."""
    parcel, start = Slice(work, due), loop.now()
    seen = slices.run_slice(loop, parcel, start + budget, HeldTransaction(), start)
    starts, ends = seen.times()
    return LoopResult(
        seen.answers,
        starts - start,
        ends - start,
        seen.failures,
        seen.transaction_ns,
        seen.over - start,
        parcel.left > 0,
        seen.entered - seen.begun,
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install(monkeypatch)


def closed(work: Operations, budget: int) -> LoopResult:
    """Runs a slice through the closed loop in Python, whose clock tests can move."""
    return timed(pick("python"), work, budget)


def paced(work: Operations, budget: int, due: Sequence[int]) -> LoopResult:
    """Runs a slice through the open loop in Python."""
    return timed(pick("python"), work, budget, np.array(due, dtype=np.int64))


@pytest.fixture(params=["python closed", "python paced", "native closed", "native paced"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a slice through each of the four loops; paced operations are due at once."""
    name, way = request.param.split()
    loop = the_loop(name)

    def through(work: Operations, budget: int) -> LoopResult:
        overdue = np.full(len(work.arguments), -SECOND) if way == "paced" else None
        return timed(loop, work, budget, overdue)

    return through


def unchecked(answers: Any) -> int:
    return 0


def operations(call: Any, arguments: Sequence[Any]) -> Operations:
    return Operations(lambda _: (call,), arguments, unchecked)


def spans(seen: LoopResult) -> list[int]:
    return (seen.ends - seen.starts).tolist()


# -- order of calls ----------------------------------------------------------------------------------------


def test_transaction_encloses_calls_and_passes_its_value(
    run: Run,
) -> None:
    events: list[Any] = []

    @contextmanager
    def around() -> Iterator[str]:
        events.append("enter")
        yield "transaction"
        events.append("leave")

    def calls(entered: Any) -> Sequence[Any]:
        events.append(("calls", entered))
        return [events.append]

    run(Operations(calls, ["a", "b", "c"], unchecked, around=around), FOREVER)
    assert events == ["enter", ("calls", "transaction"), "a", "b", "c", "leave"]


def test_calls_receives_none_without_a_transaction(run: Run) -> None:
    given: list[Any] = []

    def calls(entered: Any) -> Sequence[Any]:
        given.append(entered)
        return [len]

    assert run(Operations(calls, ["ab"], unchecked), FOREVER).answers == [2]
    assert given == [None]


def test_callables_rotate_and_every_operation_is_recorded(run: Run) -> None:
    work = Operations(lambda _: [str.upper, str.lower, str.title], ["aB", "cD", "eF", "gH", "iJ"], unchecked)
    seen = run(work, FOREVER)
    assert seen.answers == ["AB", "cd", "Ef", "GH", "ij"]
    assert len(seen.starts) == len(seen.ends) == 5
    assert seen.failures == [] and not seen.out_of_time


def test_operation_times_are_ordered_within_the_transaction(run: Run) -> None:
    seen = run(operations(str, range(1_000)), FOREVER)
    moments = np.column_stack([seen.starts, seen.ends]).ravel()
    assert (np.diff(moments) >= 0).all()
    assert 0 <= seen.entered_ns <= moments[0] and moments[-1] <= seen.elapsed_ns
    assert seen.entered_ns <= seen.transaction_ns


def test_empty_slice_is_never_out_of_time(run: Run) -> None:
    seen = run(operations(str, []), 0)
    assert (seen.answers, seen.starts.tolist(), seen.ends.tolist(), seen.failures) == ([], [], [], [])
    assert not seen.out_of_time


def test_empty_slice_takes_no_time(clock: Clock) -> None:
    seen = closed(operations(clock.taking(5), []), FOREVER)
    assert (seen.elapsed_ns, seen.transaction_ns) == (0, 0)


def test_arguments_without_a_callable_raise(run: Run) -> None:
    left: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        try:
            yield
        finally:
            left.append("left")

    with pytest.raises(ValueError, match="there is nothing to call"):
        run(Operations(lambda _: (), [1], unchecked, around=around), FOREVER)
    assert left == ["left"]
    assert run(Operations(lambda _: (), [], unchecked), FOREVER).answers == []


@both_loops
def test_fewer_moments_than_operations_are_an_error(loop: str) -> None:
    with pytest.raises(ValueError, match="fewer moments than arguments"):
        timed(the_loop(loop), operations(str, [1, 2]), FOREVER, np.array([0]))


# -- errors -----------------------------------------------------------------------------------------------


def failing_at(*bad: Any) -> Any:
    def call(argument: Any) -> Any:
        if argument in bad:
            raise KeyError(argument)
        return argument

    return call


def test_raising_operation_is_a_failure_and_loop_continues(run: Run) -> None:
    seen = run(operations(failing_at(1, 2, 4), range(5)), FOREVER)
    failures = [Failure("KeyError: 1"), Failure("KeyError: 2"), Failure("KeyError: 4")]
    assert seen.answers == [0, failures[0], failures[1], 3, failures[2]]
    assert seen.failures == failures
    assert len(seen.starts) == len(seen.ends) == 5
    assert not seen.out_of_time


def test_stop_iteration_is_a_failure_and_loop_continues(run: Run) -> None:
    seen = run(operations(next, [iter("a"), iter(()), iter("b")]), FOREVER)
    assert seen.answers == ["a", Failure("StopIteration: "), "b"]


def test_failed_operation_advances_the_callable_rotation(run: Run) -> None:
    work = Operations(lambda _: [failing_at("b"), str.upper], ["a", "x", "b", "y"], unchecked)
    assert run(work, FOREVER).answers == ["a", "X", Failure("KeyError: 'b'"), "Y"]


def test_failure_returned_by_engine_counts_as_answer(run: Run) -> None:
    answer = Failure("of the engine's own")
    seen = run(operations(lambda _: answer, [0]), FOREVER)
    assert (seen.answers, seen.failures) == ([answer], [])


@pytest.mark.parametrize("due", [None, [0, 0]], ids=["closed", "paced"])
def test_a_failed_operation_has_its_span(clock: Clock, due: list[int] | None) -> None:
    def call(argument: int) -> None:
        clock.let_pass(argument)
        raise OSError("no space")

    work = operations(call, [3, 70])
    seen = closed(work, FOREVER) if due is None else paced(work, FOREVER, due)
    assert spans(seen) == [3, 70]
    assert seen.answers == [Failure("OSError: no space")] * 2


@pytest.mark.parametrize("fatal", [MemoryError, KeyboardInterrupt, SystemExit])
def test_fatal_exception_propagates_and_leaves_the_transaction(run: Run, fatal: type[BaseException]) -> None:
    left: list[str] = []
    done: list[int] = []

    @contextmanager
    def around() -> Iterator[None]:
        try:
            yield
        finally:
            left.append("left")

    def call(argument: int) -> None:
        done.append(argument)
        if argument == 1:
            raise fatal

    with pytest.raises(fatal):
        run(Operations(lambda _: (call,), range(3), unchecked, around=around), FOREVER)
    assert left == ["left"]
    assert done == [0, 1]


# -- time, on the real clock -------------------------------------------------------------------------------


def test_zero_budget_ends_slice_after_one_operation(run: Run) -> None:
    seen = run(operations(lambda argument: time.sleep(0.001), range(5)), 0)
    assert len(seen.answers) == len(seen.starts) == 1
    assert seen.out_of_time


def test_raising_operation_counts_against_zero_budget(run: Run) -> None:
    def call(argument: int) -> None:
        time.sleep(0.001)
        raise OSError("slow, and in vain")

    seen = run(operations(call, range(5)), 0)
    assert seen.answers == seen.failures == [Failure("OSError: slow, and in vain")]
    assert seen.out_of_time


def test_the_last_operation_may_overrun_the_budget(run: Run) -> None:
    seen = run(operations(lambda argument: time.sleep(0.001), [0]), 0)
    assert len(seen.answers) == 1
    assert not seen.out_of_time


def test_operation_that_overruns_the_budget_is_the_last(run: Run) -> None:
    budget = SECOND // 4

    def call(argument: int) -> int:
        if argument == 2:
            # Sleep for the whole budget, which began earlier.
            time.sleep(budget / SECOND)
        return argument

    seen = run(operations(call, range(5)), budget)
    assert seen.answers == [0, 1, 2]
    assert seen.out_of_time


@pytest.mark.claim("No operation of an open loop begins before it is due, and an overdue one begins at once")
@both_loops
def test_no_operation_begins_before_it_is_due(loop: str) -> None:
    due = np.array([-SECOND, 50_000, 50_001, 400_000, 3_000_000, 3_000_500])
    seen = timed(the_loop(loop), operations(str, range(6)), FOREVER, due)
    assert seen.answers == list("012345")
    assert (seen.starts >= due).all()
    assert not seen.out_of_time


@both_loops
def test_operation_due_after_deadline_ends_slice_at_once(loop: str) -> None:
    # The deadline is in half an hour: a loop that waits for it exceeds the test's timeout.
    seen = timed(the_loop(loop), operations(str, range(3)), 1_800 * SECOND, np.array([0, 1_801 * SECOND, 0]))
    assert seen.answers == ["0"]
    assert seen.out_of_time


# -- time, on a fake clock ----------------------------------------------------------------------------------


@pytest.mark.claim("A timed span holds one call and one reading of the clock")
def test_span_covers_only_its_call(clock: Clock) -> None:
    seen = closed(operations(clock.let_pass, [5, 0, 1_000]), FOREVER)
    assert spans(seen) == [5, 0, 1_000]
    assert (seen.starts.tolist(), seen.ends.tolist()) == ([0, 5, 5], [5, 5, 1_005])
    assert seen.elapsed_ns == 1_005


@pytest.mark.claim("A timed span holds one call and one reading of the clock")
def test_span_includes_exactly_one_clock_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, reading=7)
    seen = closed(operations(clock.let_pass, [100, 200, 300]), FOREVER)
    assert spans(seen) == [107, 207, 307]
    # The clock is read twice for each operation and four times around the transaction. One earlier reading, from
    # which the deadline counts, is over when the elapsed time begins.
    assert seen.elapsed_ns == 600 + 7 * (2 * 3 + 4)
    assert clock.readings == 2 * 3 + 5


@pytest.mark.claim("A transaction around reads is in the phase's time and in no latency")
@pytest.mark.parametrize("due", [None, [0, 0, 0]], ids=["closed", "paced"])
def test_transaction_is_in_elapsed_time_but_no_span(clock: Clock, due: list[int] | None) -> None:
    @contextmanager
    def around() -> Iterator[None]:
        clock.let_pass(1_000)
        yield
        clock.let_pass(20_000)

    def calls(_: Any) -> Sequence[Any]:
        clock.let_pass(300)
        return [clock.let_pass]

    work = Operations(calls, [1, 2, 3], unchecked, around=around)
    seen = closed(work, FOREVER) if due is None else paced(work, FOREVER, due)
    assert spans(seen) == [1, 2, 3]
    assert seen.starts.tolist() == [1_300, 1_301, 1_303]
    assert seen.elapsed_ns == 1_000 + 300 + 6 + 20_000
    assert (seen.transaction_ns, seen.entered_ns) == (1_000 + 20_000, 1_000)


@pytest.mark.claim("The budget ends a phase, and the row says so")
@pytest.mark.parametrize("way", ["closed", "paced"])
@pytest.mark.parametrize(
    ("budget", "done", "out_of_time"),
    [(0, 1, True), (9, 1, True), (10, 2, True), (35, 4, True), (89, 9, True), (90, 10, False), (91, 10, False)],
)
def test_budget_ends_slice_after_the_overrunning_operation(
    clock: Clock, way: str, budget: int, done: int, out_of_time: bool
) -> None:
    work = operations(clock.taking(10), range(10))
    seen = closed(work, budget) if way == "closed" else paced(work, budget, [0] * 10)
    assert seen.answers == list(range(done))
    assert seen.elapsed_ns == 10 * done
    assert seen.out_of_time is out_of_time


@pytest.mark.parametrize("way", ["closed", "paced"])
def test_raising_operations_use_up_the_budget(clock: Clock, way: str) -> None:
    def call(argument: int) -> None:
        clock.let_pass(10)
        raise ValueError(argument)

    work = operations(call, range(10))
    seen = closed(work, 35) if way == "closed" else paced(work, 35, [0] * 10)
    assert len(seen.answers) == len(seen.starts) == len(seen.failures) == 4
    assert seen.out_of_time


def test_the_transaction_counts_against_the_budget(clock: Clock) -> None:
    @contextmanager
    def around() -> Iterator[None]:
        clock.let_pass(50)
        yield

    work = Operations(lambda _: [clock.taking(10)], range(10), unchecked, around=around)
    assert len(closed(work, 65).answers) == 2


MS = 1_000_000


@pytest.mark.claim("No operation of an open loop begins before it is due, and an overdue one begins at once")
def test_wait_until_due_is_in_elapsed_time_only(clock: Clock) -> None:
    seen = paced(operations(clock.taking(10), range(3)), FOREVER, [MS, 2 * MS, 7 * MS])
    assert seen.starts.tolist() == [MS, 2 * MS, 7 * MS]
    assert spans(seen) == [10, 10, 10]
    assert seen.elapsed_ns == 7 * MS + 10


def test_due_times_and_budget_count_from_before_transaction(clock: Clock) -> None:
    @contextmanager
    def around() -> Iterator[None]:
        clock.let_pass(3 * MS)
        yield

    work = Operations(lambda _: [clock.taking(10)], range(4), unchecked, around=around)
    seen = paced(work, 7 * MS, [MS, 4 * MS, 7 * MS, 8 * MS])
    assert seen.starts.tolist() == [3 * MS, 4 * MS, 7 * MS]


@pytest.mark.claim("No operation of an open loop begins before it is due, and an overdue one begins at once")
def test_overdue_operation_begins_when_the_previous_ends(clock: Clock) -> None:
    seen = paced(operations(clock.taking(3 * MS), range(4)), FOREVER, [-MS, MS, 2 * MS, 20 * MS])
    assert seen.starts.tolist() == [0, 3 * MS, 6 * MS, 20 * MS]


@pytest.mark.parametrize(("budget", "done"), [(2 * MS - 1, 1), (2 * MS, 2), (9 * MS, 2), (10 * MS, 3)])
def test_open_loop_ends_before_operations_due_after_deadline(clock: Clock, budget: int, done: int) -> None:
    seen = paced(operations(clock.taking(0), range(3)), budget, [MS, 2 * MS, 10 * MS])
    assert len(seen.answers) == done
    assert seen.out_of_time is (done < 3)
    # The loop doesn't wait for the deadline either.
    assert seen.elapsed_ns == [0, MS, 2 * MS, 10 * MS][done]


def test_short_wait_spins_instead_of_sleeping(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, reading=1_000)
    seen = paced(operations(clock.taking(0), [0]), FOREVER, [AWAKE_NS])
    assert clock.sleeps == 0
    assert AWAKE_NS <= seen.starts[0] <= AWAKE_NS + 2_000


# -- feed and bulk ----------------------------------------------------------------------------------------


def feed_of(clock: Clock, sizes: list[int], building: int) -> Iterator[list[int]]:
    """Yields slices of these sizes, each of which takes `building` ns to build."""
    first = 0
    for size in sizes:
        clock.let_pass(building)
        yield list(range(first, first + size))
        first += size


def consuming(clock: Clock, per_item: int) -> Any:
    def call(items: Iterable[int]) -> list[int]:
        taken = []
        for item in items:
            clock.let_pass(per_item)
            taken.append(item)
        return taken

    return call


def fed(clock: Clock, sizes: list[int], building: int, per_item: int, budget: int) -> tuple[Any, int, InputFeed]:
    """Runs a bulk call; returns its answer, its time in ns and the feed that it emptied."""
    work = Bulk(consuming(clock, per_item), feed_of(clock, sizes, building), 1, lambda answer, taken: 0)
    feed = InputFeed(work.feed, budget)
    return *bulk(work, feed), feed


@pytest.mark.parametrize("sizes", [[], [1], [PIECE], [PIECE + 1], [600, 600, 7], [1, 1, 1], [3 * PIECE, PIECE]])
def test_feed_yields_every_item_once_in_order(clock: Clock, sizes: list[int]) -> None:
    answer, _, feed = fed(clock, sizes, building=10**9, per_item=1, budget=10**6)
    assert answer == list(range(sum(sizes)))
    assert feed.taken == sum(sizes)
    assert not feed.out_of_time


@pytest.mark.claim("Inputs are built while the clock stands still")
def test_clock_is_paused_while_a_slice_is_built(clock: Clock) -> None:
    _, elapsed_ns, feed = fed(clock, [600, 600, 600], building=10**9, per_item=3, budget=FOREVER)
    assert elapsed_ns == 3 * 1_800
    # The first slice is built before the clock starts, so it needs no pause.
    assert feed.paused_ns == 2 * 10**9


def test_the_first_slice_is_built_before_the_call(clock: Clock) -> None:
    built: list[int] = []

    def slices() -> Iterator[list[int]]:
        for number in range(3):
            built.append(number)
            yield [number]

    feed = InputFeed(slices(), FOREVER)
    assert built == [0]
    assert list(feed.items()) == [0, 1, 2]


def test_building_a_slice_costs_no_budget(clock: Clock) -> None:
    _, _, feed = fed(clock, [600, 600], building=10**9, per_item=1, budget=1_200)
    assert feed.taken == 1_200
    assert not feed.out_of_time


def test_paused_cpu_time_excludes_the_call() -> None:
    def burn(ns: int) -> None:
        begin = time.thread_time_ns()
        while time.thread_time_ns() - begin < ns:
            pass

    def slices() -> Iterator[list[int]]:
        for number in range(3):
            burn(20 * MS)
            yield [number]

    def call(items: Iterable[int]) -> None:
        for _ in items:
            burn(100 * MS)

    work = Bulk(call, slices(), 1, lambda answer, taken: 0)
    feed = InputFeed(work.feed, FOREVER)
    bulk(work, feed)
    # The first slice was built before the call. The kernel counts CPU time in steps of some ms.
    assert 30 * MS <= sum(feed.paused_cpu) <= 100 * MS


@pytest.mark.parametrize(("shared", "elapsed_ns"), [(False, 3 * 5), (True, 3 * 5 + 30 + 100)])
def test_engine_thread_cpu_during_pauses_counts_if_shared(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, shared: bool, elapsed_ns: int
) -> None:
    used = [1_000]
    monkeypatch.setattr("dyno.measure.loop._other_threads_ns", lambda: used[0])

    def slices() -> Iterator[list[int]]:
        # Two threads can use more CPU time than a pause lasts; a pause never counts longer than it was.
        for pause, others in ((0, 0), (100, 30), (100, 200)):
            clock.let_pass(pause)
            used[0] += others
            yield [1]

    def call(items: Iterable[int]) -> None:
        for _ in items:
            clock.let_pass(5)

    work = Bulk(call, slices(), 1, lambda answer, taken: 0)
    assert bulk(work, InputFeed(work.feed, FOREVER, shared=shared))[1] == elapsed_ns


@pytest.mark.claim("The budget ends a phase, and the row says so")
@pytest.mark.parametrize(
    ("budget", "taken"),
    [
        (0, PIECE),
        (PIECE - 1, PIECE),
        (PIECE, 2 * PIECE),
        (599, 600),
        (600, 600 + PIECE),
        (1_000, 600 + 2 * PIECE),
        (1_199, 1_200),
    ],
)
def test_budget_ends_a_feed_at_the_next_piece(clock: Clock, budget: int, taken: int) -> None:
    answer, elapsed_ns, feed = fed(clock, [600, 600, 600], building=10**9, per_item=1, budget=budget)
    assert feed.taken == taken
    assert answer == list(range(taken))
    assert elapsed_ns == taken
    assert feed.out_of_time


def test_feed_exhausted_at_deadline_counts_as_complete(clock: Clock) -> None:
    _, _, feed = fed(clock, [PIECE], building=0, per_item=10, budget=1)
    assert not feed.out_of_time


def test_raising_bulk_call_is_one_timed_failure(clock: Clock) -> None:
    def call(items: Iterable[int]) -> None:
        for item in items:
            clock.let_pass(5)
            if item == 300:
                raise OSError("disk full")

    work = Bulk(call, feed_of(clock, [200, 200], 10**9), 1, lambda answer, taken: 0)
    assert bulk(work, InputFeed(work.feed, FOREVER)) == (Failure("OSError: disk full"), 301 * 5)


def test_memory_error_in_bulk_call_propagates(clock: Clock) -> None:
    def call(items: Iterable[int]) -> None:
        raise MemoryError

    work = Bulk(call, iter([[1]]), 1, lambda answer, taken: 0)
    with pytest.raises(MemoryError):
        bulk(work, InputFeed(work.feed, FOREVER))
