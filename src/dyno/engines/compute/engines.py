"""Numeric libraries that compute in this process or on a GPU: a function that builds the port, and a declaration."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import Gap, Listing, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Value
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.compute.library import CHUNK, THREADS, FunctionPort, Library, declare, library, select
from dyno.suites.compute import FIRST
from dyno.suites.compute.port import DOUBLES, Arrays, Operation, columns

if TYPE_CHECKING:
    import numpy as np
    import torch

# -- the interpreter and NumPy ----------------------------------------------------------------------------------


class Interpreter(Library):
    def version(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"


def _python(engine: Library) -> FunctionPort:
    from math import sin
    from statistics import correlation

    return FunctionPort(
        {
            "avg": lambda x: sum(x) / len(x),
            "max": max,
            "sin": lambda x: [sin(value) for value in x],
            "sum": sum,
            "sum2d": lambda rows: [sum(row[at] for row in rows) for at in range(len(rows[0]))],
            "corr": lambda pair: correlation(*pair),
        },
        lambda arrays: select({name: array.tolist() for name, array in arrays.items()}),
    )


def _numpy(engine: Library) -> FunctionPort:
    """Returns a port with one thread. Only corrcoef could use more, for a product of two rows."""
    import numpy as np

    return FunctionPort(
        {
            "avg": np.average,
            # Call the method, as FPB does: `np.max` first looks up the kind of array, which takes 0.8 µs per call.
            "max": lambda array: array.max(),
            "sin": np.sin,
            "sum": np.sum,
            # Along the rows NumPy adds naively, which is too imprecise in float32.
            "sum2d": lambda grid: np.sum(grid, axis=0, dtype=np.float64),
            "corr": lambda pair: np.corrcoef(*pair)[0, 1],
        }
    )


PYTHON = declare(
    "python", "Python's own lists, sum, max, math and statistics", Interpreter, PortSpec(_python, caveats=(DOUBLES,))
)
# Dyno itself requires NumPy, so it has no `modules` or `requires`.
_IMPORTED = Gap(FIRST, "unsupported", "Dyno's own process has imported NumPy before, so its import can't be measured")
NUMPY = declare(
    "numpy",
    "NumPy, arrays in memory",
    library("NumPy", "numpy"),
    PortSpec(_numpy, gaps=(_IMPORTED,)),
    versions=Versions((Wheel("numpy"),)),
)

# -- data frames and Arrow --------------------------------------------------------------------------------------


def _pandas(engine: Library) -> FunctionPort:
    import numpy as np
    import pandas as pd

    return FunctionPort(
        {
            "avg": pd.DataFrame.mean,
            "max": pd.DataFrame.max,
            "sin": np.sin,
            "sum": pd.DataFrame.sum,
            "sum2d": pd.DataFrame.sum,
            "corr": lambda frame: frame["x"].corr(frame["y"]),
        },
        lambda arrays: pd.DataFrame(columns(arrays)),
    )


def _polars(engine: Library) -> FunctionPort:
    if engine.threads:
        # Polars reads the variable only when it is imported.
        os.environ["POLARS_MAX_THREADS"] = str(engine.threads)
    import polars as pl

    sine, correlation = pl.col("x").sin(), pl.corr("x", "y")
    return FunctionPort(
        {
            "avg": lambda frame: frame["x"].mean(),
            "max": lambda frame: frame["x"].max(),
            "sin": lambda frame: frame.select(sine)["x"],
            "sum": lambda frame: frame["x"].sum(),
            "sum2d": lambda frame: frame.sum().row(0),
            "corr": lambda frame: frame.select(correlation).item(),
        },
        lambda arrays: pl.DataFrame(columns(arrays)),
        int(pl.thread_pool_size()),
    )


def _pyarrow(engine: Library) -> FunctionPort:
    """Returns a port with one thread, because Arrow's functions use several only on chunked arrays."""
    import pyarrow as pa
    from pyarrow import compute

    return FunctionPort(
        {
            "avg": lambda arrays: compute.mean(arrays[0]).as_py(),
            "max": lambda arrays: compute.max(arrays[0]).as_py(),
            "sin": lambda arrays: compute.sin(arrays[0]),
            "sum": lambda arrays: compute.sum(arrays[0]).as_py(),
            "sum2d": lambda arrays: [compute.sum(array).as_py() for array in arrays],
        },
        lambda arrays: [pa.array(array) for array in columns(arrays).values()],
    )


