"""Shared by the conformance tests of the records suite: the stores to test, and how to open them.

A store is an engine with a tier, options and an encoder. Checks belong elsewhere.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dyno import registry
from dyno.contracts.engine import EngineSpec, Server
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job, Opened
from dyno.suites.records.port import Records
from dyno.suites.records.workload import open_port

PORTS = ("records", "ordered-kv")
"""Ports in the order in which the suite `records` prefers them."""
JOURNALS = ("wal", "delete", "truncate", "persist", "memory")


@dataclass(frozen=True)
class Store:
    """One engine, one tier, one set of options."""

    spec: EngineSpec
    tier: Tier
    given: Mapping[str, str] = field(default_factory=dict)
    encoder: str = "msgpack"

    def __post_init__(self) -> None:
        """Selects the port that the suite `records` would select."""
        if len(self.spec.ports) > 1:
            port = next(port for port in PORTS if port in self.spec.ports)
            object.__setattr__(self, "spec", self.spec.reduce_to_port(port))

    def __str__(self) -> str:
        options = "".join(f"-{value}" for value in self.given.values())
        encoder = "" if self.encoder == "msgpack" else f"-{self.encoder}"
        return f"{self.spec.name}-{self.tier.value}{options}{encoder}"

    @contextmanager
    def open(self, home: Path, indexed: bool = True, server: Server | None = None) -> Iterator[Records]:
        """Opens a port on the store in `home`, and creates the store if it doesn't exist. Closes engine and port at
        the end.

        Unless `server` is given, an engine that needs a server gets one in `home`, which is closed at the end too.
        """
        home.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            if server is None and (server := self.server(home / "server")):
                opened.enter_context(closing(server)).start()
            options, params = self.spec.resolve(self.given), {"encoder": self.encoder}
            job = Job(self.spec, home, self.tier, options, params, seed=1, clients=1, server=server)
            engine = opened.enter_context(closing(job.open(home)))
            yield opened.enter_context(closing(open_port(job, engine, indexed)))

    def server(self, home: Path) -> Server | None:
        """A server for the store, not started, or None if the engine has no server."""
        return self.spec.create_server(home, self.tier, self.spec.resolve(self.given), 1)

    def opened(self, home: Path) -> Opened:
        """A function that opens stores by name, for the checks of `dyno.suites.records.conformance`. The stores are
        under `home`; stores of a server are on a shared server that runs until the tests end.
        """
        server = shared(self)

        def opened(name: str, indexed: bool) -> AbstractContextManager[Records]:
            return self.open(home / name, indexed, server)

        return opened


_SHARED: dict[str, Server | None] = {}
SHARING = ExitStack()
"""Closed when the tests of this process end."""


def shared(store: Store) -> Server | None:
    """A started server for all tests of equal stores."""
    name = f"{store.spec.name} {store.tier.value} {sorted(store.given.items())}"
    if name not in _SHARED:
        # Import here: the process that the durability tests start can't import `shell`.
        from shell import DISK

        place = Path(tempfile.mkdtemp(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None))
        place.chmod(0o755)
        # Callbacks run in reverse order: the server ends before its directory is removed.
        SHARING.callback(shutil.rmtree, place, ignore_errors=True)
        server = _SHARED[name] = store.server(place / "server")
        if server is not None:
            server.start()
            SHARING.callback(server.close)
    return _SHARED[name]


def engines() -> list[EngineSpec]:
    """Every engine that supports the records suite and stores data, installed or not."""
    return [spec for spec in registry.engines() if not spec.floor and any(port in spec.ports for port in PORTS)]


def stores(*tiers: Tier) -> list[Store]:
    """Every engine with its default options, at each of the `tiers` that it supports."""
    return [Store(spec, tier) for spec in engines() for tier in spec.tiers if tier in tiers]


def journals(*tiers: Tier) -> list[Store]:
    """SQLite with each journal mode that it accepts at the tier."""
    spec = registry.engine("sqlite")
    every = [Store(spec, tier, {"journal_mode": mode}) for tier in tiers for mode in JOURNALS]
    return [store for store in every if spec.refuse(store.tier, spec.resolve(store.given)) is None]
