"""Proves on this machine that the measuring is right: known faults and known costs go in, and must be found.

A check is a function of a directory to work in; it returns a verdict, and no check may look into how the part that
it guards does its work: what comes out is judged, by an independent calculation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown


@dataclass(frozen=True)
class Verdict:
    """`passed` is None where the check can't be made here, which `text` says why."""

    passed: bool | None
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    name: str
    guards: str
    """What a user may rely on if it passes."""
    make: Callable[[Path], Verdict]


def checks() -> tuple[Check, ...]:
    """All of them, the quick ones first."""
    from dyno.selftest import cold, idle, open_loop, pairs, timing

    return (
        Check("clock", "the clock never runs backwards, from one process to another either", timing.clock),
        Check("latency", "latencies come back as they were", timing.latency),
        Check("cold", "what is called cold was read from the device", cold.cold),
        Check("awake", "cores that are kept awake are, and nobody pays for it", idle.awake),
        Check("client", "a client that limits its server is noticed", pairs.client),
        Check("stall", "a stall is in the response times of all who waited", open_loop.stall),
        Check("same", "equals are not found to differ", pairs.same),
        Check("slower", "a slowdown of 10 % is found", pairs.slower),
    )


def chosen(names: Iterable[str]) -> list[Check]:
    """The checks of those names, in their own order; all for none. Raises UsageError."""
    known, wanted = {check.name: check for check in checks()}, list(names)
    for name in wanted:
        if name not in known:
            raise UsageError(unknown("check", name, known))
    return [check for name, check in known.items() if not wanted or name in wanted]


def made(wanted: Iterable[Check], work: Path) -> Iterator[tuple[Check, Verdict]]:
    """Makes the checks one after the other. One that raises has failed."""
    for check in wanted:
        try:
            yield check, check.make(work)
        except Exception as error:
            yield check, Verdict(False, f"{type(error).__name__}: {error}")
