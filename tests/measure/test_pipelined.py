"""Tests the loop that has many operations in flight: how many, when each begins, and what is counted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns, sleep
from typing import Any

import numpy as np
import pytest

from dyno.contracts.histogram import curve
from dyno.contracts.model import Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure, Operations, RanInFlight, Work
from dyno.measure.driver import measure
from dyno.measure.pipelined_loop import run_pipelined

FAR = 1 << 62


@dataclass
class Way:
    """Engine whose operations return their argument. They end one by one, the latest first."""

    under_way: list[tuple[int, Any]] = field(default_factory=list)
    most: int = 0
    begun: list[Any] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    stalled: set[Any] = field(default_factory=set)
    """Arguments of operations that stall for 0.2 s, with all others."""

    def begin(self, place: int, argument: Any) -> None:
        assert place not in [busy for busy, _ in self.under_way]
        self.under_way.append((place, argument))
        self.begun.append(argument)
        self.moments.append(perf_counter_ns())
        self.most = max(self.most, len(self.under_way))

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        if not self.under_way:
            sleep(min(wait_ns, 10**7) / 1e9)
            return ()
        place, argument = self.under_way.pop()
        if argument in self.stalled:
            sleep(0.2)
        return [(place, argument)]


def never(now: int) -> bool:
    return False


def failure(error: Exception) -> Failure:
    return Failure.from_error(error)


@pytest.mark.claim(
    "With many operations in flight, there are as many as requested, and each waits for a place or its time"
)
@pytest.mark.parametrize("places", [1, 3, 1000])
def test_operations_in_flight_are_as_many_as_allowed(places: int) -> None:
    way = Way()
    seen = run_pipelined(way, places, range(50), None, FAR, never, failure)
    assert way.most == min(places, 50)
    assert seen.answers == list(range(50)) == way.begun


def test_answers_match_arguments_in_any_completion_order() -> None:
    seen = run_pipelined(Way(), 8, "abcdefghijklmnop", None, FAR, never, failure)
    assert seen.answers == list("abcdefghijklmnop")
    assert all(start <= end for start, end in zip(*seen.stamps, strict=True))


@pytest.mark.claim(
    "With many operations in flight, there are as many as requested, and each waits for a place or its time"
)
def test_operations_begin_between_due_time_and_deadline() -> None:
    way, now = Way(), perf_counter_ns()
    due = [now + at * 10**7 for at in range(10)]
    seen = run_pipelined(way, 4, range(10), due, due[5], never, failure)
    assert seen.answers == way.begun == [0, 1, 2, 3, 4, 5][: len(way.begun)]
    assert way.begun and all(begun >= wanted for begun, wanted in zip(way.moments, due, strict=False))


@pytest.mark.claim("A rate of few operations counts as reached if all that were due were done")
def test_operation_due_at_deadline_begins_despite_late_wakeup() -> None:
    now = perf_counter_ns()
    due = [now + 10**7, now + 2 * 10**7, now + 3 * 10**7]
    assert run_pipelined(Way(), 3, range(3), due, due[1], never, failure).answers == [0, 1]


def test_operation_without_free_place_by_deadline_is_skipped() -> None:
    now = perf_counter_ns()
    # The first operation occupies the only place for 0.2 s.
    assert run_pipelined(Way(stalled={0}), 1, range(2), [now, now + 1], now + 10**8, never, failure).answers == [0]


@pytest.mark.parametrize("rate", [20.0, 200.0])
def test_low_rate_runs_every_operation_due_in_duration(rate: float) -> None:
    way = Way()
    pace = Pace(rate=rate, duration_ns=10**8 + 10**7)
    tally = measure(lambda number: slices(way, [100], places=100), pace, lambda: None)
    assert tally.operations == tally.due == int(rate * 0.11)
    assert tally.ended_by == "duration"


@pytest.mark.claim("Operations that raise are counted, but not as work")
def test_latencies_exclude_failed_operations() -> None:
    class Refusing(Way):
        def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
            return [(place, OSError("no") if of % 2 else of) for place, of in super().ended(wait_ns)]

    def work(number: int) -> Iterator[Work]:
        yield Operations(lambda _: (), range(8), len, kinds=["even", "odd"] * 4, many=Refusing(), places=2)

    tally = measure(work, Pace(rate=10_000.0), lambda: None)
    assert (tally.operations, tally.items, tally.errors) == (8, 4, 4)
    assert [int(one.counts.sum()) for one in (tally.latency, tally.response or tally.latency)] == [4, 4]
    assert {kind: int(own.counts.sum()) for kind, own in tally.by_kind.items()} == {"even": 4, "odd": 0}


def test_stopped_loop_waits_for_operations_in_flight() -> None:
    way = Way()
    seen = run_pipelined(way, 5, range(100), None, FAR, lambda now: len(way.begun) >= 20, failure)
    assert way.under_way == [] and seen.answers == list(range(len(way.begun)))
    assert 20 <= len(way.begun) < 30


def test_an_operation_that_raised_is_a_failure() -> None:
    class Raising(Way):
        def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
            return [(place, OSError("no") if of == 3 else of) for place, of in super().ended(wait_ns)]

    seen = run_pipelined(Raising(), 2, range(6), None, FAR, never, failure)
    assert [type(answer) for answer in seen.answers].count(Failure) == 1
    assert seen.answers[3] == Failure("OSError: no")


def test_completion_at_idle_place_is_an_error() -> None:
    class Inventing(Way):
        def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
            return [*super().ended(wait_ns), (2, "more")]

    with pytest.raises(ValueError, match="nothing was under way at place 2"):
        run_pipelined(Inventing(), 3, range(1), None, FAR, never, failure)


def slices(way: Any, counts: Sequence[int], places: int = 4, judged: list[Any] | None = None) -> Iterator[Work]:
    at = 0
    for count in counts:
        arguments = list(range(at, at + count))
        at += count

        def check(answers: Sequence[Any]) -> int:
            if judged is not None:
                judged.append(list(answers))
            return len(answers)

        yield Operations(lambda _: (), arguments, check, many=way, places=places)


def test_slices_run_together_and_are_checked_separately() -> None:
    way, judged = Way(), list[Any]()
    tally = measure(lambda number: slices(way, [3, 5, 2], 4, judged), Pace(), lambda: None)
    assert (tally.operations, tally.items, tally.checked, tally.errors) == (10, 10, 10, 0)
    assert judged == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9]]
    assert way.most == 4
    # The loop's own time excludes the calls and the library's waiting.
    assert 0 < tally.busy_ns <= tally.elapsed_ns


def test_duration_is_filled_with_repeated_rounds() -> None:
    way = Way()
    tally = measure(lambda number: slices(way, [500]), Pace(duration_ns=5 * 10**7, warmup_ns=10**7), lambda: None)
    assert tally.ended_by == "duration" and tally.operations > 500
    assert tally.checked >= tally.operations


@pytest.mark.claim(
    "With many operations in flight, there are as many as requested, and each waits for a place or its time"
)
def test_stall_raises_response_times_of_all_due_operations() -> None:
    """200 operations a second, one place, a stall of 0.2 s: each later operation waits 5 ms less."""
    way = Way(stalled={20})
    tally = measure(lambda number: slices(way, [100], places=1), Pace(rate=200.0), lambda: None)
    assert tally.response is not None and tally.late is not None
    assert tally.operations == 100
    # The stall delays one service time, and some thirty response times more.
    slow = sum(1 for ns in _values(tally.latency) if ns > 50_000_000)
    waited = sum(1 for ns in _values(tally.response) if ns > 50_000_000)
    assert waited >= slow + 20


def _values(recorder: Any) -> list[int]:
    """Returns the values of a hundred operations, except for the largest."""
    return [value for _, value in curve([recorder.encode()], range(1, 100))]


def test_failure_object_as_answer_voids_phase() -> None:
    class Lying(Way):
        def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
            return [(place, Failure("no")) for place, _ in super().ended(wait_ns)]

    tally = measure(lambda number: slices(Lying(), [3]), Pace(), lambda: None)
    assert tally.void is not None and "says of itself" in tally.void


def test_wrong_answer_voids_phase() -> None:
    def wrong(answers: Sequence[Any]) -> int:
        raise Wrong("another")

    def work(number: int) -> Iterator[Work]:
        yield Operations(lambda _: (), [1, 2], wrong, many=Way(), places=2)

    assert measure(work, Pace(), lambda: None).void == "another"


class Crowd:
    """Engine of operations that take different times, some of them long, which it sleeps through."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, Any]] = {}
        self._draws = random.Random(1)

    def begin(self, place: int, argument: Any) -> None:
        stall_ns = 60_000_000 * (self._draws.random() < 0.05)
        self._ends[place] = (perf_counter_ns() + round(self._draws.expovariate(1 / 5e6)) + stall_ns, argument)

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        sleep(max(min(end for end, _ in self._ends.values()) - perf_counter_ns(), 0) / 1e9)
        over = [place for place, (end, _) in self._ends.items() if end <= perf_counter_ns()]
        return [(place, self._ends.pop(place)[1]) for place in over]


