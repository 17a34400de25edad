"""A recording test engine, not a real one: the memory engine, which records every call.

For each call, it appends a line of JSON to the file that RECORDER_LOG names: `pid`, `thread`, `call`, and details of
the call. `recorder` implements the `ordered-kv` port and `recorder-records` the `records` port, so that tests can
compare the calls of different ports. `recorder-b` is a second, slow `recorder`. `recorder-threads` serves several
clients. `recorder-counters` is a `recorder-threads` with counters: of gets, of its own readings, and one that
shrinks. If RECORDER_COUNTERS is set, it is the error that reading them raises. `recorder-lmdb` is LMDB, which has
files: before it opens them, it records how much of them is in the page cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.counters import COUNT, Counter, CounterSpec
from dyno.contracts.engine import Listing, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines import lmdb, memory
from dyno.host.pagecache import residency
from dyno.suites._shared.ordered_kv import Entry, KVReader, Pending
from dyno.suites.records.layer import ENCODERS, LayeredRecords
from dyno.suites.records.port import Key, Reader, Record

# Left in every store's directory, so that reuse of the directory shows.
MARKER = "used-by-recorder"


def write(call: str, **about: Any) -> None:
    """Appends one call in a single write, since other processes append to the same file."""
    line = json.dumps({"pid": os.getpid(), "thread": threading.get_ident(), "call": call, **about}) + "\n"
    descriptor = os.open(os.environ["RECORDER_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def digest(values: Iterable[object]) -> str:
    return hashlib.sha1(repr(list(values)).encode()).hexdigest()


class Store(memory.Memory):
    def __init__(self, name: str, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.home, self.pause = home, int(options["pause_us"]) / 1e6
        self.gets: list[bytes] = []
        self.readings = 0
        found = sorted(path.name for path in home.iterdir())
        # Stores that still exist, other than this one.
        others = [str(path.parent) for path in Path(os.environ["DYNO_WORK"]).rglob(MARKER) if path.parent != home]
        write("open", name=name, home=str(home), options=dict(options), found=found, others=others, where=id(None))
        (home / MARKER).touch()

    def close(self) -> None:
        write("close", home=str(self.home))
        super().close()

    def version(self) -> str:
        write("version")
        return "records what it is asked"

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Reads(KVReader):
    def __init__(self, engine: Store) -> None:
        self._store = engine.store
        self._pause = engine.pause
        self._gets = engine.gets

    def get(self, key: bytes) -> bytes | None:
        write("get", key=key.hex())
        self._gets.append(key)
        if self._pause:
            time.sleep(self._pause)
        value: bytes | None = self._store.get(key)
        return value

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        write("seek", key=key.hex())
        return ((found, self._store[found]) for found in self._store.irange(key))


class Keys(memory.Keys):
    """The `ordered-kv` port."""

    def __init__(self, engine: Store) -> None:
        super().__init__(engine)
        self._engine = engine
        write("connect")

    @contextmanager
    def reading(self) -> Iterator[Reads]:  # type: ignore[override]
        write("begin reading")
        yield Reads(self._engine)
        write("end reading")

    def _commit(self, pending: Pending) -> None:
        keys = [key.hex() for key in pending]
        write("commit", keys=keys, deleted=list(pending.values()).count(None), data=digest(pending.items()))
        super()._commit(pending)

    def close(self) -> None:
        write("disconnect")


class RecordReads:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get(self, key: Key) -> Record | None:
        write("get", key=key)
        return self._reader.get(key)

    def finder(self, index: str) -> Callable[[str], Record | None]:
        find = self._reader.finder(index)

        def recorded(value: str) -> Record | None:
            found = find(value)
            write("find", value=value, found=(found["name"], found["location"]) if found else None)
            return found

        return recorded

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        scan = self._reader.scanner(count)

        def recorded(key: Key) -> list[Record]:
            write("scan", key=key)
            return scan(key)

        return recorded


class Records:
    """The `records` port."""

    def __init__(self, engine: Store, indexed: bool) -> None:
        self._port = LayeredRecords(memory.Keys(engine), ENCODERS["raw"], indexed)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._port.reading() as reader:
            yield RecordReads(reader)

    def reader(self) -> Reader:
        return RecordReads(self._port.reader())

    def insert(self, records: Iterable[Record]) -> None:
        self._port.insert(self._written("insert", records))

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        return self._port.replace(self._written("replace", records))

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        every = list(keys)
        write("delete", keys=every)
        return self._port.delete(every)

    def _written(self, call: str, records: Iterable[Record]) -> list[Record]:
        every = list(records)
        write(call, keys=[(record["name"], record["location"]) for record in every])
        return every

    def close(self) -> None:
        self._port.close()


class FileStore(lmdb.Lmdb):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._home = home
        files = [path for path in home.iterdir() if path.is_file()]
        write(
            "open", name="recorder-lmdb", home=str(home), files=len(files), resident_percent=residency(files).percent
        )
        super().__init__(home, tier, options)

    def close(self) -> None:
        super().close()
        write("close", home=str(self._home))

    def version(self) -> str:
        write("version")
        return super().version()


class FileReader(lmdb.Reader):
    def __init__(self, txn: Any) -> None:
        super().__init__(txn)
        self._get = self.get
        self.get = self._recorded

    def _recorded(self, key: bytes) -> Any:
        write("get", key=key.hex())
        return self._get(key)

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        write("stretch", key=key.hex())
        return super().stretch(key, count)


class FileKeys(lmdb.Keys):
    def reading(self) -> FileReader:
        return FileReader(self._begin())


def declare(name: str, ports: Mapping[str, Callable[..., Any]], pause_us: int = 0) -> Any:
    return replace(
        memory.ENGINE,
        name=name,
        title="Test engine: writes down what it is asked",
        opener=partial(Store, name),
        ports={name: PortSpec(made) for name, made in ports.items()},
        options=(Setting("pause_us", integer(0), pause_us, "sleep in each get, in microseconds"),),
        listing=Listing(by_default=False),
    )


ENGINE = declare("recorder", {"ordered-kv": Keys})
SLOW_ENGINE = declare("recorder-b", {"ordered-kv": Keys}, pause_us=300)
THREADS_ENGINE = replace(declare("recorder-threads", {"ordered-kv": Keys}), clients="threads")
FILES_ENGINE = replace(
    lmdb.ENGINE,
    name="recorder-lmdb",
    title="Test engine: LMDB, and writes down when it is opened and closed",
    opener=FileStore,
    ports={"ordered-kv": PortSpec(FileKeys)},
    listing=Listing(by_default=False),
)


def read_counters(engine: Store) -> Mapping[str, int]:
    write("read counters")
    if error := os.environ.get("RECORDER_COUNTERS"):
        raise PermissionError(error)
    engine.readings += 1
    shrinks = 1_000 - engine.readings
    return {"gets": len(engine.gets), "readings": engine.readings, "shrinks": shrinks, "undeclared": shrinks}


COUNTERS_ENGINE = replace(
    THREADS_ENGINE,
    name="recorder-counters",
    counters=CounterSpec(
        "tests/plugins/recorder",
        (
            Counter("gets", COUNT, "calls of get"),
            Counter("readings", COUNT, "readings of the counters"),
            Counter("shrinks", COUNT, "a number that gets smaller"),
            Counter("absent", COUNT, "never read"),
        ),
        read_counters,
        lambda engine: write("publish counters"),
    ),
)
RECORDS_ENGINE = declare("recorder-records", {"records": Records})
