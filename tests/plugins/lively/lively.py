"""Test engines, not real ones, with side effects that a measurement must notice.

`mapper` is SQLite, and keeps its files mapped after it is closed, so that they can't leave the page cache. `restless`
is the memory engine, and goes on working for some time after its first commit. `served` is the memory engine, whose
gets wait for a process that reads and computes, and whose first commit can make that process grow. `burner` is LMDB,
whose gets consume a set amount of CPU time. `hoarder` is the memory engine, whose first commit needs much memory.
Their answers are right. Not for measurements.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Listing, PortSpec, ServerSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines import lmdb, memory, sqlite
from dyno.servers.process import Process
from dyno.suites._shared.ordered_kv import KVReader, Pending

LATE_BYTES = 1 << 20
PAGE = 4096


def is_measured(home: Path) -> bool:
    """Excludes the conformance checks, which open many stores."""
    return "conformance" not in home.parts


# -- files that stay mapped -----------------------------------------------------------------------------------

MAPPED: list[mmap.mmap] = []
HOLD = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sum(held[::4096])
print(flush=True)
sys.stdin.read()
"""


class Mapper(sqlite.SQLite):
    """When it is closed, its files are mapped and touched, by this process or by one that it leaves behind."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self._home, self._by = home, options["by"]

    def close(self) -> None:
        super().close()
        for path in self.files() if is_measured(self._home) else ():
            if path.stat().st_size:
                self._hold(path)

    def _hold(self, path: Path) -> None:
        if self._by == "itself":
            with path.open("rb") as file:
                MAPPED.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            sum(MAPPED[-1][::PAGE])
            return
        # The child ends with this process, which closes the other end of its pipe.
        words = [sys.executable, "-I", "-S", "-c", HOLD, str(path)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()


# -- background work ------------------------------------------------------------------------------------------


class Restless(memory.Memory):
    """The first commit starts a thread, which computes or writes for `ms`, and then writes 1 MiB into the store's
    file.
    """

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self._home, self._how, self._ms = home, options["how"], int(options["ms"])
        self._thread: threading.Thread | None = None

    def committed(self) -> None:
        if is_measured(self._home) and self._thread is None:
            self._thread = threading.Thread(target=self._go_on)
            self._thread.start()

    def _go_on(self) -> None:
        deadline = time.monotonic() + self._ms / 1000
        with (self._home / "late").open("wb", buffering=0) as file:
            while time.monotonic() < deadline:
                if self._how == "write":
                    file.write(bytes(PAGE))
                    time.sleep(0.002)
            file.write(bytes(LATE_BYTES))

    def files(self) -> Iterable[Path]:
        return self._home.glob("late")

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join()
        super().close()


class RestlessKeys(memory.Keys):
    def __init__(self, engine: Restless) -> None:
        super().__init__(engine)
        self._engine = engine

    def _commit(self, pending: Pending) -> None:
        super()._commit(pending)
        self._engine.committed()


# -- a server -------------------------------------------------------------------------------------------------

PAGES = 1024
SERVE = """
import os, socket, sys, time
burn_ns, path, grow_bytes = int(sys.argv[1]) * 1000, sys.argv[2], int(sys.argv[3]) << 20
data = os.open(path, os.O_RDONLY)
listening = socket.socket(socket.AF_UNIX)
listening.bind("socket")
listening.listen()
asked = 0
while True:
    client, _ = listening.accept()
    while request := client.recv(1):
        if request == b"+":
            # The bytes are freed at once.
            len(b"x" * grow_bytes)
            client.send(b"!")
            continue
        asked += 1
        os.pread(data, 4096, asked * 389 % 1024 * 4096)
        until = time.process_time_ns() + burn_ns
        while time.process_time_ns() < until:
            pass
        client.send(b"!")
