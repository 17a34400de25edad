"""JAX: NumPy's functions, compiled by XLA, on the processor."""

from __future__ import annotations

import os
from typing import Any

from dyno.engines.compute.library import THREADS, Library, LibraryPort, declare, library, select
from dyno.suites.compute.port import Arrays


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        cores = os.sched_getaffinity(0)
        # XLA has no setting for it: it starts a thread for each core that the process may use.
        self._threads = min(engine.threads or len(cores), len(cores))
        os.sched_setaffinity(0, set(sorted(cores)[: self._threads]))
        try:
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
            import jax
            import jax.numpy as jnp

            jax.config.update("jax_enable_x64", True)
            jax.devices()
        finally:
            os.sched_setaffinity(0, cores)
        self._jnp = jnp
        mean, largest, total, sines = jax.jit(jnp.mean), jax.jit(jnp.max), jax.jit(jnp.sum), jax.jit(jnp.sin)
        sums = jax.jit(lambda grid: jnp.sum(grid, axis=0))
        correlation = jax.jit(lambda x, y: jnp.corrcoef(x, y)[0, 1])
        self.operations = {
            "avg": lambda x: mean(x).item(),
            "max": lambda x: largest(x).item(),
            "sin": lambda x: sines(x).block_until_ready(),
            "sum": lambda x: total(x).item(),
            "sum2d": lambda grid: sums(grid).block_until_ready(),
            "corr": lambda pair: correlation(*pair).item(),
        }

    def load(self, arrays: Arrays) -> Any:
        return select({name: self._jnp.asarray(array).block_until_ready() for name, array in arrays.items()})

    def threads(self) -> int | None:
        return self._threads


ENGINE = declare(
    "jax",
    "JAX, compiled by XLA, on the processor",
    library("JAX", "jax", "jaxlib"),
    Compute,
    modules=("jax", "jaxlib"),
    requires=("jax>=0.4.30", "jaxlib>=0.4.30"),
    options=(THREADS,),
)
