"""What a user asked for, from flags or a plan file, before anything of it is resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dyno.contracts.model import Tier, UsageError
from dyno.contracts.pace import ARRIVALS
from dyno.contracts.settings import unknown
from dyno.contracts.value_types import MOST
from dyno.measure.loops import LOOPS, pick

LEAST_MEMORY = 50 << 20
"""Of a trial, in bytes: less does not hold the interpreter."""
SECONDS, MOST_SECONDS = ("budget", "timeout", "duration", "warmup", "within"), 10**9
SIZES = ("memory", "confine")
MOST_SAMPLES, MOST_RETRIES = 1_000_000, 1_000


@dataclass(frozen=True)
class RunRequest:
    """What a user asked for, from flags or a plan file; None is 'not said'."""

    suite: str
    engines: Sequence[str | Mapping[str, Any]] = ()
    """As on the command line, 'sqlite:journal_mode=wal+cache_mib=8', or a table of `name` and options."""
    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    samples: int | None = None
    until: str | float | None = None
    """'5%': blocks are added until each interval is that narrow to each side."""
    within: float | None = None
    preset: str | None = None
    tier: str | None = None
    clients: Sequence[Any] = ()
    rate: Sequence[Any] = ()
    phases: Sequence[str] = ()
    seed: int | None = None
    budget: float | None = None
    duration: float | None = None
    warmup: float | None = None
    arrivals: str | None = None
    loop: str | None = None
    timeout: float | None = None
    memory: int | None = None
    confine: int | None = None
    retries: int | None = None
    awake: bool | None = None


def tier_named(name: str) -> Tier:
    try:
        return Tier(name)
    except ValueError:
        raise UsageError(unknown("tier", name, [tier.value for tier in Tier])) from None


def check_numbers(asked: RunRequest) -> None:
    """Here for flags and plan files alike."""
    least = {
        "samples": 1,
        "seed": 0,
        "budget": 0.01,
        "timeout": 1,
        "memory": LEAST_MEMORY,
        "confine": LEAST_MEMORY,
        "retries": 0,
    }
    least |= {"duration": 0.01, "warmup": 0, "within": 1}
    for name, low in least.items():
        value = getattr(asked, name)
        if value is not None and not low <= value < math.inf:
            raise UsageError(f"{name} is out of range: it wants {'50 MiB' if low == LEAST_MEMORY else low} or more")
        most = MOST_SECONDS if name in SECONDS else {"samples": MOST_SAMPLES, "retries": MOST_RETRIES}.get(name, MOST)
        if value is not None and value > most:
            raise UsageError(f"{name} is out of range: it wants at most {most:,}")
    if asked.budget is not None and asked.duration is not None:
        raise UsageError("budget (the most) and duration (exactly so long) of a phase exclude each other")
    if asked.within is not None and asked.until is None:
        raise UsageError(
            "within is the longest time of a run until its intervals are narrow: say until, such as 5%, too"
        )
    for name, value, known in (("arrivals", asked.arrivals, ARRIVALS), ("loop", asked.loop, LOOPS)):
        if value is not None and value not in known:
            raise UsageError(unknown(name, value, known))
    pick(asked.loop or "auto")