"""


class Serving(Process):
    """Server process that reads a page of a file and burns CPU time for each question mark that it receives. For a
    plus sign it needs memory."""

    def __init__(self, home: Path, burn_us: int, grow_mib: int) -> None:
        self.data, self.socket = home / "data", home / "socket"
        words = [sys.executable, "-I", "-S", "-c", SERVE, str(burn_us), str(self.data), str(grow_mib)]
        super().__init__(words, home, self.socket.exists)

    def start(self) -> None:
        self.home.mkdir(exist_ok=True)
        if not self.data.exists():
            self.data.write_bytes(os.urandom(PAGES * PAGE))
        self.socket.unlink(missing_ok=True)
        super().start()


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Serving:
    return Serving(home, int(options["burn_us"]), int(options["grow_mib"]))


class Served(memory.Memory):
    """The memory engine, whose gets send a request to its server and wait.

    While it is closed, its data is in a separate file.
    """

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Serving) -> None:
        super().__init__(home, tier, options)
        self._home, self._server = home, server
        self._socket: socket.socket | None = None
        self._grows = bool(options["grow_mib"])
        if not is_measured(home):
            return
        if self.kept.exists():
            self.store.update(pickle.loads(self.kept.read_bytes()))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(server.socket))

    @property
    def kept(self) -> Path:
        return self._home / "kept"

    def files(self) -> Iterable[Path]:
        return (self._server.data,)

    def ask(self, request: bytes = b"?") -> None:
        if self._socket is not None:
            self._socket.send(request)
            self._socket.recv(1)

    def committed(self) -> None:
        if self._grows:
            self._grows = False
            self.ask(b"+")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self.kept.write_bytes(pickle.dumps(dict(self.store)))
        super().close()


class ServedReads(KVReader):
    def __init__(self, engine: Served) -> None:
        self._ask, self._store = engine.ask, engine.store

    def get(self, key: bytes) -> bytes | None:
        self._ask()
        value: bytes | None = self._store.get(key)
        return value

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((found, self._store[found]) for found in self._store.irange(key))


class ServedKeys(memory.Keys):
    def __init__(self, engine: Served) -> None:
        super().__init__(engine)
        self._engine = engine

    def reading(self) -> AbstractContextManager[ServedReads]:  # type: ignore[override]
        return nullcontext(ServedReads(self._engine))

    def _commit(self, pending: Pending) -> None:
        super()._commit(pending)
        self._engine.committed()


# -- memory -----------------------------------------------------------------------------------------------------


class Hoarder(memory.Memory):
    """The first commit needs `mib` of memory, which is freed at once."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self._wanted = int(options["mib"]) << 20 if is_measured(home) else 0

    def committed(self) -> None:
        len(b"x" * self._wanted)
        self._wanted = 0


class HoarderKeys(memory.Keys):
    def __init__(self, engine: Hoarder) -> None:
        super().__init__(engine)
        self._engine = engine

    def _commit(self, pending: Pending) -> None:
        super()._commit(pending)
        self._engine.committed()


# -- work in the client ---------------------------------------------------------------------------------------


class Burner(lmdb.Lmdb):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.burn_ns = int(options["burn_us"]) * 1000 if is_measured(home) else 0


class BurnerReads(lmdb.Reader):
    def __init__(self, txn: Any, burn_ns: int) -> None:
        super().__init__(txn)
        found = self.get

        def get(key: bytes) -> Any:
            until = time.thread_time_ns() + burn_ns
            while time.thread_time_ns() < until:
                pass
            return found(key)

        self.get = get


class BurnerKeys(lmdb.Keys):
    def __init__(self, engine: Burner) -> None:
        super().__init__(engine)
        self._engine = engine

    def reading(self) -> BurnerReads:
        return BurnerReads(self._begin(), self._engine.burn_ns)


# -- declarations ---------------------------------------------------------------------------------------------


def declare(
    of: EngineSpec, name: str, title: str, opener: Callable[..., Any], *options: Setting, **more: Any
) -> EngineSpec:
    return replace(
        of,
        name=name,
        title=f"Test engine: {title}",
        opener=opener,
        options=(*of.options, *options),
        listing=Listing(by_default=False),
        **more,
    )


MAPPER = declare(
    sqlite.ENGINE,
    "mapper",
    "keeps its files mapped",
    Mapper,
    Setting("by", choice("itself", "child"), "itself", "which process maps them"),
)
RESTLESS = declare(
    memory.ENGINE,
    "restless",
    "goes on working after a commit",
    Restless,
    Setting("how", choice("compute", "write"), "compute", "what it does then"),
    Setting("ms", integer(0), 100, "for how long, in milliseconds"),
    ports={"ordered-kv": PortSpec(RestlessKeys)},
)
BURNER = declare(
    lmdb.ENGINE,
    "burner",
    "takes CPU time",
    Burner,
    Setting("burn_us", integer(0), 2_000, "CPU time of a get, in microseconds"),
    ports={"ordered-kv": PortSpec(BurnerKeys)},
)
HOARDER = declare(
    memory.ENGINE,
    "hoarder",
    "needs much memory for its first commit",
    Hoarder,
    Setting("mib", integer(0), 200, "how much, in MiB"),
    ports={"ordered-kv": PortSpec(HoarderKeys)},
)
SERVED = declare(
    memory.ENGINE,
    "served",
    "has a server",
    Served,
    Setting("burn_us", integer(0), 2_000, "CPU time of the server for a get, in microseconds"),
    Setting("grow_mib", integer(0), 0, "memory that the server needs for the first commit, in MiB"),
    ports={"ordered-kv": PortSpec(ServedKeys)},
    server=ServerSpec(serve),
)
