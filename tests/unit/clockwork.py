"""The measuring loops for tests, and a clock for the Python loops that only moves when a test moves it, or by the
cost of a reading.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from dyno.measure.loop import AWAKE_NS, Loop, native, pick

NATIVE_MISSING = "the native loop is not built: make setup, with a Rust toolchain (cargo) there"
both_loops = pytest.mark.parametrize("loop", ["python", "native"])


def the_loop(name: str) -> Loop:
    """The loop of that name. If the native loop was not built, skips the test; with CI=true fails it."""
    if name == "native" and native() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{NATIVE_MISSING}, and CI must test it")
        pytest.skip(NATIVE_MISSING)
    return pick(name)


class Clock:
    """Replaces `now` and `sleep` of the Python loops. Each reading takes `reading` ns, which have passed when it
    returns.

    A sleep wakes late by what the loop allows for, so that it ends when an operation is due, and by `late` more.
    """

    def __init__(self, reading: int = 0, late: int = 0) -> None:
        self.at, self.reading, self.readings, self.late = 1_000_000, reading, 0, late
        self.sleeps = 0

    def __call__(self) -> int:
        self.at += self.reading
        self.readings += 1
        return self.at

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.at += round(seconds * 1e9) + AWAKE_NS + self.late

    def let_pass(self, ns: int) -> None:
        self.at += ns

    def taking(self, ns: int, answer: Any = None) -> Callable[[Any], Any]:
        """Returns an operation that lasts so long and returns its argument, or `answer`."""

        def operation(argument: Any) -> Any:
            self.let_pass(ns)
            return argument if answer is None else answer

        return operation


def install(monkeypatch: pytest.MonkeyPatch, reading: int = 0, late: int = 0) -> Clock:
    clock = Clock(reading, late)
    # Real time, which bounds a duration and its pauses, stands still.
    monkeypatch.setattr("dyno.measure.driver.monotonic_ns", lambda: 0)
    monkeypatch.setattr("dyno.measure.loop.now", clock)
    monkeypatch.setattr("dyno.measure.loop.sleep", clock.sleep)
    monkeypatch.setattr("dyno.measure.loop.now", clock)
    return clock
