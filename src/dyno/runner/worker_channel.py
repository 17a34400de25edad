"""The run's end of a worker's pipe: what the worker says, when it said it, and whether its clocks go as ours does.

Nobody but the worker is believed (`dyno.contracts.pipe`). What an event means is not known here.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from dyno.contracts.pipe import MOST_BYTES, SealedLines

FOREIGN = "something other than Dyno wrote on the pipe of the results"
CHUNK_BYTES = 1 << 16
SLACK_NS = 100_000_000
"""By which a worker's clock may seem to be behind, or ahead."""
SLEWED = 0.001
"""Of the time since the trial began, what may come on top: the kernel's clock is slewed, the processor's counter is
not."""


class ProtocolError(Exception):
    """What came through the pipe can't be what the worker has to say; says why."""


class ClockMismatch(Exception):
    """A clock of the worker's does not go as this process's does; says how."""


@dataclass(frozen=True)
class WorkerMessage:
    """What the worker said, and between which two moments on this process's clock, in ns."""

    event: dict[str, Any]
    after_ns: int
    by_ns: int


class WorkerChannel:
    """Listens on the reading end of the pipe of a trial that began at a moment on this process's clock."""

    def __init__(self, pipe: int, key: bytes, began_ns: int) -> None:
        self._pipe, self._lines, self._rest = pipe, SealedLines(key), bytearray()
        self._began_ns = self._empty_ns = began_ns
        self._was_behind = False
        self.over = False
        """Whether nobody can write any more."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(pipe, selectors.EVENT_READ)

    def close(self) -> None:
        self._selector.close()

    def listen(self, seconds: float) -> Iterator[WorkerMessage] | None:
        """What comes within so many seconds; None if nothing does. Raises Garbled, and Askew."""
        now = monotonic_ns()
        if not self._selector.select(0):
            if not self._rest:
                # What is heard next was said after this.
                self._empty_ns = now
            if not self._selector.select(seconds):
                return None
        return self._heard(os.read(self._pipe, CHUNK_BYTES))

    def _heard(self, chunk: bytes) -> Iterator[WorkerMessage]:
        by_ns = monotonic_ns()
        first, *others = chunk.split(b"\n")
        self._rest += first
        for line in others:
            yield self._event(bytes(self._rest) + b"\n", by_ns)
            self._rest = bytearray(line)
        self.over = not chunk
        if len(self._rest) > MOST_BYTES:
            raise ProtocolError(FOREIGN)

    def _event(self, line: bytes, by_ns: int) -> WorkerMessage:
        try:
            event, clocks = self._lines.read(line)
        except (ValueError, RecursionError):
            raise ProtocolError(FOREIGN) from None
        heard = WorkerMessage(event, self._empty_ns, by_ns)
        self._compare(clocks, heard)
        return heard

    def _compare(self, clocks: list[int], heard: WorkerMessage) -> None:
        """All processes of a machine have one monotonic clock: what it showed when the worker looked lies between the
        two moments. Raises Askew.

        But the worker may have lost its core between looking and telling. So once is not enough to be behind.
        """
        passed = heard.by_ns - self._began_ns
        slack = SLACK_NS + int(passed * SLEWED)
        ahead, behind = max(clocks) - heard.by_ns, heard.after_ns - min(clocks)
        if ahead > slack:
            raise ClockMismatch(f"{ahead / 1e9:.2f} s ahead after {passed / 1e9:.2f} s")
        if behind > slack and self._was_behind:
            raise ClockMismatch(f"{behind / 1e9:.2f} s behind after {passed / 1e9:.2f} s")
        self._was_behind = behind > slack
