"""Calls of users' functions: equality of answers, slices, event loops, and the record of answers."""

from __future__ import annotations

import asyncio
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dyno.contracts import equality
from dyno.contracts.model import Refused, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure
from dyno.measure.driver import measure
from dyno.suites.calls.answers import digest, same
from dyno.suites.calls.functions import Calls, check_finished, describe_exception, explain_unmeasurable, is_async
from dyno.suites.calls.record import CallRecord, facts

Pair = namedtuple("Pair", "one two")
Other = namedtuple("Other", "one two")


@dataclass
class Point:
    x: float


class Color(Enum):
    RED = 1
    BLUE = 2


PLAIN: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 10**5000, 0.0, -0.0, 1.0, float("nan"), float("inf"), "", "1", b"1", b""),
    *((), (1,), [], [1], [1, [2]], [[1], 2], ["1"], ["a", "bc"], ["ab", "c"], {}, {"a": 1}, {"a": 1.0}, {1: "a"}),
    *(np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.zeros(0), np.array([1, 2], np.int32)),
)
FURTHER: Sequence[Any] = (
    *(1j, bytearray(b"1"), {1}, {1, 2}, frozenset({1}), range(3), Decimal(1), Decimal("1.0"), datetime(2026, 1, 1)),
    *(Pair(1, 2), Other(1, 2), Point(1.0), Point(2.0), Color.RED, Color.BLUE, np.float64(1), np.int64(1)),
)


def test_each_value_is_the_same_as_itself() -> None:
    for value in (*PLAIN, *FURTHER):
        assert same(value, value) and same([value], [value])
        assert not same(value, [value]) and not same(object(), object())


def test_different_values_are_not_the_same() -> None:
    assert [(one, two) for one, two in combinations([*PLAIN, *FURTHER], 2) if same(one, two)] == []


def test_answer_equality_matches_equality_of_engine_answers() -> None:
    pairs = [(one, two) for one in PLAIN for two in PLAIN if equality.same(one, two) != same(one, two)]
    assert pairs == []


def test_order_of_dicts_and_sets_is_ignored() -> None:
    assert same({"a": 1, "b": [2]}, {"b": [2], "a": 1}) and same({8, 16, 0}, {0, 16, 8})
    assert not same({"a": 1}, {"a": 2})


def test_incomparable_values_are_unequal() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (object(), [object()], {"a": object()}, {object()}, np.array([object()]), endless, lambda: 0):
        assert digest(value) is None and not same(value, value)


# -- slices -------------------------------------------------------------------------------------------------------


def counted(positions: Sequence[int], arguments: Sequence[Any], answers: Sequence[Any]) -> int:
    return len(answers)


def run(calls: Calls, seconds: float = 0.02) -> Any:
    return measure(lambda _: calls.slices(), Pace(budget_ns=int(seconds * 1e9)), lambda: None)


def test_arguments_are_passed_in_turn_and_slices_grow() -> None:
    given: list[Any] = []
    sizes: list[int] = []

    def judge(positions: Sequence[int], arguments: Sequence[Any], answers: Sequence[Any]) -> int:
        assert [f"argument {at}" for at in positions] == list(arguments)
        sizes.append(len(answers))
        return len(answers)

    tally = run(Calls(given.append, ["argument 0", "argument 1", "argument 2"], judge))
    assert given[:7] == [f"argument {at % 3}" for at in range(7)]
    assert tally.void is None and tally.operations == len(given) == sum(sizes) == tally.checked
    assert sizes[:3] == [1, 2, 4] and max(sizes) > 8


def test_no_argument_is_passed_without_argument_list() -> None:
    assert run(Calls(dict, None, counted)).operations > 100


def test_setup_runs_before_each_call() -> None:
    log: list[Any] = []

    def setup(argument: int) -> int | None:
        log.append("set up")
        return argument * 10 if argument == 1 else None

    tally = run(Calls(log.append, [1, 2], counted, setup))
    assert tally.operations > 5
    assert log[:6] == ["set up", 10, "set up", 2, "set up", 10]


def test_setup_with_a_rate_is_refused() -> None:
    with pytest.raises(Refused, match="no rate"):
        measure(lambda _: Calls(abs, [1], counted, abs).slices(), Pace(rate=1e4, duration_ns=10**7), lambda: None)


def test_failing_setup_voids_phase_naming_error_and_line() -> None:
    def setup() -> None:
        raise OSError("no space")

    void = run(Calls(dict, None, counted, setup)).void
    assert void is not None and "setup raised OSError: no space" in void and "test_function_calls.py, line" in void


# -- coroutines ---------------------------------------------------------------------------------------------------


