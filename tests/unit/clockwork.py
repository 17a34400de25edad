"""A clock for tests of the timed loops: it stands still but for what a test lets pass, and what a reading costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


class Clock:
    """In place of `dyno.run.loop.now`; each reading takes `reading` ns, which are over when it returns."""

    def __init__(self, reading: int = 0) -> None:
        self.at, self.reading, self.readings = 1_000_000, reading, 0

    def __call__(self) -> int:
        self.at += self.reading
        self.readings += 1
        return self.at

    def let_pass(self, ns: int) -> None:
        self.at += ns

    def taking(self, ns: int, answer: Any = None) -> Callable[[Any], Any]:
        """An operation that lasts so long and returns its argument, or `answer`."""

        def operation(argument: Any) -> Any:
            self.let_pass(ns)
            return argument if answer is None else answer

        return operation


def install(monkeypatch: pytest.MonkeyPatch, reading: int = 0) -> Clock:
    clock = Clock(reading)
    monkeypatch.setattr("dyno.run.loop.now", clock)
    return clock
