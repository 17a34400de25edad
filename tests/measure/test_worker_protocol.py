"""Tests the worker's pipe: events arrive whole and in order, garbage and endless lines are errors, and a clock that
disagrees with the reader's is detected, however late either side gets a core.
"""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from time import monotonic, monotonic_ns
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dyno.contracts.declarations import InvalidValue
from dyno.contracts.decoded_types import Fact
from dyno.measure import worker_protocol
from dyno.measure.messages import PhaseAbsent, PhaseBegan, TrialFacts, WorkerEvent
from dyno.measure.worker_protocol import ClockMismatch, ProtocolError, Reporter, WorkerChannel
from dyno.runner import trial
from dyno.runner.trial_report import TrialReport

SECOND = 10**9


def line(*clocks: int, **event: object) -> bytes:
    return f"{','.join(map(str, clocks))} {json.dumps({'event': 'phase', 'phase': 'x', **event})}\n".encode()


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        os.close(descriptor)


def events(channel: WorkerChannel) -> list[WorkerEvent]:
    return [message.event for message in channel.read(0) or ()]


def test_event_arrives_unchanged_with_its_time_bounds() -> None:
    reading, writing = os.pipe()
    begin = monotonic_ns()
    channel = WorkerChannel(reading, begin)
    with Reporter(writing) as reporter:
        assert channel.read(0) is None
        reporter.report(PhaseAbsent("x", "a\n\udc80"))
        messages = channel.read(0)
        assert messages is not None
        (message,) = messages
    assert message.event == PhaseAbsent("x", "a\n\udc80")
    assert begin <= message.after_ns <= message.by_ns <= monotonic_ns()
    assert events(channel) == [] and channel.over
    os.close(reading)


@pytest.mark.parametrize("value", [float("nan"), object(), "y" * (65 << 20)], ids=["nan", "object", "too long"])
def test_unserialisable_or_oversized_event_is_refused(ends: tuple[int, int], value: object) -> None:
    with Reporter(os.dup(ends[1])) as reporter, pytest.raises(InvalidValue, match="can't report the event facts"):
        reporter.report(TrialFacts({"value": cast(Fact, value)}))
    assert WorkerChannel(ends[0], monotonic_ns()).read(0) is None


def test_lines_in_pieces_are_put_together(ends: tuple[int, int]) -> None:
    channel = WorkerChannel(ends[0], monotonic_ns())
    one, two, three = (line(monotonic_ns(), phase=str(n)) for n in range(3))
    os.write(ends[1], one + two[:5])
    assert events(channel) == [PhaseBegan("0")]
    assert events(channel) == []
    os.write(ends[1], two[5:] + three)
    assert events(channel) == [PhaseBegan("1"), PhaseBegan("2")]


@pytest.mark.claim("Garbage on the worker's pipe is not a result")
@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"hello\n",
        b"1 {}\n",
        b"1 [1]\n",
        b'x {"event": "check"}\n',
        b"1 " + b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b'1 {"event": "unknown"}\n',
        b'1 {"event": 1}\n',
        b'1 {"event": "phase"}\n',
        b'1 {"event": "phase", "phase": 1}\n',
        b'1 {"event": "sample", "sample": {"phase": "get"}, "check_ns": 0}\n',
        b'1 {"event": "check", "\\udc80": 1, "\\ud800": {}, "event": null}\n',
    ],
    ids=[
        "empty",
        "text",
        "no event",
        "list",
        "no clock",
        "nested",
        "bytes",
        "unknown event",
        "number",
        "missing field",
        "wrong type",
        "incomplete sample",
        "surrogates",
    ],
)
def test_anything_but_an_event_is_an_error(garbage: bytes) -> None:
    reading, writing = os.pipe()
    channel = WorkerChannel(reading, monotonic_ns())
    with os.fdopen(writing, "wb") as pipe, pytest.raises(ProtocolError):
        pipe.write(garbage[: 1 << 15] + b"\n")
        pipe.flush()
        events(channel)
    os.close(reading)


@pytest.mark.claim("Garbage on the worker's pipe is not a result")
def test_endless_line_is_refused_in_bounded_memory(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_protocol, "MOST_BYTES", 1 << 20)
    channel = WorkerChannel(ends[0], monotonic_ns())
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        for _ in range(1_000):
            os.write(ends[1], b"x" * 50_000)
            events(channel)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


# -- clocks ---------------------------------------------------------------------------------------------------------


class World:
    """A channel whose clock is set by hand."""

    def __init__(self, ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000 * SECOND
        monkeypatch.setattr(worker_protocol, "monotonic_ns", lambda: self.now)
        self._channel, self._ends = WorkerChannel(ends[0], self.now), ends

    def let_pass(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    def read(self) -> None:
        events(self._channel)

    def report(self, *clocks: float) -> None:
        """Writes an event. `clocks` are the seconds by which the worker's clocks are off."""
        os.write(self._ends[1], line(*(self.now + int(off * SECOND) for off in clocks)))


@pytest.fixture
def world(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> World:
    return World(ends, monkeypatch)


@pytest.mark.claim("A wrong clock in the worker measures nothing")
def test_correct_clock_is_accepted_by_late_reader(world: World) -> None:
    for late in (0.0, 0.05, 3.0, 600.0):
        world.report(0, 0, 0)
        world.let_pass(late)
        world.read()


@pytest.mark.claim("A wrong clock in the worker measures nothing")
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("off", "how"), [(-0.3, "behind"), (0.3, "ahead")])
def test_one_wrong_clock_is_detected(world: World, number: int, off: float, how: str) -> None:
    world.let_pass(2)
    world.read()
    shown = [0.0, 0.0, 0.0]
    shown[number] = off
    world.report(*shown)
    world.report(*shown)
    with pytest.raises(ClockMismatch, match=rf"0\.30 s {how} after 2\.00 s"):
        world.read()


def test_single_delayed_event_is_accepted(world: World) -> None:
    """The worker may have lost its core between reading its clocks and writing."""
    for _ in range(3):
        world.let_pass(1)
        world.read()
        world.report(-0.9)
        world.report(0)
        world.read()


def test_half_speed_clock_is_detected_in_long_trial(world: World) -> None:
    world.let_pass(300)
    world.report(0)
    world.read()
    world.let_pass(1)
    world.read()
    world.report(-0.5)
    world.read()
    world.report(-0.5)
    with pytest.raises(ClockMismatch):
        world.read()


def test_normal_clock_differences_are_accepted(world: World) -> None:
    for _ in range(100):
        world.let_pass(60)
        world.read()
        # The worker lost its core between reading and writing, and its clock is slewed by 500 parts in a million.
        world.report(-0.09, (world.now - 1_000 * SECOND) / SECOND * 500e-6)
        world.read()


LAST: dict[str, object] = {"event": "end", "outcome": "ok", "why": None, "resources": {}, "spent_ns": {}}


class EndingWorker:
    """Reports its outcome just before its end is noticed; another process holds its pipe open."""

    def __init__(self, end: int) -> None:
        self._end, self._left = end, [line(monotonic_ns(), **LAST)]

    def poll(self) -> int:
        if self._left:
            os.write(self._end, self._left.pop())
        return 0


def test_last_event_of_ended_worker_is_read(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "INTERVAL", 0.0)
    worker: Any = EndingWorker(ends[1])
    watch: Any = SimpleNamespace(verdict=lambda: None, deadline=monotonic() + 60)
    report = TrialReport(on_phase=lambda phase: None, began_ns=monotonic_ns())
    assert trial._listen(worker, WorkerChannel(ends[0], monotonic_ns()), watch, report, 60.0) is None
    assert report.outcome == "ok"
