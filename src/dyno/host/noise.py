"""How much the speed of a core differs from one moment to the next."""

import math
from statistics import stdev

from dyno.host.ceilings import core_speed

STRETCHES = 20
STRETCH_NS = 50_000_000
PRIMES = 16_000
"""Upper bound of a search for primes: it takes about a millisecond, so that a stretch has some fifty."""


def measure_spread() -> float | None:
    """Computes for a second in 20 stretches. Returns the standard deviation of the logarithms of their speeds; None
    without the native module."""
    try:
        return round(stdev(math.log(core_speed(PRIMES, STRETCH_NS)) for _ in range(STRETCHES)), 4)
    except ImportError:
        return None
