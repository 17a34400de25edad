"""Guards the pipe of the results: nobody's line but the worker's is read, none twice and none out of its turn; what
comes in is bounded; and a clock that does not go as the listener's is found out, whatever keeps either from its turn.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from time import monotonic, monotonic_ns
from types import SimpleNamespace
from typing import Any

import pytest

from dyno.contracts.pipe import SealedLines, new_key
from dyno.measure.reporter import Reporter
from dyno.runner import trial, worker_channel
from dyno.runner.trial_report import TrialReport
from dyno.runner.worker_channel import ClockMismatch, ProtocolError, WorkerChannel

KEY = bytes(range(32))
SECOND = 10**9


def line(lines: SealedLines, *clocks: int, **event: object) -> bytes:
    return b"".join(lines.write(event, lambda: clocks))


def test_what_one_end_writes_the_other_reads() -> None:
    writer, reader = SealedLines(KEY), SealedLines(KEY)
    for number in range(3):
        written = line(writer, number, 7, text="a\n\udc80", number=number)
        assert reader.read(written) == ({"text": "a\n\udc80", "number": number}, [number, 7])


def test_keys_are_not_the_same_twice() -> None:
    assert len({new_key() for _ in range(100)}) == 100


def test_no_line_is_read_twice_or_out_of_its_turn_or_by_another_key() -> None:
    first, second = (line(writer, 1, number=n) for writer in [SealedLines(KEY)] for n in (1, 2))
    reader = SealedLines(KEY)
    reader.read(first)
    with pytest.raises(ValueError):
        reader.read(first)
    with pytest.raises(ValueError):
        SealedLines(KEY).read(second)
    with pytest.raises(ValueError):
        SealedLines(new_key()).read(first)


def test_a_line_in_which_anything_was_changed_is_not_read() -> None:
    written = line(SealedLines(KEY), 1, 2, items=5)
    SealedLines(KEY).read(written)
    for at in range(len(written)):
        changed = bytearray(written)
        changed[at] ^= 1
        with pytest.raises(ValueError):
            SealedLines(KEY).read(bytes(changed))


@pytest.mark.parametrize("event", [{"x": float("nan")}, {"x": object()}, {"x": "y" * (65 << 20)}])
def test_what_is_no_plain_json_or_too_long_is_not_written(event: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        SealedLines(KEY).write(event, lambda: (1,))


# -- hearing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        os.close(descriptor)


def heard(ears: WorkerChannel) -> list[dict[str, object]]:
    found = ears.listen(0)
    return [each.event for each in found or ()]


def test_lines_in_pieces_are_put_together(ends: tuple[int, int]) -> None:
    ears, lines = WorkerChannel(ends[0], KEY, monotonic_ns()), SealedLines(KEY)
    one, two, three = (line(lines, monotonic_ns(), n=n) for n in range(3))
    os.write(ends[1], one + two[:5])
    assert heard(ears) == [{"n": 0}]
    assert heard(ears) == []
    os.write(ends[1], two[5:] + three)
    assert heard(ears) == [{"n": 1}, {"n": 2}]


def test_what_has_no_end_is_not_kept(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_channel, "MOST_BYTES", 1 << 20)
    ears = WorkerChannel(ends[0], KEY, monotonic_ns())
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        for _ in range(1_000):
            os.write(ends[1], b"x" * 50_000)
            heard(ears)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_worker_s_events_are_heard_between_two_moments() -> None:
    reading, writing = os.pipe()
    begin = monotonic_ns()
    ears = WorkerChannel(reading, KEY, begin)
    with Reporter(writing, KEY) as teller:
        assert ears.listen(0) is None
        teller.tell("phase", phase="x")
        (found,) = ears.listen(0) or ()
    assert found.event == {"event": "phase", "phase": "x"}
    assert begin <= found.after_ns <= found.by_ns <= monotonic_ns()
    assert heard(ears) == [] and ears.over
    os.close(reading)


class World:
    """A listener whose clock is set by hand."""

    def __init__(self, ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000 * SECOND
        monkeypatch.setattr(worker_channel, "monotonic_ns", lambda: self.now)
        self._ears, self._lines, self._ends = WorkerChannel(ends[0], KEY, self.now), SealedLines(KEY), ends

    def passes(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    def looks(self) -> None:
        heard(self._ears)

    def told(self, *clocks: float) -> None:
        """An event with what the worker's clocks show, by how much they are off, in seconds."""
        os.write(self._ends[1], line(self._lines, *(self.now + int(off * SECOND) for off in clocks)))


@pytest.fixture
def world(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> World:
    return World(ends, monkeypatch)


def test_clocks_that_go_alike_are_right_however_late_the_listener_is(world: World) -> None:
    for late in (0.0, 0.05, 3.0, 600.0):
        world.told(0, 0, 0)
        world.passes(late)
        world.looks()


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("off", "how"), [(-0.3, "behind"), (0.3, "ahead")])
def test_one_of_the_clocks_that_is_off_is_found_out(world: World, number: int, off: float, how: str) -> None:
    world.passes(2)
    world.looks()
    shown = [0.0, 0.0, 0.0]
    shown[number] = off
    world.told(*shown)
    world.told(*shown)
    with pytest.raises(ClockMismatch, match=rf"0\.30 s {how} after 2\.00 s"):
        world.looks()


def test_one_line_that_was_held_up_is_forgiven(world: World) -> None:
    """The worker may have lost its core between looking at its clocks and telling."""
    for _ in range(3):
        world.passes(1)
        world.looks()
        world.told(-0.9)
        world.told(0)
        world.looks()


def test_a_clock_at_half_speed_is_found_out_in_a_long_trial(world: World) -> None:
    world.passes(300)
    world.told(0)
    world.looks()
    world.passes(1)
    world.looks()
    world.told(-0.5)
    world.looks()
    world.told(-0.5)
    with pytest.raises(ClockMismatch):
        world.looks()


def test_what_two_processes_and_two_clocks_are_apart_is_no_fault(world: World) -> None:
    for _ in range(100):
        world.passes(60)
        world.looks()
        # Losing the core between looking and telling, and a clock that is slewed by 500 parts in a million.
        world.told(-0.09, (world.now - 1_000 * SECOND) / SECOND * 500e-6)
        world.looks()


LAST: dict[str, Any] = {"event": "end", "outcome": "ok", "why": None, "resources": {}, "spent_ns": {}}


class Parting:
    """A worker that says its last word after it was listened to, and is gone when it is looked at; what it has left
    behind holds the pipe open."""

    def __init__(self, end: int) -> None:
        self._end, self._left = end, [line(SealedLines(KEY), monotonic_ns(), **LAST)]

    def poll(self) -> int:
        if self._left:
            os.write(self._end, self._left.pop())
        return 0


def test_the_last_word_of_a_worker_that_is_gone_is_heard(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "INTERVAL", 0.0)
    worker: Any = Parting(ends[1])
    watch: Any = SimpleNamespace(verdict=lambda: None, deadline=monotonic() + 60)
    story = TrialReport(on_phase=lambda phase: None, began_ns=monotonic_ns())
    assert trial._listen(worker, WorkerChannel(ends[0], KEY, monotonic_ns()), watch, story, 60.0) is None
    assert story.outcome == "ok"
