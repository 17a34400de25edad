"""The life of a trial's store: opened when it is wanted, released to clients that open it themselves, removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job, Workload
from dyno.host import copies
from dyno.suites._shared.conformance import brief


class OnStore(Workload):
    """A workload whose trial has one store at a time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store: Path | None = None
        self._engine: Engine | None = None
        self._new = False
        """Whether nothing has been done yet to the store."""
        self._written = False
        """Whether it has been written to since the last upkeep."""

    def checks(self) -> Mapping[str, Callable[..., None]]:
        """The conformance checks that take next to no time, by name: each is called with what opens a store by name
        (and by what `port` wants beside), and with the tier."""
        raise NotImplementedError

    def port(self, engine: Engine, *how: Any) -> Any:
        """A port on an opened engine."""
        raise NotImplementedError

    def port_arguments(self) -> tuple[Any, ...]:
        """Further arguments of `port` for the clients of a phase."""
        return ()

    @contextmanager
    def connect(self) -> Iterator[Any]:
        with closing(self.port(self.engine(), *self.port_arguments())) as port:
            yield port

    def conformance(self) -> None:
        if self._job.spec.floor:
            return
        home = self._job.home / "conformance"

        @contextmanager
        def opened(name: str, *how: Any) -> Iterator[Any]:
            (home / name).mkdir(parents=True, exist_ok=True)
            with closing(self._job.open(home / name)) as engine, closing(self.port(engine, *how)) as port:
                yield port

        brief(self.checks(), opened, self._job.tier, gaps={gap.check for gap in self._job.spec.gaps})
        for store in home.iterdir() if home.exists() else ():
            self._job.remove(store)

    def begin(self, name: str = "store") -> None:
        """A directory for the store, where the trial has none: to be called before each phase."""
        self._new = self._store is None
        if self._store is None:
            self._store = self._job.home / name
            self._store.mkdir(parents=True)

    def load(self, fill: Callable[[], None]) -> None:
        """Has the store hold what `fill` adds to what is there: to one that has just begun, the same in every
        trial for a store of that name.

        Filled once for all trials of the cell, closed and sealed: each begins with a copy, also the one that filled
        it. Where that makes no sense (a server, no files, a tier at which a closed store has lost what it held) or
        there is no room, each trial fills its own.
        """
        spec, store = self._job.spec, self._store
        assert store is not None
        lost = self._job.tier is Tier.VOLATILE
        if not self._new or self._job.sealed is None or lost or spec.server is not None or spec.remove is not None:
            fill()
            return
        sealed = self._job.sealed / store.name
        if not sealed.is_dir():
            fill()
            files = list(self.engine().files())
            if not files or not all(path.is_relative_to(store) for path in files):
                return
            self.release()
            if not copies.seal(store, sealed):
                return
            store.mkdir()
        copies.copy(sealed, store)

    def keep_up(self) -> None:
        """What the engine's administrator does before a store is used that was written to."""
        if self._written and self._job.spec.upkeep is not None:
            self._job.spec.upkeep(self.engine())
        self._written = False

    def engine(self) -> Engine:
        if self._engine is None:
            if self._store is None:
                raise RuntimeError("no phase has been prepared")
            self._engine = self._job.open(self._store)
        return self._engine

    def release(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        self.release()
        if self._store is not None:
            self._job.remove(self._store)
            self._store = None
