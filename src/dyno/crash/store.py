"""Stores for crash tests: opening a store, and judging its contents after a crash."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.engine import Engine, EngineSpec, Server
from dyno.contracts.model import Refused, Tier, Value
from dyno.contracts.suite import History, Job

CLIENTS = 1
OK, LOST, TORN, CORRUPT, REFUSED, CRASH, HANG = "ok", "lost", "torn", "corrupt", "refused", "crash", "hang"
"""Outcomes of a crash; docs/reference/crash-findings.md explains them."""
PROMISES = {Tier.VOLATILE: (), Tier.PROCESS: ("killed",), Tier.POWER: ("killed", "cut")}
"""Kinds of crash that an acknowledged commit survives, by tier."""


@dataclass(frozen=True)
class CrashTarget:
    """An engine at a tier, with a suite whose port it is used through. Plain data that processes exchange as JSON."""

    suite: str
    engine: str
    tier: str
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int

    @property
    def spec(self) -> EngineSpec:
        """Declaration of the engine for the suite's port."""
        spec = registry.through(registry.suite(self.suite), registry.engine(self.engine))
        assert spec is not None
        return spec

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
        """Opens the engine's store below `home`, after starting the engine's server (if any).

        The server is killed at the end. With `stop` it is shut down in order.
        """
        spec, options = self.spec, self.spec.resolve(self.options)
        with ExitStack() as stack:
            server: Server | None = None
            if spec.server is not None and (
                server := spec.server(home / "server", Tier(self.tier), options, CLIENTS)
            ):
                if not server.own:
                    raise Refused("it is your own server, which Dyno doesn't crash")
                stack.callback(server.close)
                server.start()
                if stop:
                    stack.callback(server.stop)
            directory = home / "store"
            directory.mkdir(parents=True, exist_ok=True)
            yield stack.enter_context(closing(self._job(home, server).open(directory))), server


@dataclass(frozen=True)
class Judgement:
    """Judgement of one store after one crash."""

    outcome: str
    why: str = ""
    held: int | None = None
    """Number of transactions in the store, if it holds exactly the first ones; None otherwise."""
    lost: int = 0
    """Number of acknowledged transactions that are missing."""

    @property
    def sound(self) -> bool:
        return self.outcome == OK


def judge(history: History, contents: Mapping[str, Any], acknowledged: int, begun: int) -> Judgement:
    """Judges the contents of a store: valid if they are the state after c transactions,
    acknowledged <= c <= begun.
    """
    held = next((count for count in range(begun, -1, -1) if history.state(count) == contents), None)
    if held is None:
        return Judgement(TORN, _difference(history, contents, acknowledged, begun))
    if held < acknowledged:
        lost = acknowledged - held
        return Judgement(LOST, f"{lost} of {acknowledged} acknowledged commits are not there", held, lost)
    return Judgement(OK, held=held)


def _difference(history: History, contents: Mapping[str, Any], acknowledged: int, begun: int) -> str:
    """Describes how the contents differ from the most similar state."""
    differing: dict[int, list[str]] = {}
    for count in range(begun, max(0, acknowledged - 20) - 1, -1):
        state = history.state(count)
        differing[count] = sorted(name for name in {*state, *contents} if state.get(name) != contents.get(name))
    nearest = min(differing, key=lambda count: (len(differing[count]), -count))
    names = differing[nearest]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"it holds no state that ever existed; nearest is the one after {nearest} commits, except for {shown}"
