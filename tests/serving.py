"""Helpers for tests of engines with servers: a store with its own server, which the test starts and stops, and its
records.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job
from dyno.suites.records.port import Key, Record


def free_port() -> int:
    """A free port that leaves room for a Redis cluster bus, whose port is 10,000 higher."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        if port <= 55_535:
            return port


def job(home: Path, engine: str, tier: Tier, **given: str) -> Job:
    """A store in `home`, with its server, which is not started."""
    spec = registry.engine(engine)
    options = spec.resolve(given)
    assert spec.server is not None
    server = spec.create_server(home.with_name(f"{home.name}-server"), tier, options, 1)
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


def record(number: int, stub: str = "x") -> Record:
    """A record whose key sorts by its number."""
    return {"name": f"n{number:06}", "location": f"l{number % 7}", "stub": stub}


def key(one: Record) -> Key:
    return one["name"], one["location"]


def everything(port: Any) -> list[Record]:
    """All records of a store, in the order of their keys."""
    found: list[Record] = port.reader().scanner(100_000)(("", ""))
    return found