PANDAS = declare(
    "pandas",
    "pandas, a DataFrame in memory",
    library("pandas", "pandas", "numpy"),
    _pandas,
    installation=Installation(modules=("pandas",), requires=("pandas>=2.0",)),
    versions=Versions((Wheel("pandas"),)),
)
POLARS = declare(
    "polars",
    "Polars, a DataFrame in Arrow's layout",
    library("Polars", "polars"),
    _polars,
    installation=Installation(modules=("polars",), requires=("polars>=1.0",)),
    versions=Versions((Wheel("polars"),)),
    options=(THREADS,),
)
PYARROW = declare(
    "pyarrow",
    "PyArrow, arrays in Arrow's layout",
    library("PyArrow", "pyarrow"),
    PortSpec(_pyarrow, gaps=(Gap("corr", "unsupported", "Arrow's functions have no correlation"),)),
    installation=Installation(modules=("pyarrow",), requires=("pyarrow>=15",)),
    versions=Versions((Wheel("pyarrow"),)),
)

# -- compilers --------------------------------------------------------------------------------------------------


def _numexpr(engine: Library) -> FunctionPort:
    import numexpr

    threads = engine.threads or int(numexpr.nthreads)
    numexpr.set_num_threads(threads)
    evaluate = numexpr.evaluate

    def total(x: np.ndarray) -> Any:
        return evaluate("sum(x * one)", {"x": x, "one": 1.0}, {})

    operations: dict[str, Operation] = {
        "avg": lambda x: total(x) / len(x),
        "max": lambda x: evaluate("max(x)", {"x": x}, {}),
        "sin": lambda x: evaluate("sin(x)", {"x": x}, {}),
        "sum": total,
        "sum2d": lambda grid: evaluate("sum(x * one, axis=0)", {"x": grid, "one": 1.0}, {}),
    }
    return FunctionPort(operations, threads=threads)


def _jax(engine: Library) -> FunctionPort:
    cores = os.sched_getaffinity(0)
    # XLA has no setting for the number of threads: it starts one for each core that the process may use.
    threads = min(engine.threads or len(cores), len(cores))
    os.sched_setaffinity(0, set(sorted(cores)[:threads]))
    try:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        jax.devices()
    finally:
        os.sched_setaffinity(0, cores)
    mean = jax.jit(jnp.mean)
    largest = jax.jit(jnp.max)
    total = jax.jit(jnp.sum)
    sines = jax.jit(jnp.sin)
    sums = jax.jit(lambda grid: jnp.sum(grid, axis=0))
    correlation = jax.jit(lambda x, y: jnp.corrcoef(x, y)[0, 1])
    return FunctionPort(
        {
            "avg": lambda x: mean(x).item(),
            "max": lambda x: largest(x).item(),
            "sin": lambda x: sines(x).block_until_ready(),
            "sum": lambda x: total(x).item(),
            "sum2d": lambda grid: sums(grid).block_until_ready(),
            "corr": lambda pair: correlation(*pair).item(),
        },
        lambda arrays: select({name: jnp.asarray(array).block_until_ready() for name, array in arrays.items()}),
        threads,
    )


def _torch(engine: Library) -> FunctionPort:
    import torch

    if engine.threads:
        torch.set_num_threads(engine.threads)

    def load(arrays: Arrays) -> torch.Tensor:
        tensors = select({name: torch.from_numpy(array) for name, array in arrays.items()})
        if "y" in arrays:
            return torch.stack(tensors)
        return tensors

    return FunctionPort(
        {
            "avg": lambda x: x.mean().item(),
            "max": lambda x: x.max().item(),
            "sin": torch.sin,
            "sum": lambda x: x.sum().item(),
            "sum2d": lambda grid: grid.sum(dim=0),
            "corr": lambda pair: torch.corrcoef(pair)[0, 1].item(),
        },
        load,
        int(torch.get_num_threads()),
    )


NUMEXPR = declare(
    "numexpr",
    "NumExpr, expressions of arrays",
    library("NumExpr", "numexpr", "numpy"),
    PortSpec(
        _numexpr,
        gaps=(Gap("corr", "unsupported", "its reductions are sum, prod, min and max"),),
        caveats=(
            Caveat("sums-doubles", "converts float32 to double before it sums: it would add up float32 naively"),
        ),
    ),
    installation=Installation(modules=("numexpr",), requires=("numexpr>=2.10",)),
    versions=Versions((Wheel("numexpr"),)),
    options=(THREADS,),
)
JAX = declare(
    "jax",
    "JAX, compiled by XLA, on the processor",
    library("JAX", "jax", "jaxlib"),
    _jax,
    installation=Installation(modules=("jax", "jaxlib"), requires=("jax>=0.4.30", "jaxlib>=0.4.30")),
    versions=Versions((Wheel("jax"),)),
    options=(THREADS,),
)
TORCH = declare(
    "torch",
    "PyTorch, tensors on the processor",
    library("PyTorch", "torch"),
    _torch,
    installation=Installation(modules=("torch",), requires=("torch>=2.0",)),
    versions=Versions((Wheel("torch"),)),
    options=(THREADS,),
    listing=Listing(
        untested="the package that pip installs on Linux is for GPUs, and takes several gigabytes with what it needs"
    ),
)

