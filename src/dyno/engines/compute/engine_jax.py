"""JAX: NumPy's functions, compiled by XLA, on the processor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute.library import THREADS, Functions, Library, declare, of, shaped


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        cores = os.sched_getaffinity(0)
        # XLA has no setting for it: it has a thread for each core that it may use when it starts.
        self._threads = min(int(str(engine.options["threads"])) or len(cores), len(cores))
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
        mean, most, total = jax.jit(jnp.mean), jax.jit(jnp.max), jax.jit(jnp.sum)
        sines, sums = jax.jit(jnp.sin), jax.jit(lambda grid: jnp.sum(grid, axis=0))
        correlation = jax.jit(lambda x, y: jnp.corrcoef(x, y)[0, 1])
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: mean(x).item(),
            "max": lambda x: most(x).item(),
            "sin": lambda x: sines(x).block_until_ready(),
            "sum": lambda x: total(x).item(),
            "sum2d": lambda grid: sums(grid).block_until_ready(),
            "corr": lambda pair: correlation(*pair).item(),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        made = {name: self._jnp.asarray(array).block_until_ready() for name, array in arrays.items()}
        return shaped(made)

    def threads(self) -> int | None:
        return self._threads


ENGINE = declare(
    "jax",
    "JAX, compiled by XLA, on the processor",
    of("JAX", "jax", "jaxlib"),
    Compute,
    modules=("jax", "jaxlib"),
    requires=("jax>=0.4.30", "jaxlib>=0.4.30"),
    options=(THREADS,),
)
