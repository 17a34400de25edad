"""Samples what the sessions of an engine's server wait for, while the clients work: see
`dyno.contracts.counters.WaitSpec`."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

from dyno.contracts.declarations import checked_text, exception_text
from dyno.contracts.suite import Job
from dyno.host.perf import CannotProfile

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

HERTZ = 20
START_SECONDS, STOP_SECONDS = 20.0, 10.0
READY = "ready"
MOST_EVENTS = 1_000
MOST_NAME, MOST_WHY = 200, 200
"""Maximum lengths of an event's name and of an error."""
SPREAD = 0.5
"""Largest change of the time between two samples, as a share of it. With equal times, samples would keep step with
what the server does 20 times a second."""


class WaitSampler:
    """Samples from a process of its own, from the construction until `stop`. In a thread of a client's process, it
    would get the interpreter just when the client begins to wait for the server."""

    def __init__(self, job: Job) -> None:
        """Has a session on the server before this returns. Raises CannotProfile."""
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_sample, args=(job, theirs, self._pipe), daemon=True)
        try:
            self._process.start()
        except OSError as error:
            raise CannotProfile(f"no process for the samples: {error}") from None
        theirs.close()
        reply = self._receive(START_SECONDS)
        if reply != READY:
            self._end()
            raise CannotProfile(str(reply))

    def stop(self) -> None:
        """Ends the sampling. May be called twice."""
        with suppress(OSError):
            self._pipe.send(None)

    def read(self) -> Mapping[str, int]:
        """Returns how often each event was seen, after `stop`. Raises CannotProfile."""
        reply = self._receive(STOP_SECONDS)
        self._end()
        if isinstance(reply, str):
            raise CannotProfile(reply)
        return reply

    def _receive(self, seconds: float) -> str | Mapping[str, int]:
        """Returns the next message of the process: READY, the samples, or why there are none."""
        try:
            if self._pipe.poll(seconds):
                message: str | Mapping[str, int] = self._pipe.recv()
                return message
        except (EOFError, OSError):
            return "the sampling process has died"
        return f"the server did not answer within {seconds:g} s"

    def _end(self) -> None:
        self._pipe.close()
        # It may wait for the server.
        self._process.kill()
        self._process.join()


def _sample(job: Job, pipe: Connection, other_end: Connection) -> None:
    """Samples until a message comes or the other process has died, and sends the samples."""
    # Else this process would keep its own pipe open.
    other_end.close()
    try:
        waits = job.spec.waits
        assert waits is not None
        where = f"engine {job.spec.name}: waits"
        events = Counter[str]()
        with closing(waits.connect(job.server, job.options)) as session:
            # The first reading loads what later ones find in the session's caches.
            waits.read(session)
            pipe.send(READY)
            random = Random()
            due = monotonic()
            while not pipe.poll(max(due - monotonic(), 0)):
                events.update(checked_text(event, where)[:MOST_NAME] for event in waits.read(session))
                due = max(due, monotonic()) + random.uniform(1 - SPREAD, 1 + SPREAD) / HERTZ
        pipe.send(dict(events.most_common(MOST_EVENTS)))
    except Exception as error:
        reason = " ".join(exception_text(error).split())[:MOST_WHY]
        with suppress(OSError):
            pipe.send(reason or type(error).__name__)
