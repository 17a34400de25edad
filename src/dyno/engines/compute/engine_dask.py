"""Dask: NumPy arrays in chunks, computed by threads or by the workers of a cluster."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import Server, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import CHUNK, THREADS, FunctionPort, Library, declare, library, select
from dyno.host.process import is_running
from dyno.servers import process, user_server
from dyno.servers.process import Process
from dyno.servers.user_server import URL, UserServer, unreachable_error

if TYPE_CHECKING:
    import numpy as np
    from distributed import Client

HOST = "127.0.0.1"
QUIET = ("--no-dashboard", "--host", HOST)


class Cluster(process.Cluster[Process]):
    """A local scheduler and workers, each in its own process. The port calls `launch`, because starting the cluster
    is part of what is measured. A dead worker is not replaced: its data is lost, and the trial fails."""

    def __init__(self, home: Path, workers: int, threads: int) -> None:
        self.workers, self._scheduler_file = workers, home / "scheduler.json"
        scheduler = ("--scheduler-file", str(self._scheduler_file))
        nodes = [_process(home / "scheduler", lambda: bool(self._address()), "scheduler", "--port", "0", *scheduler)]
        for number in range(workers):
            own = ("--no-nanny", "--nthreads", str(threads), "--memory-limit", "0", "--name", str(number))
            directory = ("--local-directory", str(home / f"worker-{number}"), "--death-timeout", "20")
            # Don't wait here: the scheduler knows when the worker has arrived.
            nodes.append(_process(home / f"worker-{number}", lambda: True, "worker", *scheduler, *own, *directory))
        super().__init__(nodes)

    def start(self) -> None:
        """Does nothing: see `launch`."""

    def launch(self) -> str:
        """Starts the cluster unless it runs; returns the scheduler's address."""
        if not list(self.pids()):
            self._scheduler_file.unlink(missing_ok=True)
            super().start()
        return self._address()

    def _address(self) -> str:
        try:
            return str(json.loads(self._scheduler_file.read_text())["address"])
        except (OSError, ValueError, KeyError):
            # The file is not written yet, or only in part.
            return ""

    def whole(self) -> bool:
        """Returns whether all processes still run."""
        return all(map(is_running, self.pids()))


def _process(home: Path, ready: Callable[[], bool], *words: str) -> Process:
    return Process([sys.executable, "-m", "dask", *words, *QUIET], home, ready)


ARRIVAL_SECONDS, POLL_SECONDS = 60, 0.5
"""Seconds to wait for workers, and seconds between checks that they can still arrive."""


class Dask(library("Dask", "dask", "distributed", "numpy")):  # type: ignore[misc]
    """Dask as an engine. The port starts the cluster or connects to it."""

    def caveats(self) -> Iterable[Caveat]:
        if self.server is not None and not self.server.own:
            yield Caveat("declared", "is on your own cluster, whose workers Dyno can't check")


def compute(engine: Library) -> FunctionPort:
    """Returns a port that computes by threads, or by the workers of a cluster."""
    import dask
    import dask.array as da
    from dask.system import CPU_COUNT

    client: Client | None = None
    if engine.server is not None:
        client = _client(engine.server)
        close, threads = client.close, int(sum(client.nthreads().values()))
    else:
        threads = engine.threads or int(CPU_COUNT)
        setting = dask.config.set(scheduler="threads", num_workers=threads)
        close = partial(setting.__exit__, None, None, None)

    def chunks(array: np.ndarray) -> da.Array:
        """Splits the array into a chunk per thread, or more if too large. A cluster's workers hold them."""
        rows = min(-(-len(array) // max(threads, 1)), CHUNK)
        parts = da.from_array(array, chunks=(rows, *array.shape[1:]))
        if client is None:
            return parts
        from distributed import wait

        persisted = client.persist(parts)
        wait(persisted)
        return persisted

    return FunctionPort(
        {
            "avg": lambda x: x.mean().compute(),
            "max": lambda x: x.max().compute(),
            "sin": lambda x: da.sin(x).compute(),
            "sum": lambda x: x.sum().compute(),
            "sum2d": lambda grid: grid.sum(axis=0).compute(),
            "corr": lambda pair: da.corrcoef(*pair)[0, 1].compute(),
        },
        lambda arrays: select({name: chunks(array) for name, array in arrays.items()}),
        threads,
        close,
    )


def _client(server: Any) -> Client:
    """Returns a client when all workers have arrived. For the user's own cluster, one worker is enough."""
    from distributed import Client, TimeoutError

    own = isinstance(server, Cluster)
    try:
        client = Client(server.launch() if own else server.url, timeout="30s", set_as_default=True)
    except (OSError, TimeoutError) as error:
        raise unreachable_error(server, error) from None
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
    if workers:
        return Cluster(home, workers, int(str(options["threads"])) or 1)
    return None


ENGINE = declare(
    "dask",
    "Dask, arrays in chunks, by threads or on a cluster",
    Dask,
    compute,
    installation=Installation(modules=("dask", "distributed"), requires=("dask[array,distributed]>=2024.1",)),
    server=ServerSpec(serve),
    options=(
        THREADS,
        Setting("workers", integer(0, 256), 0, "workers of a local cluster, a process each; 0 for threads instead"),
        user_server.setting("tcp", "tls"),
    ),
)
