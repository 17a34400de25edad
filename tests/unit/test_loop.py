"""Guards the timed loops against what their docstrings promise: what a span holds and what elapsed time holds, to the
nanosecond of a clock that the tests turn by hand; the order of the calls; what an error does; where a budget ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, repeat
from typing import Any

import pytest
from clockwork import Clock, install

from dyno.run.loop import PIECE, Feed, bulk, closed
from dyno.suite import Bulk, Failure, Operations

FOREVER = 10**15


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install(monkeypatch)


def unchecked(answers: Any) -> int:
    return 0


def operations(call: Any, arguments: Sequence[Any]) -> Operations:
    return Operations(lambda _: repeat(call), arguments, unchecked)


# -- closed: what is called, and when ----------------------------------------------------------------------


def test_around_is_entered_before_the_first_call_and_left_after_the_last_and_its_yield_reaches_calls() -> None:
    events: list[Any] = []

    @contextmanager
    def around() -> Iterator[str]:
        events.append("enter")
        yield "transaction"
        events.append("leave")

    def calls(entered: Any) -> Iterable[Any]:
        events.append(("calls", entered))
        return repeat(events.append)

    closed(Operations(calls, ["a", "b", "c"], unchecked, around=around), FOREVER)
    assert events == ["enter", ("calls", "transaction"), "a", "b", "c", "leave"]


def test_without_around_calls_is_given_none() -> None:
    given: list[Any] = []

    def calls(entered: Any) -> Iterable[Any]:
        given.append(entered)
        return repeat(len)

    assert closed(Operations(calls, ["ab"], unchecked), FOREVER).answers == [2]
    assert given == [None]


def test_every_operation_has_a_callable_of_its_own_and_an_answer_and_a_span() -> None:
    work = Operations(lambda _: cycle([str.upper, str.lower]), ["aB", "cD", "eF"], unchecked)
    timed = closed(work, FOREVER)
    assert timed.answers == ["AB", "cd", "EF"]
    assert len(timed.spans) == 3
    assert not timed.out_of_time


def test_no_operations_take_no_time_and_are_not_out_of_it(clock: Clock) -> None:
    timed = closed(operations(clock.taking(5), []), FOREVER)
    assert timed == ([], [], 0, 0, False)


# -- closed: errors ---------------------------------------------------------------------------------------


def failing_at(*bad: Any) -> Any:
    def call(argument: Any) -> Any:
        if argument in bad:
            raise KeyError(argument)
        return argument

    return call


def test_an_operation_that_raises_is_a_failure_and_the_next_argument_follows() -> None:
    timed = closed(operations(failing_at(1, 2, 4), range(5)), FOREVER)
    assert timed.answers == [0, Failure("KeyError: 1"), Failure("KeyError: 2"), 3, Failure("KeyError: 4")]
    assert len(timed.spans) == 5
    assert not timed.out_of_time


def test_the_callable_of_a_failed_operation_is_used_up_too() -> None:
    work = Operations(lambda _: cycle([failing_at("b"), str.upper]), ["a", "x", "b", "y"], unchecked)
    assert closed(work, FOREVER).answers == ["a", "X", Failure("KeyError: 'b'"), "Y"]


def test_a_failed_operation_has_its_span(clock: Clock) -> None:
    def call(argument: int) -> None:
        clock.let_pass(argument)
        raise OSError("no space")

    timed = closed(operations(call, [3, 70]), FOREVER)
    assert timed.spans == [3, 70]
    assert timed.answers == [Failure("OSError: no space")] * 2


@pytest.mark.parametrize("fatal", [MemoryError, KeyboardInterrupt, SystemExit])
def test_what_is_no_error_of_an_operation_propagates_and_leaves_around(fatal: type[BaseException]) -> None:
    left: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        try:
            yield
        finally:
            left.append("left")

    def call(argument: int) -> None:
        if argument == 1:
            raise fatal

    with pytest.raises(fatal):
        closed(Operations(lambda _: repeat(call), range(3), unchecked, around=around), FOREVER)
    assert left == ["left"]


# -- closed: time -----------------------------------------------------------------------------------------


def test_a_span_is_its_call_alone(clock: Clock) -> None:
    timed = closed(operations(clock.let_pass, [5, 0, 1_000]), FOREVER)
    assert timed.spans == [5, 0, 1_000]
    assert timed.elapsed_ns == 1_005


def test_a_span_holds_one_reading_of_the_clock_and_elapsed_holds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, reading=7)
    timed = closed(operations(clock.let_pass, [100, 200, 300]), FOREVER)
    assert timed.spans == [107, 207, 307]
    # Two readings for each operation and three around the transaction; the first of all was over before it began.
    assert timed.elapsed_ns == 600 + 7 * (2 * 3 + 3)
    assert clock.readings == 2 * 3 + 4


def test_elapsed_holds_the_transaction_and_no_span_does(clock: Clock) -> None:
    @contextmanager
    def around() -> Iterator[None]:
        clock.let_pass(1_000)
        yield
        clock.let_pass(20_000)

    def calls(_: Any) -> Iterator[Any]:
        for _ in range(3):
            clock.let_pass(300)
            yield clock.let_pass

    timed = closed(Operations(calls, [1, 2, 3], unchecked, around=around), FOREVER)
    assert timed.spans == [1, 2, 3]
    assert timed.elapsed_ns == 1_000 + 3 * 300 + 6 + 20_000
    assert timed.transaction_ns == 1_000 + 20_000


@pytest.mark.parametrize(
    ("budget", "done", "out_of_time"),
    [(0, 1, True), (9, 1, True), (10, 2, True), (35, 4, True), (89, 9, True), (90, 10, False), (91, 10, False)],
)
def test_the_budget_ends_it_after_the_operation_that_overran_it(
    clock: Clock, budget: int, done: int, out_of_time: bool
) -> None:
    timed = closed(operations(clock.taking(10), range(10)), budget)
    assert timed.answers == list(range(done))
    assert timed.elapsed_ns == 10 * done
    assert timed.out_of_time is out_of_time


def test_operations_that_raise_use_up_the_budget_too(clock: Clock) -> None:
    def call(argument: int) -> None:
        clock.let_pass(10)
        raise ValueError(argument)

    timed = closed(operations(call, range(10)), 35)
    assert len(timed.answers) == len(timed.spans) == 4
    assert timed.out_of_time


def test_the_transaction_counts_against_the_budget(clock: Clock) -> None:
    @contextmanager
    def around() -> Iterator[None]:
        clock.let_pass(50)
        yield

    work = Operations(lambda _: repeat(clock.taking(10)), range(10), unchecked, around=around)
    assert len(closed(work, 65).answers) == 2


# -- feed and bulk ----------------------------------------------------------------------------------------


def feed_of(clock: Clock, sizes: list[int], building: int) -> Iterator[list[int]]:
    """Slices of these sizes, each of which takes so long to build."""
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


def run(clock: Clock, sizes: list[int], building: int, per_item: int, budget: int) -> tuple[Any, Feed]:
    work = Bulk(consuming(clock, per_item), feed_of(clock, sizes, building), 1, lambda answer, taken: 0)
    feed = Feed(work.feed, budget)
    return bulk(work, feed), feed


@pytest.mark.parametrize("sizes", [[], [1], [PIECE], [PIECE + 1], [600, 600, 7], [1, 1, 1], [3 * PIECE, PIECE]])
def test_a_feed_gives_every_item_once_and_in_order(clock: Clock, sizes: list[int]) -> None:
    timed, feed = run(clock, sizes, building=10**9, per_item=1, budget=10**6)
    assert timed.answers == [list(range(sum(sizes)))]
    assert feed.taken == sum(sizes)
    assert not feed.out_of_time and not timed.out_of_time


def test_the_clock_stands_still_while_a_slice_is_built(clock: Clock) -> None:
    timed, feed = run(clock, [600, 600, 600], building=10**9, per_item=3, budget=FOREVER)
    assert timed.elapsed_ns == 3 * 1_800
    assert timed.spans == [3 * 1_800]
    # The first slice is built before the clock starts, so it needs no pause.
    assert feed.paused_ns == 2 * 10**9


def test_the_first_slice_is_built_before_the_call(clock: Clock) -> None:
    built: list[int] = []

    def slices() -> Iterator[list[int]]:
        for number in range(3):
            built.append(number)
            yield [number]

    feed = Feed(slices(), FOREVER)
    assert built == [0]
    assert list(feed.items()) == [0, 1, 2]


def test_building_a_slice_costs_no_budget(clock: Clock) -> None:
    timed, feed = run(clock, [600, 600], building=10**9, per_item=1, budget=1_200)
    assert feed.taken == 1_200
    assert not timed.out_of_time


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
def test_the_budget_ends_a_feed_at_the_next_piece(clock: Clock, budget: int, taken: int) -> None:
    timed, feed = run(clock, [600, 600, 600], building=10**9, per_item=1, budget=budget)
    assert feed.taken == taken
    assert timed.answers == [list(range(taken))]
    assert timed.elapsed_ns == taken
    assert timed.out_of_time


def test_a_feed_that_is_empty_when_its_time_is_up_ended_by_count(clock: Clock) -> None:
    timed, _ = run(clock, [PIECE], building=0, per_item=10, budget=1)
    assert not timed.out_of_time


def test_a_bulk_call_that_raises_is_one_failure_with_its_time(clock: Clock) -> None:
    def call(items: Iterable[int]) -> None:
        for item in items:
            clock.let_pass(5)
            if item == 300:
                raise OSError("disk full")

    work = Bulk(call, feed_of(clock, [200, 200], 10**9), 1, lambda answer, taken: 0)
    timed = bulk(work, Feed(work.feed, FOREVER))
    assert timed.answers == [Failure("OSError: disk full")]
    assert timed.elapsed_ns == 301 * 5


def test_running_out_of_memory_in_a_bulk_call_propagates(clock: Clock) -> None:
    def call(items: Iterable[int]) -> None:
        raise MemoryError

    work = Bulk(call, iter([[1]]), 1, lambda answer, taken: 0)
    with pytest.raises(MemoryError):
        bulk(work, Feed(work.feed, FOREVER))
