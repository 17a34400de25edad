"""sysbench: an outside tool that measures processor and memory, and tells what it measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec
from dyno.engines._shared import sysbench
from dyno.model import Caveat, Tier, Value
from dyno.suite import Report


class Sysbench:
    """Nothing is opened: each phase runs the program."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._version = sysbench.version()

    def close(self) -> None:
        pass

    def version(self) -> str:
        return self._version

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Primes:
    """The port `primes`: its test `cpu`."""

    def __init__(self, engine: Sysbench) -> None:
        self._tool = engine.version()

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        words = [*sysbench.words(threads, limit_ns, events * threads), "cpu", f"--cpu-max-prime={limit}", "run"]
        return sysbench.Result.of(sysbench.run(words)).report(self._tool)

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="sysbench",
    title="sysbench, an outside tool for processor and memory",
    opener=Sysbench,
    ports={"primes": PortSpec(Primes)},
    tiers={},
    packages=("sysbench",),
    needs=lambda options: sysbench.missing(),
    clients="threads",
)
