"""Duration, rate and loop of a phase."""

from __future__ import annotations

from dataclasses import dataclass

UNIFORM, POISSON = "uniform", "poisson"
ARRIVALS = (UNIFORM, POISSON)
LOOPS = ("auto", "native", "python")
LIBRARY_LOAD, NATIVE_LOAD = LOADS = ("library", "native")
FOREVER_NS = 1 << 62
PATIENCE = 10
"""Largest factor by which a duration or a warm-up may take longer than requested, pauses included: building and
checking a very short operation takes far longer than the operation."""


@dataclass(frozen=True)
class Pace:
    """Duration, rate and loop of a phase."""

    budget_ns: int = FOREVER_NS
    """Longest time; the operations may end before."""
    duration_ns: int | None = None
    """Fixed duration: repeat rounds until it elapses (overrides the budget), or until PATIENCE times that with
    pauses."""
    warmup_ns: int = 0
    """Duration of unrecorded rounds beforehand."""
    rate: float | None = None
    """Operations due per second, all clients together; None for a closed loop."""
    arrivals: str = UNIFORM
    loop: str = "auto"
    seed: int = 1
    check_ns: int = FOREVER_NS
    """Longest time for checking the phase's answers. The phase ends then, with the operations checked so far."""

    @property
    def limit_ns(self) -> int:
        return self.budget_ns if self.duration_ns is None else self.duration_ns
