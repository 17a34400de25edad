"""Compute: which library is fastest at averages, maxima, sines, sums and correlations of N floats, and up to which N?

Based on Cloud Mercato, Benchmark floating point computations with Python.
"""

from functools import partial

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Suite

FIRST = "first-result"
"""Phase that measures one-time work: importing libraries, starting clusters, compiling code, loading the numbers."""
OPEN = "open"
LOAD = "load"
COMPUTE = "compute"
"""Parts of the latency of the phase FIRST."""
SINGLE, DOUBLE = "float32", "float64"

_REPEATS = "largest number of operations of a phase; fewer on large arrays"

PARAMS = (
    Setting("size", integer(1, 10**10), 10_000, "numbers; rows of sum2d"),
    Setting("dtype", choice(SINGLE, DOUBLE), SINGLE, "their type"),
    Setting("columns", integer(1, 100), 3, "columns of sum2d", phases=("sum2d",)),
    Setting("repeats", integer(1, 100_000), 100, _REPEATS, phases=("avg", "max", "sin", "sum", "sum2d", "corr")),
)


def steps(limit: int) -> tuple[int, ...]:
    """Returns the published sizes up to a limit: 100, 500, 1,000, 5,000 and so on."""
    return tuple(step for power in range(2, 11) for step in (10**power, 5 * 10**power) if step <= limit)


PRESETS = {
    "quick": Preset({"size": (100, 10_000, 1_000_000)}, samples=3, budget=0.3, timeout=120),
    "standard": Preset({"size": steps(10**7)}, samples=3, budget=0.5, timeout=300),
    "full": Preset({"size": steps(10**9), "dtype": (SINGLE, DOUBLE)}, samples=5, budget=10, timeout=3_600),
}

_NEAR = "each to 1e-4 of itself of float32, to 1e-10 of float64"


_ONCE = "from nothing to the first average: the library imported, its cluster started, its code compiled"
_phase = partial(Phase, unit="op", writes=False, metric="p50")

PHASES = (
    _phase(FIRST, _ONCE, unit="start", checked="the average", parts=(OPEN, LOAD, COMPUTE)),
    _phase("avg", "the average", checked=_NEAR, says="an average of {size} numbers in {range}"),
    _phase("max", "the largest", checked="exactly", says="a maximum in {range}"),
    _phase("sin", "the sine of each", checked="every one, to 1e-6 of float32, to 1e-14 of float64"),
    _phase("sum", "the sum", checked=_NEAR, says="a sum in {range}"),
    _phase("sum2d", "of a table with so many rows, the sum of each column", checked=_NEAR),
    _phase(
        "corr",
        "the correlation of as many pairs",
        checked="to 1e-4 of float32, to 1e-9 of float64",
        says="a correlation in {range}",
    ),
)


class ComputeSuite(Suite):
    name = "compute"
    title = "an average, a maximum, sines, sums and a correlation of N floats, from the interpreter to the cluster"
    ports = ("compute",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES


SUITE = ComputeSuite()
