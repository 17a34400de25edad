"""How long a phase is measured, how fast it is to go, and by which loop. Nothing here reads a clock."""

from __future__ import annotations

from dataclasses import dataclass

UNIFORM, POISSON = "uniform", "poisson"
ARRIVALS = (UNIFORM, POISSON)
LOOPS = ("auto", "native", "python")
FOREVER_NS = 1 << 62
PATIENCE = 10
"""How many times as long as was asked for a duration or a warm-up may take in all, pauses included: an operation that
takes next to no time is built and judged for far longer than it lasts."""


@dataclass(frozen=True)
class Pace:
    """How long a phase is measured, how fast it is to go, and by which loop."""

    budget_ns: int = FOREVER_NS
    """The longest, where the operations have not ended before."""
    duration_ns: int | None = None
    """So long, in as many rounds as it takes, in place of the budget; less where that took ten times as long."""
    warmup_ns: int = 0
    """Rounds for so long beforehand, which are not recorded."""
    rate: float | None = None
    """Operations a second that are due, of all clients together; None: each when the one before has ended."""
    arrivals: str = UNIFORM
    loop: str = "auto"
    seed: int = 1
    check_ns: int = FOREVER_NS
    """The longest that checks of a phase's answers may take: then the phase ends, with what is done and checked."""

    @property
    def limit_ns(self) -> int:
        return self.budget_ns if self.duration_ns is None else self.duration_ns
