"""How much the speed of a core differs from one moment to the next."""

import math
from statistics import stdev

STRETCHES = 20
STRETCH_NS = 50_000_000
PRIMES = 16_000
"""Upper bound of a search for primes: it takes about a millisecond, so that a stretch has some fifty."""


def measure_spread() -> float | None:
    """Computes for a second in 20 stretches. Returns the standard deviation of the logarithms of their speeds; None
    without the native module."""
    try:
        import dyno._native
    except ImportError:
        return None
    logs = []
    for _ in range(STRETCHES):
        elapsed_ns, latencies, *_ = dyno._native.primes(1, PRIMES, STRETCH_NS, 0)
        logs.append(math.log(sum(map(len, latencies)) / elapsed_ns))
    return round(stdev(logs), 4)