async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@pytest.fixture(autouse=True)
def no_event_loop() -> Iterator[None]:
    """Hides the event loop that tests of pages leave in this thread: coroutines run on a loop of their own."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.mark.serial
@pytest.mark.parametrize("places", [1, 20])
def test_coroutine_throughput_matches_calls_in_flight(places: int) -> None:
    calls = Calls(nap, [0.001], counted, inflight=places)
    tally = run(calls, 0.1)
    calls.close()
    assert tally.void is None and not tally.errors
    assert 0.1 < tally.operations / (100 * places) < 1.1


@pytest.mark.serial
def test_coroutines_keep_a_rate() -> None:
    calls = Calls(nap, [0.001], counted, inflight=20)
    tally = measure(lambda _: calls.slices(), Pace(rate=1_000, duration_ns=200_000_000), lambda: None)
    calls.close()
    assert 150 <= tally.operations <= 205 and tally.response is not None


def test_coroutine_errors_are_counted_despite_leftover_tasks() -> None:
    async def fails(number: int) -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(1_000))
        if number == 1:
            raise ValueError("one")
        if number == 2:
            raise asyncio.CancelledError

    calls = Calls(fails, [0, 1, 2], counted, inflight=3)
    tally = run(calls)
    calls.close()
    assert 0.5 < tally.errors / tally.operations < 0.8
    assert tally.first_error in ("ValueError: one", "RuntimeError: the call was cancelled")


class Instance:
    async def __call__(self) -> None:
        pass


def generator() -> Any:
    yield 1


def test_unrun_generators_and_coroutines_are_detected() -> None:
    assert is_async(nap) and is_async(Instance()) and not is_async(dict) and not is_async(generator)
    assert explain_unmeasurable(nap) is None and explain_unmeasurable(dict) is None
    assert "only creates a generator" in str(explain_unmeasurable(generator))
    unrun: list[Callable[[], Any]] = [lambda: nap(1), generator]
    for create in unrun:
        with pytest.raises(Wrong, match="only creates a"):
            check_finished([1, create()])
    check_finished([1, None, Failure("x")])


def test_exception_is_described_in_one_line_with_place() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        assert describe_exception(error).startswith(
            "ValueError: two lines ("
        ) and "test_function_calls.py" in describe_exception(error)


# -- records ------------------------------------------------------------------------------------------------------


def recorded(*answers: Any) -> CallRecord:
    record = CallRecord(len(answers))
    record.add(range(len(answers)), range(len(answers)), answers)
    return record


def test_the_same_answers_have_the_same_chain() -> None:
    one, other = recorded(1, "a", [2], None, 5.0), recorded(1, "a", [2], None, 5.0)
    assert one.chain() == other.chain() and [link.split(":")[0] for link in one.chain().split()] == [
        "1",
        "2",
        "4",
        "5",
    ]
    assert recorded(1, "a", [2], None, 5).chain().split()[:3] == one.chain().split()[:3]
    assert recorded(1, "a", [2], None, 5).chain() != one.chain()
    assert recorded(1, Failure("x"), 3).chain().split() == recorded(1).chain().split()
    assert CallRecord.of_json(one.to_json()).chain() == one.chain()


@pytest.mark.parametrize(("first", "then"), [(1, 2), (1, True), ([1], [1.0]), (0.0, -0.0), ("a" * 200, "b" * 200)])
def test_another_answer_to_the_same_argument_is_wrong(first: Any, then: Any) -> None:
    record = recorded(first)
    assert record.add([0], ["x"], [first]) == 1
    with pytest.raises(Wrong, match=r"argument 1 \('x'\) was answered"):
        record.add([0], ["x"], [then])


def test_disagreeing_clients_raise_wrong_with_both_answers() -> None:
    one, other = recorded(1, 2), recorded(1, 3)
    with pytest.raises(Wrong, match="argument 2 was answered 2 to one client, and 3 to another"):
        CallRecord.merge_records([one, other])
    half = CallRecord(2)
    half.add([1], [0], [2])
    assert CallRecord.merge_records([half, recorded(1, Failure("x"))]).chain() == recorded(1, 2).chain()


def test_a_difference_between_functions_is_described(tmp_path: Any) -> None:
    home = tmp_path / "answers" / "0"
    assert "answers_differ" not in facts(recorded(1, 2), home, "a:f", ["x", "y"])
    assert "answers_differ" not in facts(recorded(1, 2), home, "a:g", ["x", "y"])
    found = facts(recorded(1, 3), home, "a:h", ["x", "y"])
    assert found["answers_differ"] == "argument 2 ('y'): a:h answered 3, and a:f 2"
    assert facts(recorded(object()), home, "a:f", [1]) == {"answers_unchecked": True}
