"""Dask: arrays of NumPy's in chunks, computed by threads, or by the workers of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import THREADS, Functions, Library, declare, of, shaped
from dyno.engines.compute.server_dask import Cluster
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer, unreachable

MOST = 1 << 24
"""Numbers of a chunk: 64 MiB of 32 bits. Dask advises chunks of that order."""
ARRIVAL_SECONDS, LOOK_SECONDS = 60, 0.5
"""Until workers must be there; and after which it is looked whether they still can come."""


class Dask(of("Dask", "dask", "distributed", "numpy")):  # type: ignore[misc]
    """The cluster, where there is one, is started or found by the port."""

    def caveats(self) -> Iterable[Caveat]:
        if self.server is not None and not self.server.own:
            yield Caveat("declared", "is on your own cluster: what its workers are is what they say")


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import dask
        import dask.array as da

        self._stack, self._array = ExitStack(), da
        self._client: Any = None
        self._threads = int(str(engine.options["threads"]))
        if engine.server is not None:
            self._client = self._stack.enter_context(closing(_client(engine.server)))
        else:
            how = {"num_workers": self._threads} if self._threads else {}
            self._stack.enter_context(dask.config.set(scheduler="threads", **how))
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: x.mean().compute(),
            "max": lambda x: x.max().compute(),
            "sin": lambda x: da.sin(x).compute(),
            "sum": lambda x: x.sum().compute(),
            "sum2d": lambda grid: grid.sum(axis=0).compute(),
            "corr": lambda pair: da.corrcoef(*pair)[0, 1].compute(),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        made = {name: self._loaded(array) for name, array in arrays.items()}
        return shaped(made)

    def _loaded(self, array: Any) -> Any:
        """A chunk for each thread, or more of them where these would be large; on a cluster, with its workers."""
        rows = min(-(-len(array) // (self.threads() or 1)), MOST)
        chunks = self._array.from_array(array, chunks=(rows, *array.shape[1:]))
        if self._client is None:
            return chunks
        from distributed import wait

        held = self._client.persist(chunks)
        wait(held)
        return held

    def threads(self) -> int | None:
        if self._client is not None:
            return int(sum(self._client.nthreads().values()))
        from dask.system import CPU_COUNT

        return self._threads or int(CPU_COUNT)

    def close(self) -> None:
        self._stack.close()


def _client(server: Any) -> Any:
    """A client of a cluster all of whose workers are there; of the user's own, of one at least."""
    from distributed import Client, TimeoutError

    own = isinstance(server, Cluster)
    try:
        client = Client(server.launch() if own else server.url, timeout="30s", set_as_default=True)
    except (OSError, TimeoutError) as error:
        raise unreachable(server, error) from None
    late = time.monotonic() + ARRIVAL_SECONDS
    while True:
        try:
            client.wait_for_workers(server.workers if own else 1, timeout=LOOK_SECONDS)
            return client
        except TimeoutError as error:
            if own and not server.whole():
                raise ConnectionError("a process of its cluster ended before its workers were there") from None
            if time.monotonic() > late:
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
        Setting(
            "workers", integer(0, 256), 0, "a cluster of so many workers, a process each; 0: threads of one process"
        ),
        user_server.setting("tcp", "tls"),
    ),
)
