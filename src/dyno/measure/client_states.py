"""States of a phase's clients, by which a timeout names those that keep the phase from its end."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from time import monotonic_ns

import numpy as np

from dyno.host.procfs import read_text

LATE_NS = 1_000_000_000
"""A client is late if it has been in the same state for this long."""
NAMED = 5
"""Maximum number of clients that are named."""


class State(IntEnum):
    """States of a client. Clients that wait for other clients are not late."""

    OTHERS = 0
    START = 1
    ENGINE = 2
    ANSWER = 3
    CHECKS = 4


TEXTS = {
    State.START: "to connect and warm up",
    State.ENGINE: "for the engine",
    State.ANSWER: "for an answer",
    State.CHECKS: "for its own inputs and checks",
}


class ClientStates:
    """The states of a phase's clients, in memory that they share. The clients are threads, or processes that are
    forked after this is created."""

    def __init__(self, clients: int) -> None:
        board = np.frombuffer(mmap.mmap(-1, 8 * 3 * clients), dtype=np.int64).reshape(3, clients)
        self._states, self._since, self._threads = board

    def enter(self, client: int, state: State, since_ns: int | None = None) -> None:
        """`since_ns`: when the state began, on the monotonic clock; None: now."""
        if since_ns is None:
            self._since[client] = monotonic_ns()
        else:
            self._since[client] = since_ns
        self._states[client] = state

    def start(self, client: int) -> None:
        """Begins the client's work, in its own thread or process."""
        self._threads[client] = threading.get_native_id()
        self.enter(client, State.START)

    def describe_late(self) -> str | None:
        """Returns 'client 3 waited 29.1 s for an answer', or None if no client is late."""
        return ", ".join(self._late(monotonic_ns())) or None

    def _late(self, now_ns: int) -> Iterator[str]:
        for state, text in TEXTS.items():
            late = np.flatnonzero((self._states == state) & (now_ns - self._since >= LATE_NS)).tolist()
            if late:
                longest_ns = now_ns - int(self._since[late].min())
                yield f"{_names(late)} waited {longest_ns / 1e9:.1f} s {text}{self._blocked_in(late)}"

    def _blocked_in(self, late: Sequence[int]) -> str:
        """Returns the kernel's function in which a single late client sleeps, in brackets; '' if it is not known."""
        thread = int(self._threads[late[0]])
        function = None
        if thread and len(late) == 1:
            function = read_text(Path(f"/proc/{thread}/wchan"))
        if function and function != "0":
            return f" ({function.partition('.')[0]})"
        return ""


def _names(clients: Sequence[int]) -> str:
    if len(clients) == 1:
        return f"client {clients[0]}"
    more = ", …" if len(clients) > NAMED else ""
    return f"{len(clients)} clients ({', '.join(map(str, clients[:NAMED]))}{more})"


_watched: list[ClientStates] = []


@contextmanager
def watch_states(states: ClientStates) -> Iterator[None]:
    """Makes the states those of this process's current phase."""
    _watched.append(states)
    try:
        yield
    finally:
        _watched.remove(states)


def describe_late_clients() -> str | None:
    """Returns the late clients of this process's current phase: see `ClientStates.describe_late`."""
    if _watched:
        return _watched[-1].describe_late()
    return None
