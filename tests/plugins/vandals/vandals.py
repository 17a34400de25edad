"""Test engines, not real ones, that damage the harness: the pipe of the results, the clocks, the run's own processes
and directories. Each is the memory engine, and does its damage when the loaded store is first read. Their answers are
right. Not for measurements.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.ordered_kv import KVReader
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines import memory

DEEP = 100_000
FLOOD = 100 << 20
SLOW = 20
SLEEP_SECONDS = 0.5


class Store(memory.Memory):
    """The memory engine with one act of damage, done once."""

    def __init__(
        self, act: Callable[[str, Path], object], home: Path, tier: Tier, options: Mapping[str, Value]
    ) -> None:
        super().__init__(home, tier, options)
        self._act, self._home, self._how = act, home, str(options["how"])
        self.pause = int(options["get_ms"]) / 1_000
        # Spares the stores of conformance checks and of inserting phases.
        self.due = home.name == "loaded"

    def act(self) -> None:
        if self.due:
            self.due = False
            self._act(self._how, self._home)


class Reads(KVReader):
    def __init__(self, engine: Store) -> None:
        self._engine, self._store, self._pause = engine, engine.store, engine.pause

    def get(self, key: bytes) -> bytes | None:
        self._engine.act()
        if self._pause:
            time.sleep(self._pause)
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

FIGURES = {"operations": 5 * 10**17, "items": 5 * 10**17, "elapsed_ns": 1_000, "busy_ns": 1_000, "errors": 0}
SAID = {"first_error": None, "void": None, "reported_by": None, "facts": {}, "by_kind": {}, "by_part": {}}
SAMPLE = {"phase": "rand-key", "unit": "op", "ended_by": "count", "checked": 10, **FIGURES, **SAID}
"""A sample that claims 5 * 10^23 operations per second."""
WRITTEN = {
    # An event without clock readings.
    "sample": json.dumps({"event": "sample", "sample": SAMPLE}).encode() + b"\n",
    "nested": b"[" * DEEP + b"]" * DEEP + b"\n",
    "bytes": bytes(range(256)) + b"\n",
    "flood": b"x" * FLOOD,
}


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
            left = memoryview(WRITTEN[how])
            while left:
                left = left[os.write(descriptor, left) :]
    if how == "close":
        # Sends nothing more, and does not end by itself.
        time.sleep(600)


# -- clocks -----------------------------------------------------------------------------------------------------

CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")


def bend(factor: float, how: str, home: Path) -> None:
    """Replaces Python's clocks by clocks that run `factor` times as fast: in the module `time` only, or in every
    module, as test libraries do that freeze time.
    """
    bent = {getattr(time, name): _bent(getattr(time, name), factor) for name in CLOCKS}
    for module in list(sys.modules.values()) if how == "everywhere" else [time]:
        for name, value in list(vars(module).items()):
            with suppress(TypeError):
                if value in bent and module is not sys.modules[__name__]:
                    setattr(module, name, bent[value])
    # Long enough that the clocks diverge on any machine.
    time.sleep(SLEEP_SECONDS)


def _bent(clock: Callable[[], Any], factor: float) -> Callable[[], Any]:
    begin = clock()
    return lambda: begin + type(begin)((clock() - begin) * factor)


# -- processes and directories of the run -------------------------------------------------------------------------

IMMUTABLE = 0x10
CANARY = "canary"
_FILE = 4096


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


def _make_immutable(trial: Path) -> None:
    kept = trial / "kept"
    kept.mkdir()
    (kept / "file").touch()
    for path in (kept / "file", kept):
        with path.open("rb") if path.is_file() else _directory(path) as descriptor:
            fcntl.ioctl(descriptor, 0x40086602, struct.pack("i4x", IMMUTABLE))


class _directory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDONLY)
        return self._descriptor

    def __exit__(self, *raised: object) -> None:
        os.close(self._descriptor)


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


def _replace_by_link(trial: Path) -> None:
    trial.rename(trial.with_name("moved"))
    trial.symlink_to(os.environ["VANDALS_CANARY"])


def _signal_forker(number: signal.Signals) -> None:
    # The fork server is the other child of the run's process.
    for process in psutil.Process(os.getppid()).children():
        if process.pid != os.getpid():
            process.send_signal(number)


def _limit(trial: Path) -> None:
    import resource

    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(kind, (0, 0))


SPOILS: Mapping[str, Callable[[Path], object]] = {
    "run-directory": _remove_run,
    "rights": _take_rights,
    "immutable": _make_immutable,
    "mounts": _mount,
    "link": _replace_by_link,
    "stop-forker": lambda trial: _signal_forker(signal.SIGSTOP),
    "kill-forker": lambda trial: _signal_forker(signal.SIGKILL),
    "real-time-signal": lambda trial: os.kill(os.getpid(), signal.SIGRTMIN + 6),
    "change-directory": lambda trial: os.chdir("/"),
    "limits": _limit,
    "descriptors": lambda trial: os.closerange(0, 1024),
}


# -- declarations -------------------------------------------------------------------------------------------------


def declare(name: str, title: str, act: Callable[[str, Path], object], *how: str, **more: Any) -> EngineSpec:
    return replace(
        memory.ENGINE,
        name=name,
        title=f"Test engine: {title}",
        opener=partial(Store, act),
        ports={"ordered-kv": PortSpec(Keys)},
        options=(
            Setting("how", choice(*how), how[0], "what it does"),
            Setting("get_ms", integer(0), 0, "how long a get takes at least, in milliseconds"),
        ),
        by_default=False,
        **more,
    )


GARBLER = declare("garbler", "writes to the worker's pipe", scribble, *WRITTEN, "close")
SLOWED = declare("slowed", "slows the clocks down", partial(bend, 1 / SLOW), "modules", "everywhere")
HURRIED = declare("hurried", "has the clocks run fast", partial(bend, SLOW), "modules", "everywhere")
SLOWED_THREADS = replace(SLOWED, name="slowed-threads", clients="threads")
VANDAL = declare("vandal", "spoils what the run is made of", spoil, *SPOILS)
