"""Helpers for tests of engines with servers: a store with its own server, which the test starts and stops."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job


def job(home: Path, engine: str, tier: Tier, **given: str) -> Job:
    """A store in `home`, with its server, which is not started."""
    spec = registry.engine(engine)
    options = spec.resolve(given)
    assert spec.server is not None
    server = spec.server(home.with_name(f"{home.name}-server"), tier, options, 1)
    home.mkdir(parents=True, exist_ok=True)
    return Job(spec, home, tier, options, {}, seed=1, clients=1, server=server)


@contextmanager
def served(asked: Job) -> Iterator[Any]:
    """Starts the job's server and yields it, typed as Any because servers differ."""
    server: Any = asked.server
    with closing(server):
        server.start()
        yield server


@contextmanager
def opened(asked: Job) -> Iterator[Any]:
    """The port on the job's store, whose server must be running."""
    with (
        closing(asked.open(asked.home)) as engine,
        closing(asked.spec.ports["records"].open(engine, True)) as port,
    ):
        yield port


def kill_at_moments(churn: Callable[[], object], count: int) -> None:
    """Runs `churn` again and again in `count` processes, one after the other, and kills each by SIGKILL, at a moment
    that moves through the second run from its beginning to its end."""
    for number in range(count):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            # Nothing of pytest may run in this process.
            try:
                while True:
                    os.write(writing, b"x")
                    churn()
            finally:
                traceback.print_exc()
                os._exit(1)
        os.close(writing)
        os.read(reading, 1)
        began = time.monotonic()
        os.read(reading, 1)
        time.sleep((time.monotonic() - began) * number / count)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(reading)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