# -- GPUs: the numbers are in the GPU's memory, and results are copied back -------------------------------------


def _gpu_port(operations: dict[str, Operation], convert: Callable[[np.ndarray], object]) -> FunctionPort:
    """Returns a port on a GPU. `convert` copies a NumPy array to the GPU."""
    import cupy

    def load(arrays: Arrays) -> object:
        loaded = {name: convert(array) for name, array in arrays.items()}
        cupy.cuda.Device().synchronize()
        return select(loaded)

    return FunctionPort(operations, load, None, cupy.get_default_memory_pool().free_all_blocks)


def _cupy(engine: Library) -> FunctionPort:
    import cupy as cp

    return _gpu_port(
        {
            "avg": lambda x: x.mean().item(),
            "max": lambda x: x.max().item(),
            "sin": lambda x: cp.asnumpy(cp.sin(x)),
            "sum": lambda x: x.sum().item(),
            "sum2d": lambda grid: cp.asnumpy(grid.sum(axis=0, dtype=cp.float64)),
            "corr": lambda pair: cp.corrcoef(*pair)[0, 1].item(),
        },
        cp.asarray,
    )


def _dask_cupy(engine: Library) -> FunctionPort:
    """Returns a port with one thread, which submits the GPU's work."""
    import cupy as cp
    import dask
    import dask.array as da

    dask.config.set(scheduler="synchronous")
    return _gpu_port(
        {
            "avg": lambda x: x.mean().compute().item(),
            "max": lambda x: x.max().compute().item(),
            "sin": lambda x: cp.asnumpy(da.sin(x).compute()),
            "sum": lambda x: x.sum().compute().item(),
            "sum2d": lambda grid: cp.asnumpy(grid.sum(axis=0, dtype="f8").compute()),
            "corr": lambda pair: da.corrcoef(*pair)[0, 1].compute().item(),
        },
        lambda array: da.from_array(cp.asarray(array), (min(len(array), CHUNK), *array.shape[1:]), asarray=False),
    )


def _cudf(engine: Library) -> FunctionPort:
    import cudf
    import cupy as cp

    return FunctionPort(
        {
            "avg": lambda frame: frame["x"].mean(),
            "max": lambda frame: frame["x"].max(),
            # cuDF has no sine, but CuPy's works on the same memory.
            "sin": lambda frame: cp.asnumpy(cp.sin(frame["x"].values)),
            "sum": lambda frame: frame["x"].sum(),
            "sum2d": lambda frame: frame.sum().to_numpy(),
            "corr": lambda frame: frame["x"].corr(frame["y"]),
        },
        lambda arrays: cudf.DataFrame(columns(arrays)),
        None,
    )


def _needs_gpu(options: Mapping[str, Value]) -> str | None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return None
    return "needs an NVIDIA GPU with its driver"


ON_GPU = Listing(untested="no machine that tests it has a GPU")
CUPY = declare(
    "cupy",
    "CuPy, arrays on a GPU",
    library("CuPy", "cupy-cuda12x", "numpy"),
    _cupy,
    installation=Installation(modules=("cupy",), requires=("cupy-cuda12x>=13",), needs=_needs_gpu),
    listing=ON_GPU,
)
DASK_CUPY = declare(
    "dask_cupy",
    "Dask over CuPy, chunks on a GPU",
    library("Dask", "dask", "cupy-cuda12x"),
    _dask_cupy,
    installation=Installation(
        modules=("dask", "cupy"), requires=("dask[array]>=2024.1", "cupy-cuda12x>=13"), needs=_needs_gpu
    ),
    listing=ON_GPU,
)
CUDF = declare(
    "cudf",
    "cuDF, a DataFrame on a GPU",
    library("cuDF", "cudf-cu12", "cupy-cuda12x"),
    _cudf,
    installation=Installation(modules=("cudf", "cupy"), requires=("cudf-cu12>=24.10",), needs=_needs_gpu),
    listing=ON_GPU,
)
