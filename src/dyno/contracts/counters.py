"""The contract of what an engine says of its own work: its counters, and what its server's sessions wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dyno.contracts.model import Caveat, Value

COUNT = "count"
BYTES = "bytes"
NS = "ns"
UNITS = (COUNT, BYTES, NS)


class Counter(NamedTuple):
    """A number that an engine only ever increases while it runs."""

    name: str
    """The engine's own name for it."""
    unit: str
    """One of UNITS."""
    meaning: str
    """What is counted, as the engine's documentation says, in a line that continues the name."""


@dataclass(frozen=True)
class CounterSpec:
    """An engine's own counters that explain its speed. Dyno reads them before and after each phase, while its clock
    stands still, and subtracts what a reading counts by itself."""

    source: str
    """Short name of the documentation that says what the counters mean."""
    counters: tuple[Counter, ...]
    """In the order of tables."""
    read: Callable[[Any], Mapping[str, int]]
    """Called with the opened engine; returns the values by name. Other names are ignored, and a counter that this
    version of the engine lacks may be left out."""
    publish: Callable[[Any], object] | None = None
    """Called with the opened engine by each client, when it has warmed up and again when it has ended: makes the
    server publish what the client's sessions have counted. None if the counters are always up to date."""


RUNNING = "running"
"""Name of the state of a busy session that waits for nothing, unless for a core."""


@dataclass(frozen=True)
class WaitSpec:
    """Waits of the busy sessions of an engine's server. Dyno samples them in profiled trials alone, 20 times a
    second, from a process of its own."""

    source: str
    """Short name of the documentation that says what the events mean."""
    connect: Callable[[Any, Mapping[str, Value]], Any]
    """Called with the running server and all options; returns a session with a method `close`. Raises Refused if the
    server doesn't record waits, with the setting that makes it."""
    read: Callable[[Any], Iterable[str]]
    """Called with that session; returns for each other session that is busy the name of the event that it waits for,
    or RUNNING. If the server doesn't record all waits, another word."""


def unreadable_counters(reason: str) -> Caveat:
    """Returns the remark on an engine whose counters can't be read, such as a user's server without the right."""
    return Caveat("no-counters", f"has no counters in the run: reading them failed ({reason})")
