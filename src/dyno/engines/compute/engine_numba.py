"""Numba: Python loops, compiled at their first call."""

from dyno.contracts.installation import Installation
from dyno.contracts.settings import Setting, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.compute.library import FunctionPort, Library, declare, library
from dyno.suites.compute.port import Operation


def compute(engine: Library) -> FunctionPort:
    """Returns a port whose sums are doubles, added up in whatever order is fastest."""
    import numba
    import numpy as np

    threads = engine.threads or int(numba.config.NUMBA_NUM_THREADS)
    if threads > 1:
        numba.set_num_threads(threads)
    compiled = numba.njit(fastmath={"reassoc", "nsz", "contract", "nnan"}, parallel=threads > 1)
    each = numba.prange

    @compiled
    def total(x):  # type: ignore[no-untyped-def]
        result = 0.0
        for at in each(len(x)):
            result += x[at]
        return result

    @compiled
    def average(x):  # type: ignore[no-untyped-def]
        return total(x) / len(x)

    @compiled
    def largest(x):  # type: ignore[no-untyped-def]
        result = x[0]
        for at in each(len(x)):
            result = max(result, x[at])
        return result

    @compiled
    def sines(x):  # type: ignore[no-untyped-def]
        result = np.empty_like(x)
        for at in each(len(x)):
            result[at] = np.sin(x[at])
        return result

    @compiled
    def sums(grid):  # type: ignore[no-untyped-def]
        result = np.zeros(grid.shape[1])
        for at in each(grid.shape[0]):
            result += grid[at]
        return result

    @compiled
    def correlation(x, y):  # type: ignore[no-untyped-def]
        sum_x = sum_y = 0.0
        for at in each(len(x)):
            sum_x += x[at]
            sum_y += y[at]
        mean_x, mean_y = sum_x / len(x), sum_y / len(x)
        xy = xx = yy = 0.0
        for at in each(len(x)):
            dx, dy = x[at] - mean_x, y[at] - mean_y
            xy += dx * dy
            xx += dx * dx
            yy += dy * dy
        return xy / np.sqrt(xx * yy)

    operations: dict[str, Operation] = {"avg": average, "max": largest, "sin": sines, "sum": total, "sum2d": sums}
    return FunctionPort({**operations, "corr": lambda pair: correlation(*pair)}, threads=threads)


ENGINE = declare(
    "numba",
    "Numba, loops compiled when they are first called",
    library("Numba", "numba", "numpy"),
    compute,
    installation=Installation(modules=("numba",), requires=("numba>=0.59",)),
    versions=Versions((Wheel("numba"),)),
    options=(Setting("threads", integer(0, 1024), 1, "threads that compute; 0 for one per core"),),
)
