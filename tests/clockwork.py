"""Measuring loops for tests, and a fake clock for the Python loops. The clock moves when a test moves it, and by a
fixed time with each reading.
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
    """Returns the loop with this name. If the native loop was not built, skips the test, or with CI=true fails it."""
    if name == "native" and native() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{NATIVE_MISSING}, and CI must test it")
        pytest.skip(NATIVE_MISSING)
    return pick(name)


class Clock:
    """Replaces `now` and `sleep` of the Python loops. Each reading moves the clock by `reading` ns before it returns.

    A sleep returns `AWAKE_NS + late` ns too late: the loop asks to be woken `AWAKE_NS` before an operation is due.
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
        """Returns an operation that lasts `ns` and returns its argument, or `answer` if that is given."""

        def operation(argument: Any) -> Any:
            self.let_pass(ns)
            return argument if answer is None else answer

        return operation


def install(monkeypatch: pytest.MonkeyPatch, reading: int = 0, late: int = 0) -> Clock:
    clock = Clock(reading, late)
    # Freeze real time, which would otherwise end a fixed duration.
    for module in ("phase_limits", "warm_up"):
        monkeypatch.setattr(f"dyno.measure.{module}.monotonic_ns", lambda: 0)
    monkeypatch.setattr("dyno.measure.loop.now", clock)
    monkeypatch.setattr("dyno.measure.loop.sleep", clock.sleep)
    monkeypatch.setattr("dyno.measure.loop.now", clock)
    return clock
