"""Fault-injecting test engines, not real ones: each has one fault that a real engine may have.

Tests put this directory on PYTHONPATH. The entry points are in `faulty-0.1.dist-info` beside it, so that Dyno finds
the engines like any plug-in's. All but `client-crasher` are the memory engine with a fault in its reads, its opener
or its closing. A fault starts after `after` reads of an opened store and then affects every `every`th read. It spares
the conformance checks that run before measuring, unless `early=yes`. Not for measurements.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from dyno.contracts.engine import EngineSpec, Listing, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Refused, Tier, Unavailable, Value
from dyno.contracts.settings import Setting, boolean, choice, integer
from dyno.engines import lmdb, memory
from dyno.suites._shared.ordered_kv import KVReader, Pending

LEAK = 2 << 20
NOISE = 64 << 10
SLEEP = ("sleep", "600")
FOREVER = threading.Event()


class Store(memory.Memory):
    """The memory engine. It knows when its fault is due, and keeps the previous version of each record."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.options = options
        self.armed = bool(options["early"]) or "conformance" not in home.parts
        self.before: dict[bytes, bytes] = {}
        self._reads = 0

    def due(self) -> bool:
        """Counts a read; returns whether it must go wrong."""
        self._reads += 1
        late = self._reads - int(self.options["after"])
        return self.armed and late > 0 and late % int(self.options["every"]) == 0


class Reads(KVReader):
    """Reads of the store. The method `fault` answers every read that must go wrong."""

    def __init__(self, engine: Store) -> None:
        self.engine, self.store = engine, engine.store

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self.store.get(key)
        return self.fault(key, value) if self.engine.due() else value

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((found, self.store[found]) for found in self.store.irange(key))

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        return value


class Keys(memory.Keys):
    """The `ordered-kv` port of the memory engine, with faulty reads."""

    def __init__(self, reads: type[Reads], engine: Store) -> None:
        super().__init__(engine)
        self._reads, self._engine = reads, engine

    def reading(self) -> AbstractContextManager[Reads]:  # type: ignore[override]
        return nullcontext(self._reads(self._engine))

    def _commit(self, pending: Pending) -> None:
        self._engine.before.update((key, self._store[key]) for key in pending if key in self._store)
        super()._commit(pending)


# -- wrong answers --------------------------------------------------------------------------------------------


class Wrong(Reads):
    """Returns another record's bytes."""

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        # Keys of records begin with 'r', and keys of index entries with letters that sort before it.
        others = (self.store[other] for other in self.store.irange(b"r") if other != key)
        return next(others, value)


class Stale(Reads):
    """Returns the previous version of a record, if it has one."""

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        return self.engine.before.get(key, value)


class Missing(Reads):
    """Returns nothing."""

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        return None


class Surplus(Reads):
    """Returns the first entry of a scan twice. Its gets are right."""

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        entries = super().seek(key)
        first = next(entries, None)
        if first is not None:
            yield first
            if self.engine.due():
                yield first
        yield from entries


# -- crashes, hangs, memory -----------------------------------------------------------------------------------


def segfault() -> None:
    ctypes.string_at(0)


class Crashing(Reads):
    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        segfault()
        return value


class CrashingOnce(Reads):
    """Crashes the process if no earlier process did. The file that FAULTY_STATE names remembers the crash."""

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        state = Path(os.environ["FAULTY_STATE"])
        if not state.exists():
            state.touch()
            segfault()
        return value


class Exiting(Reads):
    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        os._exit(int(self.engine.options["status"]))


class Hanging(Reads):
    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        if self.engine.options["where"] == "get":
            FOREVER.wait()
        return value


