"""LevelDB through plyvel: a log-structured merge tree inside the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.counters import BYTES, NS, Counter, CounterSpec
from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.host.installation import version
from dyno.suites._shared.ordered_kv import Entry, KVReader, OrderedKV, Overlay, Pending, fill, overlay

if TYPE_CHECKING:
    import plyvel

MIB = 1 << 20

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # LevelDB's cheapest write goes to its unsynced log, which reaches the kernel before the write returns.
    Tier.VOLATILE: {"sync": False},
    Tier.PROCESS: {"sync": False},
    Tier.POWER: {"sync": True},
}


class LevelDB(Engine):
    """A LevelDB database, which all threads share."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import plyvel

        self._home, self._options = home, options
        self.sync = bool(TIERS[tier]["sync"])
        self.db: plyvel.DB = plyvel.DB(
            str(home),
            create_if_missing=True,
            lru_cache_size=int(options["cache_mib"]) * MIB,
            write_buffer_size=int(options["write_buffer_mib"]) * MIB,
            block_size=int(options["block_kib"]) << 10,
            bloom_filter_bits=int(options["bloom_bits"]),
            compression=None if options["compression"] == "none" else options["compression"],
        )

    def close(self) -> None:
        self.db.close()

    def version(self) -> str:
        import plyvel

        return f"LevelDB {plyvel.__leveldb_version__} (plyvel {version('plyvel')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {"sync": self.sync, **self._options}

    def files(self) -> Iterable[Path]:
        return (path for path in self._home.iterdir() if path.is_file())


class Reader(AbstractContextManager["Reader"]):
    """Reads from a snapshot. `get` is plyvel's own method. All reads except `seek` share one iterator."""

    def __init__(self, db: plyvel.DB) -> None:
        self._snapshot = db.snapshot()
        self.get = self._snapshot.get
        self._shared: plyvel.RawIterator | None = None

    def __exit__(self, *_: object) -> None:
        if self._shared is not None:
            self._shared.close()
        self._snapshot.close()

    def _seek_iterator(self, key: bytes) -> Iterator[Entry]:
        if self._shared is None:
            self._shared = self._snapshot.iterator()
        self._shared.seek(key)
        iterator: Iterator[Entry] = self._shared
        return iterator

    def first(self, key: bytes) -> Entry | None:
        return next(self._seek_iterator(key), None)

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        return list(islice(self._seek_iterator(key), count))

    def seek(self, key: bytes) -> Iterator[Entry]:
        iterator: Iterator[Entry] = self._snapshot.iterator(start=key)
        return iterator


class Keys(OrderedKV, KVReader):
    """The `ordered-kv` port, and the reader of single reads. Each creates an iterator, which sees no later commit."""

    def __init__(self, engine: LevelDB) -> None:
        self._db, self._sync = engine.db, engine.sync
        self.get = engine.db.get  # type: ignore[method-assign]

    def first(self, key: bytes) -> Entry | None:
        # plyvel's raw iterator is cheaper to create than `iterator`.
        iterator = self._db.raw_iterator()
        iterator.seek(key)
        return iterator.item() if iterator.valid() else None

    def seek(self, key: bytes) -> Iterator[Entry]:
        iterator: Iterator[Entry] = self._db.iterator(start=key)
        return iterator

    def reading(self) -> Reader:
        return Reader(self._db)

    def single(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    def writing(self) -> AbstractContextManager[Overlay]:
        return overlay(self.get, self._commit)

    def _commit(self, pending: Pending) -> None:
        with self._db.write_batch(transaction=True, sync=self._sync) as batch:
            fill(batch, pending)


def read_counters(engine: LevelDB) -> Mapping[str, int]:
    """Adds up the levels' whole seconds and MB."""
    lines = (engine.db.get_property(b"leveldb.stats") or b"").decode().splitlines()
    levels = [[int(word) for word in line.split()] for line in lines[3:]]
    seconds, read, written = (sum(level[column] for level in levels) for column in (3, 4, 5))
    return {"Time": seconds * 1_000_000_000, "Read": read * MIB, "Write": written * MIB}


COUNTERS = CounterSpec(
    'The LevelDB Authors, LevelDB, "db.h": property leveldb.stats',
    (
        Counter("Time", NS, "time of compactions, in whole seconds for each level"),
        Counter("Read", BYTES, "data that compactions read, in whole MB for each level"),
        Counter("Write", BYTES, "data that compactions wrote, in whole MB for each level"),
    ),
    read_counters,
)
ENGINE = EngineSpec(
    name="leveldb",
    title="LevelDB, a log-structured merge tree (plyvel)",
    opener=LevelDB,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    counters=COUNTERS,
    # This writes the memtable to a table, begins a new log and merges tables, as LevelDB does with a full buffer.
    crashes=CrashSpec(Maintenance("new log, and compaction", lambda engine: engine.db.compact_range())),
    installation=Installation(
        modules=("plyvel",),
        # plyvel has no wheels for later versions of Python.
        requires=("plyvel>=1.5; python_version < '3.13'",),
    ),
    versions=Versions((Wheel("plyvel"),)),
    options=(
        Setting("cache_mib", integer(1), 256, "block cache, in MiB"),
        Setting("write_buffer_mib", integer(1), 4, "memtable, in MiB (LevelDB's default)"),
        Setting("block_kib", integer(1), 4, "block, in KiB (LevelDB's default)"),
        Setting("bloom_bits", integer(0, 64), 0, "bloom filter bits per key; 0 for none (LevelDB's default)"),
        Setting("compression", choice("snappy", "none"), "snappy", "block compression"),
    ),
    clients="threads",
)
