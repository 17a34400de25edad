"""Test engines, not real ones, that damage the harness by mistake: the pipe of the results and the run's own
directories. Each is the memory engine, and does its damage when the loaded store is first read. Their answers are
right. Not for measurements.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from dyno.contracts.engine import EngineSpec, Listing, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.engines import memory
from dyno.suites._shared.ordered_kv import KVReader


class Store(memory.Memory):
    """The memory engine with one act of damage, done once."""

    def __init__(
        self, act: Callable[[str, Path], object], home: Path, tier: Tier, options: Mapping[str, Value]
    ) -> None:
        super().__init__(home, tier, options)
        self._act, self._home, self._how = act, home, str(options["how"])
        # Spares the stores of conformance checks and of inserting phases.
        self.due = home.name == "loaded"

    def act(self) -> None:
        if self.due:
            self.due = False
            self._act(self._how, self._home)


class Reads(KVReader):
    def __init__(self, engine: Store) -> None:
        self._engine, self._store = engine, engine.store

    def get(self, key: bytes) -> bytes | None:
        self._engine.act()
        found: bytes | None = self._store.get(key)
        return found

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((found, self._store[found]) for found in self._store.irange(key))


class Keys(memory.Keys):
    def __init__(self, engine: Store) -> None:
        super().__init__(engine)
        self._engine = engine

    def reading(self) -> AbstractContextManager[Reads]:  # type: ignore[override]
        return nullcontext(Reads(self._engine))


# -- the pipe of the results ------------------------------------------------------------------------------------

WRITTEN = bytes(range(256)) + b"\n"


def pipes() -> Iterator[int]:
    """Every pipe of this process other than the standard ones."""
    for descriptor in range(3, 64):
        with suppress(OSError):
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                yield descriptor


def scribble(how: str, home: Path) -> None:
    for descriptor in pipes():
        if how == "close":
            os.close(descriptor)
        else:
            os.write(descriptor, WRITTEN)
    if how == "close":
        # Sends nothing more, and does not end by itself.
        time.sleep(600)


# -- directories and descriptors of the run -------------------------------------------------------------------------


def spoil(how: str, home: Path) -> None:
    """`home` is the store's directory, below the trial's directory, which is below the run's."""
    trial = next(above for above in home.parents if above.name.startswith("trial-"))
    SPOILS[how](trial)


def _remove_run(trial: Path) -> None:
    shutil.rmtree(trial.parent)


def _take_rights(trial: Path) -> None:
    kept = trial / "kept"
    kept.mkdir()
    (kept / "file").touch()
    for path in (kept / "file", kept, trial, trial.parent):
        path.chmod(0)


def _mount(trial: Path) -> None:
    """Mounts a file system in memory, and binds the directory that VANDALS_CANARY names."""
    for name, source, kind, flags in (
        ("in memory", b"tmpfs", b"tmpfs", 0),
        ("bound", os.fsencode(os.environ["VANDALS_CANARY"]), b"", 4096),
    ):
        place = trial / name
        place.mkdir()
        if ctypes.CDLL(None, use_errno=True).mount(source, os.fsencode(place), kind, flags, None):
            raise OSError(ctypes.get_errno(), "can't mount")
        (place / "file").touch()


SPOILS: Mapping[str, Callable[[Path], object]] = {
    "run-directory": _remove_run,
    "rights": _take_rights,
    "mounts": _mount,
    "change-directory": lambda trial: os.chdir("/"),
    "descriptors": lambda trial: os.closerange(0, 1024),
}


# -- declarations -------------------------------------------------------------------------------------------------


def declare(name: str, title: str, act: Callable[[str, Path], object], *how: str) -> EngineSpec:
    return replace(
        memory.ENGINE,
        name=name,
        title=f"Test engine: {title}",
        opener=partial(Store, act),
        ports={"ordered-kv": PortSpec(Keys)},
        options=(Setting("how", choice(*how), how[0], "what it does"),),
        listing=Listing(by_default=False),
    )


GARBLER = declare("garbler", "writes to the worker's pipe", scribble, "bytes", "close")
VANDAL = declare("vandal", "spoils what the run is made of", spoil, *SPOILS)
