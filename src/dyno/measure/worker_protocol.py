"""The pipe through which a worker reports its trial: one line of JSON per event, preceded by the readings of the
worker's clocks.

The worker writes with a `Reporter`, and the run's process reads with a `WorkerChannel`. The protocol guards against
mistakes: garbage, a closed pipe, a clock that runs wrong. It does not guard against an engine that forges events.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic_ns

from dyno.contracts.declarations import InvalidValue
from dyno.measure.messages import Fields, MessageError, WorkerEvent, convert_event, encode

MOST_BYTES = 64 << 20
"""Maximum length of a line."""
LATE_SIGNAL = signal.SIGUSR1
"""Asks a worker for the event `late`, which says what late clients wait for."""
FOREIGN = "something other than Dyno wrote to the worker's pipe"
CHUNK_BYTES = 1 << 16
SLACK_NS = 100_000_000
"""Tolerated difference between the worker's clocks and the reader's."""
SLEWED = 0.001
"""Share of the trial's time that is added to the slack: the kernel slews its clock, but not the processor's
counter."""


class ProtocolError(Exception):
    """Malformed event from a worker."""


class ClockMismatch(Exception):
    """A worker's clock disagrees with this process's."""


@dataclass(frozen=True)
class WorkerMessage:
    """An event, and the two moments between which the worker wrote it, in ns on the reader's monotonic clock."""

    event: WorkerEvent
    after_ns: int
    by_ns: int


class Reporter:
    """The worker's end of the pipe. It is closed at the end of the block."""

    def __init__(self, descriptor: int) -> None:
        # Processes that the engine starts must not inherit the pipe: they could hold it open after this process has
        # ended.
        os.set_inheritable(descriptor, False)
        self._pipe = os.fdopen(descriptor, "wb")
        self.clocks: Callable[[], tuple[int, ...]] = lambda: (monotonic_ns(),)
        """Reads the clocks that measure, each in ns on the scale of the monotonic clock."""

    def report(self, event: WorkerEvent) -> None:
        """Writes an event. Raises InvalidValue if it is too long or not plain JSON."""
        try:
            body = encode(event)
            if len(body) > MOST_BYTES:
                raise ValueError(f"it is {len(body):,} bytes long, and {MOST_BYTES:,} is the most")
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(f"can't report the event {event.__struct_config__.tag}: {error}") from None
        # Read the clocks last, after the slow encoding.
        self._pipe.writelines((",".join(map(str, self.clocks())).encode(), b" ", body, b"\n"))
        self._pipe.flush()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pipe.close()


class WorkerChannel:
    """The reading end of a trial's pipe. The trial began at `began_ns` on this process's clock. `clean` sanitizes an
    event's texts before it gets its type."""

    def __init__(self, pipe: int, began_ns: int, clean: Callable[[Fields], Fields] = lambda fields: fields) -> None:
        self._pipe = pipe
        self._rest = bytearray()
        self._began_ns = began_ns
        self._empty_ns = began_ns
        self._clean = clean
        self._was_behind = False
        self.over = False
        """True after the writing end was closed."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(pipe, selectors.EVENT_READ)

    def close(self) -> None:
        self._selector.close()

    def read(self, seconds: float) -> Iterator[WorkerMessage] | None:
        """Returns the messages that arrive within this time, or None if none arrives. Raises ProtocolError and
        ClockMismatch."""
        now = monotonic_ns()
        if not self._selector.select(0):
            if not self._rest:
                # The pipe is empty, so the next event is written after this moment.
                self._empty_ns = now
            if not self._selector.select(seconds):
                return None
        return self._messages(os.read(self._pipe, CHUNK_BYTES))

    def _messages(self, chunk: bytes) -> Iterator[WorkerMessage]:
        by_ns = monotonic_ns()
        first, *others = chunk.split(b"\n")
        self._rest += first
        for line in others:
            yield self._message(bytes(self._rest), by_ns)
            self._rest = bytearray(line)
        self.over = not chunk
        if len(self._rest) > MOST_BYTES + CHUNK_BYTES:
            raise ProtocolError(FOREIGN)

    def _message(self, line: bytes, by_ns: int) -> WorkerMessage:
        clocks, _, body = line.partition(b" ")
        try:
            fields = json.loads(body)
            readings = [int(reading) for reading in clocks.split(b",")]
        except MessageError:
            raise ProtocolError(FOREIGN) from None
        if not isinstance(fields, dict) or "event" not in fields:
            raise ProtocolError(FOREIGN)
        try:
            event = convert_event(self._clean(fields))
        except MessageError as error:
            raise ProtocolError(f"malformed event from the worker: {error}") from None
        passed = by_ns - self._began_ns
        slack = SLACK_NS + int(passed * SLEWED)
        ahead, behind = max(readings) - by_ns, self._empty_ns - min(readings)
        if ahead > slack:
            raise ClockMismatch(f"{ahead / 1e9:.2f} s ahead after {passed / 1e9:.2f} s")
        # A worker that loses its core between reading its clocks and writing seems to be behind. So only two messages
        # in a row count.
        if behind > slack and self._was_behind:
            raise ClockMismatch(f"{behind / 1e9:.2f} s behind after {passed / 1e9:.2f} s")
        self._was_behind = behind > slack
        return WorkerMessage(event, self._empty_ns, by_ns)