class HangingStore(Store):
    """Hangs when it is closed, or delays the interpreter's exit."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        if self.armed and options["where"] == "exit":
            threading.Thread(target=FOREVER.wait, daemon=False).start()

    def close(self) -> None:
        if self.armed and self.options["where"] == "close":
            FOREVER.wait()
        super().close()


class Waiting(Reads):
    """Blocks until the directory that FAULTY_GATE names has a file `open`.

    Each process leaves a file `arrived-PID` there; the first FAULTY_FREE processes pass without waiting.
    """

    _passed = False

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        if not Waiting._passed:
            Waiting._passed = True
            gate = Path(os.environ["FAULTY_GATE"])
            earlier = len(list(gate.glob("arrived-*")))
            (gate / f"arrived-{os.getpid()}").touch()
            while earlier >= int(os.environ["FAULTY_FREE"]) and not (gate / "open").exists():
                time.sleep(0.01)
        return value


class Leaking(Reads):
    """Allocates and touches memory without end, or raises MemoryError."""

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        if self.engine.options["how"] == "raise":
            raise MemoryError("no memory left")
        hoard = []
        while True:
            hoard.append(b"\1" * LEAK)
            # Slow enough that Dyno ends the process well before the machine suffers.
            time.sleep(0.002)


# -- output, errors, leftovers --------------------------------------------------------------------------------


class Printing(Reads):
    """Writes text that looks like a worker's events to standard output and standard error, 64 KiB at a time."""

    EVENTS = b"".join(
        b"\n" + json.dumps(event).encode() + b"\n"
        for event in (
            {"event": "phase", "phase": "delete"},
            {"event": "end", "outcome": "wrong", "why": "printed", "resources": {}},
            {"event": "sample", "sample": {"phase": "rand-key", "unit": "op", "void": "printed"}},
        )
    )

    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        noise = self.EVENTS * (NOISE // len(self.EVENTS))
        for descriptor in (1, 2):
            os.write(descriptor, noise)
        return value


class Raising(Reads):
    def fault(self, key: bytes, value: bytes | None) -> bytes | None:
        raise OSError("the disk is on strike")


class Hoarding(Keys):
    """Keeps the index entries of deleted records. Keys of records begin with 'r'."""

    def _commit(self, pending: Pending) -> None:
        armed = self._engine.armed
        super()._commit({k: v for k, v in pending.items() if v is not None or k.startswith(b"r") or not armed})


class Refusing(Store):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        if options["for_ever"]:
            raise Refused("this engine does not feel like it")
        raise Unavailable("can't connect to its server: Connection closed by server")


class Unopenable(Store):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        raise RuntimeError("no license found")


class Garbled(Store):
    """Its settings can't be read, like those of a server in whose response a byte was changed."""

    def settings(self) -> Mapping[str, Value | None]:
        return dict([("sync", "yes"), ("l",)])  # type: ignore[list-item, arg-type]


class Forking(Store):
    """Leaves a sleeping process behind: a started program, a fork, or a fork in a separate session."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        if options["how"] == "spawn":
            subprocess.Popen(SLEEP)
        elif options["how"] == "detach":
            subprocess.Popen(SLEEP, start_new_session=True)
        elif os.fork() == 0:
            # Keeps every descriptor of its parent open, including the worker's pipe.
            time.sleep(600)
            os._exit(0)


class ClientKeys(lmdb.Keys):
    """LMDB's port, whose second client process crashes, either when it connects or during its operations."""

    def __init__(self, engine: lmdb.Lmdb) -> None:
        self._crashes = multiprocessing.current_process().name.endswith("Process-2")
        if self._crashes and os.environ["FAULTY_CLIENT"] == "start":
            segfault()
        super().__init__(engine)

    def reading(self) -> lmdb.Reader:
        if self._crashes:
            segfault()
        return super().reading()


# -- declarations ---------------------------------------------------------------------------------------------


def declare(
    name: str,
    title: str,
    reads: type[Reads] = Reads,
    opener: type[Store] = Store,
    after: int = 0,
    every: int = 1,
    options: tuple[Setting, ...] = (),
) -> EngineSpec:
    """The memory engine's declaration with the fault."""
    common = (
        Setting("after", integer(0), after, "reads of a store before the fault sets in"),
        Setting("every", integer(1), every, "how many reads there are for each that goes wrong"),
        Setting("early", boolean, False, "whether the fault spares no conformance check"),
    )
    return replace(
        memory.ENGINE,
        name=name,
        title=f"Test engine: {title}",
        opener=opener,
        ports={"ordered-kv": PortSpec(partial(Keys, reads))},
        options=(*common, *options),
        listing=Listing(by_default=False),
    )


def one_of(name: str, *values: str) -> Setting:
    return Setting(name, choice(*values), values[0], "where or how the fault shows")


LIAR_WRONG = declare("liar-wrong", "one get in 20,000 returns another record", Wrong, every=20_000)
LIAR_STALE = declare("liar-stale", "some gets return the version before", Stale, every=3)
LIAR_MISSING = declare("liar-missing", "some gets return nothing", Missing, every=50)
LIAR_SURPLUS = declare("liar-surplus", "some scans return a record twice", Surplus, every=5)
CRASHER = declare("crasher", "segfaults in a get", Crashing, after=1000)
CRASH_ONCE = declare("crash-once", "segfaults in a get, the first time", CrashingOnce, after=100)
HOARDER = replace(
    declare("hoarder", "keeps the index entries of deleted records"),
    ports={"ordered-kv": PortSpec(partial(Hoarding, Reads))},
)
EXITER = declare(
    "exiter",
    "ends its process in a get",
    Exiting,
    after=100,
    options=(Setting("status", integer(0, 255), 3, "exit status"),),
)
HANGER = declare(
    "hanger",
    "blocks for ever",
    Hanging,
    HangingStore,
    after=100,
    options=(one_of("where", "get", "close", "exit"),),
)
WAITER = declare("waiter", "blocks until it may go on", Waiting, after=100)
LEAKER = declare("leaker", "takes memory for ever", Leaking, after=100, options=(one_of("how", "take", "raise"),))
PRINTER = declare("printer", "prints what nobody wants to read", Printing, every=20)
RAISER = declare("raiser", "some gets raise", Raising, every=100)
REFUSER = declare(
    "refuser",
    "refuses to be opened",
    opener=Refusing,
    options=(Setting("for_ever", boolean, True, "whether another attempt is refused too"),),
)
OPENER_ERROR = declare("opener-error", "fails to be opened", opener=Unopenable)
GARBLED = declare("garbled", "its settings can't be read", opener=Garbled)
FORKER = declare(
    "forker", "leaves a process behind", opener=Forking, options=(one_of("how", "spawn", "fork", "detach"),)
)
CLIENT_CRASHER = replace(
    lmdb.ENGINE,
    name="client-crasher",
    title="Test engine: one of its clients segfaults",
    ports={"ordered-kv": PortSpec(ClientKeys)},
    listing=Listing(by_default=False),
)
ABSENT = replace(
    declare("absent", "needs a module that nobody has"),
    installation=Installation(modules=("dyno_no_such_module",), requires=("dyno-no-such-module",)),
)
