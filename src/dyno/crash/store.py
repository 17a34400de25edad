"""One store that is to crash: what both processes are told of it, the one that commits and the one that judges.

Nothing is decided here of when it crashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.engine import Engine, EngineSpec, Server
from dyno.contracts.model import Refused, Tier, Value
from dyno.contracts.suite import History, Job

CLIENTS = 1


@dataclass(frozen=True)
class Target:
    """An engine at a tier, through a suite's port, as plain data: it goes from one process to another as JSON."""

    suite: str
    engine: str
    tier: str
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int

    def data(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def spec(self) -> EngineSpec:
        """As it is through the port of the suite."""
        found = registry.through(registry.suite(self.suite), registry.engine(self.engine))
        assert found is not None
        return found

    def history(self, home: Path = Path()) -> History:
        proof = registry.suite(self.suite).proof
        assert proof is not None and proof.history is not None
        return proof.history(self._job(home, None))

    def _job(self, home: Path, server: Server | None) -> Job:
        spec = self.spec
        options = spec.resolve(self.options)
        return Job(spec, home, Tier(self.tier), options, self.params, self.seed, CLIENTS, server=server)

    @contextmanager
    def open(self, home: Path, stop: bool = False) -> Iterator[tuple[Engine, Server | None]]:
        """The engine with its store below `home`, by the adapter's own options, and its server, which is ended
        without any ado unless it is to be stopped."""
        spec, options = self.spec, self.spec.resolve(self.options)
        with ExitStack() as open_:
            server: Server | None = None
            if spec.server is not None and (
                server := spec.server(home / "server", Tier(self.tier), options, CLIENTS)
            ):
                if not server.own:
                    raise Refused("it is your own server, which is not for Dyno to crash")
                open_.callback(server.close)
                server.start()
                if stop:
                    open_.callback(server.stop)
            place = home / "store"
            place.mkdir(parents=True, exist_ok=True)
            yield open_.enter_context(closing(self._job(home, server).open(place))), server
