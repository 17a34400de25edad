"""Dask: NumPy arrays in chunks, computed by threads or by the workers of a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import CHUNK, THREADS, Library, LibraryPort, declare, library, select
from dyno.engines.compute.server_dask import Cluster
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer, unreachable
from dyno.suites.compute.port import Arrays

ARRIVAL_SECONDS, POLL_SECONDS = 60, 0.5
"""Seconds to wait for workers, and seconds between checks that they can still arrive."""


class Dask(library("Dask", "dask", "distributed", "numpy")):  # type: ignore[misc]
    """Dask as an engine. The port starts the cluster or connects to it."""

    def caveats(self) -> Iterable[Caveat]:
        if self.server is not None and not self.server.own:
            yield Caveat("declared", "is on your own cluster, whose workers Dyno can't check")


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        import dask
        import dask.array as da

        self._stack, self._dask_array = ExitStack(), da
        self._client: Any = None
        self._threads = engine.threads
        if engine.server is not None:
            self._client = self._stack.enter_context(closing(_client(engine.server)))
        else:
            workers = {"num_workers": self._threads} if self._threads else {}
            self._stack.enter_context(dask.config.set(scheduler="threads", **workers))
        self.operations = {
            "avg": lambda x: x.mean().compute(),
            "max": lambda x: x.max().compute(),
            "sin": lambda x: da.sin(x).compute(),
            "sum": lambda x: x.sum().compute(),
            "sum2d": lambda grid: grid.sum(axis=0).compute(),
            "corr": lambda pair: da.corrcoef(*pair)[0, 1].compute(),
        }

    def load(self, arrays: Arrays) -> Any:
        return select({name: self._chunks(array) for name, array in arrays.items()})

    def _chunks(self, array: Any) -> Any:
        """Splits the array into a chunk per thread, or into more if these would be too large. A cluster's workers
        hold the chunks."""
        rows = min(-(-len(array) // (self.threads() or 1)), CHUNK)
        chunks = self._dask_array.from_array(array, chunks=(rows, *array.shape[1:]))
        if self._client is None:
            return chunks
        from distributed import wait

        persisted = self._client.persist(chunks)
        wait(persisted)
        return persisted

    def threads(self) -> int | None:
        if self._client is not None:
            return int(sum(self._client.nthreads().values()))
        from dask.system import CPU_COUNT

        return self._threads or int(CPU_COUNT)

    def close(self) -> None:
        self._stack.close()


def _client(server: Any) -> Any:
    """Returns a client of the cluster when all its workers have arrived. For the user's own cluster, one worker is
    enough."""
    from distributed import Client, TimeoutError

    own = isinstance(server, Cluster)
    try:
        client = Client(server.launch() if own else server.url, timeout="30s", set_as_default=True)
    except (OSError, TimeoutError) as error:
        raise unreachable(server, error) from None
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while True:
        try:
            client.wait_for_workers(server.workers if own else 1, timeout=POLL_SECONDS)
            return client
        except TimeoutError as error:
            if own and not server.whole():
                raise ConnectionError("a process of the cluster ended before its workers arrived") from None
            if time.monotonic() > deadline:
                raise ConnectionError(str(error)) from None


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server | None:
    if options[URL]:
        return UserServer(str(options[URL]))
    workers = int(str(options["workers"]))
    return Cluster(home, workers, int(str(options["threads"])) or 1) if workers else None


ENGINE = declare(
    "dask",
    "Dask, arrays in chunks, by threads or on a cluster",
    Dask,
    Compute,
    modules=("dask", "distributed"),
    requires=("dask[array,distributed]>=2024.1",),
    server=serve,
    options=(
        THREADS,
        Setting("workers", integer(0, 256), 0, "workers of a local cluster, a process each; 0 for threads instead"),
        user_server.setting("tcp", "tls"),
    ),
)
