"""Guards how a client's slices become a tally: what counts as an operation, an item, an error, a check; where the
budget ends it; that one wrong answer voids it; and that garbage collection is off while it lasts, and on afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import pytest
from clockwork import Clock, install

from dyno.histogram import Recorder, percentiles
from dyno.model import Wrong
from dyno.run.measure import Tally, measure
from dyno.suite import Bulk, Failure, Operations

FOREVER = 10**15


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install(monkeypatch)


def nothing() -> None:
    pass


def operations(
    call: Callable[[Any], Any],
    arguments: Sequence[Any],
    check: Callable[[Sequence[Any]], int] = len,
    weights: Sequence[int] | None = None,
) -> Operations:
    return Operations(lambda _: repeat(call), arguments, check, weights)


def failing_at(*bad: Any) -> Callable[[Any], Any]:
    def call(argument: Any) -> Any:
        if argument in bad:
            raise OSError(f"no {argument}")
        return argument

    return call


# -- counts -----------------------------------------------------------------------------------------------


def test_operations_of_all_slices_are_counted_and_checked(clock: Clock) -> None:
    tally = measure(
        iter([operations(clock.taking(10), range(3)), operations(clock.taking(5), range(2))]), 100, nothing
    )
    assert (tally.operations, tally.items, tally.checked, tally.errors) == (5, 5, 5, 0)
    assert tally.elapsed_ns == tally.busy_ns == 40
    assert (tally.ended_by, tally.void, tally.first_error, tally.bulk) == ("count", None, None, False)
    assert percentiles([tally.latency.encode()])["max"] == 10


def test_weights_are_what_the_throughput_counts(clock: Clock) -> None:
    tally = measure(iter([operations(clock.taking(1), range(3), weights=[3, 30, 300])]), FOREVER, nothing)
    assert (tally.operations, tally.items) == (3, 333)


def test_weights_of_operations_that_the_budget_left_out_do_not_count(clock: Clock) -> None:
    tally = measure(iter([operations(clock.taking(10), range(3), weights=[3, 30, 300])]), 15, nothing)
    assert (tally.operations, tally.items, tally.ended_by) == (2, 33, "budget")


def test_errors_are_operations_and_latencies_and_not_items() -> None:
    tally = measure(iter([operations(failing_at(1, 3), range(5))]), FOREVER, nothing)
    assert (tally.operations, tally.items, tally.errors) == (5, 3, 2)
    assert tally.first_error == "OSError: no 1"
    assert int(tally.latency.counts.sum()) == 5


def test_the_weight_of_an_error_is_no_item() -> None:
    tally = measure(iter([operations(failing_at(1), range(3), weights=[3, 30, 300])]), FOREVER, nothing)
    assert (tally.operations, tally.items, tally.errors) == (3, 303, 1)


def test_the_first_error_is_that_of_the_first_slice_that_had_one() -> None:
    slices = [operations(failing_at(), [1]), operations(failing_at(2), [2]), operations(failing_at(3), [3])]
    tally = measure(iter(slices), FOREVER, nothing)
    assert (tally.errors, tally.first_error) == (2, "OSError: no 2")


def test_a_check_gets_one_answer_for_each_operation_done() -> None:
    seen: list[Any] = []

    def check(answers: Sequence[Any]) -> int:
        seen.extend(answers)
        return 40

    tally = measure(iter([operations(failing_at(1), range(3), check)]), FOREVER, nothing)
    assert seen == [0, Failure("OSError: no 1"), 2]
    assert tally.checked == 40


def test_the_harness_is_the_difference_of_elapsed_and_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, reading=7)
    tally = measure(iter([operations(clock.taking(100), range(3))] * 2), FOREVER, nothing)
    # Entering and leaving a transaction, though there is none, is a reading of the clock each.
    assert tally.busy_ns == 2 * (3 * 107 + 2 * 7)
    assert tally.elapsed_ns == 2 * (3 * 114 + 3 * 7)


def test_latencies_are_kept_apart_by_kind_and_together(clock: Clock) -> None:
    slices = (
        Operations(lambda _: repeat(clock.let_pass), times, len, kinds=kinds)
        for times, kinds in (([100, 7, 100, 8], ["get", "put", "get", "put"]), ([9], ["put"]))
    )
    tally = measure(slices, FOREVER, nothing)
    kinds = {kind: percentiles([recorder.encode()]) for kind, recorder in tally.by_kind.items()}
    assert {kind: (found["p50"], found["max"]) for kind, found in kinds.items()} == {"get": (100, 100), "put": (8, 9)}
    assert [int(tally.by_kind[kind].counts.sum()) for kind in ("get", "put")] == [2, 3]
    assert int(tally.latency.counts.sum()) == 5


def test_without_kinds_there_are_no_latencies_by_kind(clock: Clock) -> None:
    assert measure(iter([operations(clock.taking(1), range(3))]), FOREVER, nothing).by_kind == {}


# -- bulk -------------------------------------------------------------------------------------------------


def bulk(call: Callable[[Any], Any], slices: list[list[int]], check: Any = lambda answer, taken: taken) -> Bulk:
    return Bulk(call, iter(slices), 3, check)


def test_a_bulk_phase_is_one_operation_of_all_its_items_and_has_no_latency(clock: Clock) -> None:
    def call(items: Any) -> int:
        clock.let_pass(1_000)
        return sum(items)

    answers: list[tuple[Any, int]] = []

    def check(answer: Any, taken: int) -> int:
        answers.append((answer, taken))
        return 17

    tally = measure(iter([bulk(call, [[1, 2], [3]], check)]), FOREVER, nothing)
    assert (tally.operations, tally.items, tally.checked, tally.bulk) == (1, 9, 17, True)
    assert tally.elapsed_ns == tally.busy_ns == 1_000
    assert tally.latency.encode() is None
    assert answers == [(6, 3)]


def test_a_bulk_phase_that_raised_is_an_error_of_no_items_and_is_not_checked() -> None:
    def call(items: Any) -> int:
        raise OSError("disk full")

    def check(answer: Any, taken: int) -> int:
        raise AssertionError("there is no answer to check")

    tally = measure(iter([bulk(call, [[1, 2]], check)]), FOREVER, nothing)
    assert (tally.operations, tally.items, tally.errors, tally.checked) == (1, 0, 1, 0)
    assert tally.first_error == "OSError: disk full"


def test_a_bulk_phase_out_of_time_counts_what_it_took(clock: Clock) -> None:
    def call(items: Any) -> None:
        for _ in items:
            clock.let_pass(1)

    tally = measure(iter([bulk(call, [list(range(1_000))])]), 300, nothing)
    assert (tally.items, tally.checked, tally.ended_by) == (3 * 512, 512, "budget")


# -- wrong answers ----------------------------------------------------------------------------------------


def wrong(answers: Sequence[Any]) -> int:
    raise Wrong("got 1, expected 2")


def test_a_wrong_answer_voids_the_phase_and_ends_it() -> None:
    called: list[int] = []
    slices = iter(
        [operations(called.append, [1]), operations(called.append, [2], wrong), operations(called.append, [3])]
    )
    tally = measure(slices, FOREVER, nothing)
    assert tally.void == "got 1, expected 2"
    assert called == [1, 2]


def test_a_wrong_answer_of_a_bulk_phase_voids_it() -> None:
    tally = measure(iter([bulk(sum, [[1]], lambda answer, taken: wrong([answer]))]), FOREVER, nothing)
    assert tally.void == "got 1, expected 2"


# -- budget -----------------------------------------------------------------------------------------------


def test_the_budget_is_that_of_all_slices_together(clock: Clock) -> None:
    slices = iter([operations(clock.taking(10), range(3)) for _ in range(3)])
    tally = measure(slices, 45, nothing)
    assert (tally.operations, tally.elapsed_ns, tally.ended_by) == (5, 50, "budget")
    assert len(list(slices)) == 1, "a slice was built for nothing"


def test_what_happens_between_slices_costs_no_budget(clock: Clock) -> None:
    def check(answers: Sequence[Any]) -> int:
        clock.let_pass(10**9)
        return len(answers)

    def slices() -> Iterator[Operations | Bulk]:
        for _ in range(3):
            clock.let_pass(10**9)
            yield operations(clock.taking(10), range(3), check)

    tally = measure(slices(), 90, nothing)
    assert (tally.operations, tally.elapsed_ns) == (9, 90)


def test_answers_that_came_before_the_budget_ended_it_are_checked(clock: Clock) -> None:
    assert measure(iter([operations(clock.taking(10), range(9), wrong)]), 25, nothing).void is not None


def test_a_phase_whose_operations_are_all_done_ended_by_count(clock: Clock) -> None:
    tally = measure(iter([operations(clock.taking(10), range(2))]), 15, nothing)
    assert tally.operations == 2
    assert tally.ended_by == "count"


# -- around the measuring ---------------------------------------------------------------------------------


def test_ready_is_called_once_when_the_first_slice_is_built_and_nothing_is_done() -> None:
    events: list[str] = []

    def slices() -> Iterator[Operations | Bulk]:
        for number in range(2):
            events.append(f"built {number}")
            yield operations(lambda _: events.append("done"), [0])

    measure(slices(), FOREVER, lambda: events.append("ready"))
    assert events == ["built 0", "ready", "done", "built 1", "done"]


def test_a_share_with_nothing_in_it_is_ready_all_the_same() -> None:
    events: list[str] = []
    tally = measure(iter(()), FOREVER, lambda: events.append("ready"))
    assert events == ["ready"]
    assert (tally.operations, tally.elapsed_ns, tally.ended_by) == (0, 0, "count")


def test_garbage_collection_is_off_while_it_measures() -> None:
    on: list[bool] = []
    assert gc.isenabled()
    measure(iter([operations(lambda _: on.append(gc.isenabled()), [0])]), FOREVER, nothing)
    assert on == [False]
    assert gc.isenabled()


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize("where", ["check", "operation", "ready", "building"])
def test_garbage_collection_is_on_again_after_an_exception(where: str) -> None:
    error = MemoryError()

    def slices() -> Iterator[Operations | Bulk]:
        yield operations(
            raising(error) if where == "operation" else str, [0], raising(error) if where == "check" else len
        )
        if where == "building":
            raise error

    with pytest.raises(MemoryError):
        measure(slices(), FOREVER, raising(error) if where == "ready" else nothing)
    assert gc.isenabled()


# -- several clients --------------------------------------------------------------------------------------


def test_merging_adds_what_adds_up_and_keeps_the_longest_time() -> None:
    one = Tally(operations=2, items=6, elapsed_ns=100, busy_ns=90, checked=2)
    other = Tally(operations=3, items=9, elapsed_ns=70, busy_ns=60, errors=1, checked=3, first_error="x", bulk=True)
    other.ended_by, other.void = "budget", "wrong"
    one.latency.add([5])
    other.latency.add([7, 7])
    other.by_kind = {"get": Recorder()}
    other.by_kind["get"].add([7])
    one.merge(other)
    one.merge(Tally(by_kind=dict(other.by_kind)))
    assert int(one.by_kind["get"].counts.sum()) == 2
    assert (one.operations, one.items, one.errors, one.checked) == (5, 15, 1, 5)
    assert (one.elapsed_ns, one.busy_ns) == (100, 150)
    assert (one.ended_by, one.first_error, one.void, one.bulk) == ("budget", "x", "wrong", True)
    assert int(one.latency.counts.sum()) == 3
    one.merge(Tally())
    assert (one.ended_by, one.first_error, one.void) == ("budget", "x", "wrong")
