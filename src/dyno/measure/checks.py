"""Runs a suite's checks of answers and adds up what they compared and how long they took. No figure is timed here."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from dyno.contracts.model import Wrong
from dyno.measure.tally import Tally

Announce = Callable[[], object]
"""Called before a check that may take long, so that a trial which times out in it can say so."""


class Checks:
    """The checks of one client in one phase."""

    def __init__(self, tally: Tally, announce: Announce) -> None:
        self._tally, self._announce = tally, announce

    def run(self, check: Callable[..., int], *arguments: Any) -> None:
        """Raises `Wrong`."""
        begin = monotonic_ns()
        try:
            self._tally.checked += judged(check, *arguments)
        finally:
            self._tally.check_ns += monotonic_ns() - begin

    def run_announced(self, check: Callable[..., int], *arguments: Any) -> None:
        """The same for the answer of a bulk call, which is checked whole. Announced once in a phase: further rounds
        have answers of the same size."""
        if not self._tally.check_ns:
            self._announce()
        self.run(check, *arguments)


def judged(check: Callable[..., int], *arguments: Any) -> int:
    """What a check of the arguments compared. Raises `Wrong`, also for an answer whose shape it can't look at."""
    try:
        return check(*arguments)
    except (Wrong, MemoryError):
        raise
    except Exception as error:
        raise Wrong(f"an answer that can't be checked: {type(error).__name__}: {error}") from error