class NativeCrowd(Crowd):
    """The same, with a loop of its own."""

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        return [str(argument) for argument in arguments]

    def run(
        self, places: int, arguments: Sequence[Any], due: Sequence[int] | None, deadline_ns: int, most_bytes: int
    ) -> RanInFlight:
        assert all(type(argument) is str for argument in arguments)
        done = run_pipelined(self, places, arguments, due, deadline_ns, never, failure)
        answers = [OSError("odd") if answer == "7" else answer for answer in done.answers]
        starts, ends = map(np.asarray, done.stamps)
        return RanInFlight(starts, ends, np.asarray(done.freed), perf_counter_ns(), False, lambda: answers)


@pytest.mark.serial
@pytest.mark.claim("A closed loop of N clients keeps N operations under way")
@pytest.mark.parametrize("kind", [Crowd, NativeCrowd])
def test_requests_in_flight_stay_as_many_as_requested(kind: type[Crowd]) -> None:
    """By Little's law. Batches end with fewer under way, in a time that is left out."""
    way = kind()
    tally = measure(lambda number: slices(way, [200], 8), Pace(duration_ns=10**9), lambda: None)
    tally.exclude_idle_time(1)
    assert tally.operations > 200 and tally.busy_ns <= tally.elapsed_ns
    latencies_ns = sum(value * count for value, count in tally.latency.pairs())
    assert latencies_ns / tally.elapsed_ns >= 0.97 * 8


def test_native_loop_in_flight_is_told_from_library() -> None:
    tally = measure(lambda number: slices(NativeCrowd(), [20], 4), Pace(), lambda: None)
    assert (tally.load, tally.operations, tally.errors) == ("native", 20, 1)
    assert tally.first_error == "OSError: odd"
    assert measure(lambda number: slices(Crowd(), [20], 4), Pace(), lambda: None).load == "library"
