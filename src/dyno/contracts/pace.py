"""Duration, rate and loop of a phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNIFORM, POISSON = "uniform", "poisson"
ARRIVALS = (UNIFORM, POISSON)
LOOPS = ("auto", "native", "python")
AUTO_LOAD, LIBRARY_LOAD, NATIVE_LOAD = LOADS = ("auto", "library", "native")
FOREVER_NS = 1 << 62
PATIENCE = 10
"""Largest factor by which a duration or a warm-up may exceed the request, pauses included: for very short operations,
building inputs and checking answers takes far longer than the operations."""
FLOOR_PATIENCE = 2
"""The same for engines that do nothing: their operations are so short that a small part of the duration has many."""


@dataclass(frozen=True)
class Pace:
    """Duration, rate and loop of a phase."""

    budget_ns: int = FOREVER_NS
    """Maximum measured time; the operations may run out earlier."""
    duration_ns: int | None = None
    """Fixed duration: repeat rounds until it elapses (overrides the budget). Pauses included, the phase takes at most
    `patience` times the duration."""
    warmup_ns: int = 0
    """Duration of unrecorded rounds before the phase."""
    rate: float | None = None
    """Operations due per second, of all clients together; None for a closed loop."""
    arrivals: str = UNIFORM
    loop: str = "auto"
    seed: int = 1
    limits: Mapping[str, int | None] = field(default_factory=dict)
    """Longest response time in ns that keeps each limit of a search for a capacity; None: only failures break it."""
    settling_ns: int = 0
    """Operations that are due earlier in the phase are not counted for the limits: a queue starts empty."""
    patience: int = PATIENCE
    check_ns: int = FOREVER_NS
    """Maximum time for checking the phase's answers. When it is used up, the phase ends with the operations checked
    so far."""

    @property
    def limit_ns(self) -> int:
        if self.duration_ns is None:
            return self.budget_ns
        return self.duration_ns
