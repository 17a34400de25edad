"""RocksDB through rocksdict: a log-structured merge tree inside the process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.counters import BYTES, COUNT, Counter, CounterSpec
from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, boolean, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.host.installation import version
from dyno.servers import set_option
from dyno.suites._shared.ordered_kv import Entry, KVReader, OrderedKV, Overlay, Pending, fill, overlay
from dyno.suites.series import keyed

if TYPE_CHECKING:
    import rocksdict

MIB = 1 << 20

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"disable_wal": True, "sync": False},
    # The log reaches the kernel before a write returns.
    Tier.PROCESS: {"disable_wal": False, "sync": False},
    Tier.POWER: {"disable_wal": False, "sync": True},
}
BOOLEANS = {"true": True, "false": False}
OURS = ("create_if_missing", "write_buffer_size", "compression_type", "manual_wal_flush", "wal_dir", "use_fsync")
"""Settings that the tier, an option or Dyno itself decides."""


def _set(settings: rocksdict.Options, name: str, text: str) -> None:
    """Sets one of rocksdict's options from text: true or false, a number, or the text itself. Raises Refused."""
    setter = getattr(settings, f"set_{name}", None)
    if setter is None:
        raise Refused(f"set.{name}: rocksdict has no such setting")
    for kind in (lambda text: BOOLEANS[text.lower()], int, float, str):
        try:
            setter(kind(text))
            return
        except (KeyError, TypeError, OverflowError, ValueError):
            continue
    raise Refused(f"set.{name}={text}: rocksdict does not accept this value")


class RocksDB(Engine):
    """A RocksDB database, which all threads share."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import rocksdict

        self._home, self._options = home, options
        self._tier = TIERS[tier]
        # rocksdict's type stubs declare attributes as methods.
        self.library: Any = rocksdict
        settings = rocksdict.Options(raw_mode=True)
        settings.create_if_missing(True)
        settings.set_write_buffer_size(int(options["write_buffer_mib"]) * MIB)
        settings.set_compression_type(getattr(rocksdict.DBCompressionType, str(options["compression"]))())
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(int(options["cache_mib"]) * MIB))
        table.set_block_size(int(options["block_kib"]) << 10)
        if options["bloom_bits"]:
            table.set_bloom_filter(int(options["bloom_bits"]), False)
        settings.set_block_based_table_factory(table)
        if options["statistics"]:
            settings.enable_statistics()
        for name, value in set_option.get_settings(options).items():
            _set(settings, name, value)
        self.db: Any = rocksdict.Rdict(str(home), settings)
        self.statistics = settings.get_statistics
        self.write_options = self.library.WriteOptions()
        self.write_options.sync = bool(self._tier["sync"])
        self.write_options.disable_wal = bool(self._tier["disable_wal"])

    def close(self) -> None:
        self.db.close()

    def versions(self) -> int:
        """Returns how often the set of files has changed, by a memtable written or tables merged."""
        return int(self.db.property_int_value("rocksdb.current-super-version-number"))

    def compact(self) -> None:
        """Writes the memtable to a table, begins a new log and merges tables. RocksDB does the same whenever its
        write buffer is full."""
        self.db.flush()
        self.db.compact_range(None, None)

    def version(self) -> str:
        return f"RocksDB of rocksdict {version('rocksdict')}"

    def settings(self) -> Mapping[str, Value | None]:
        shown = {
            name: value for name, value in self._options.items() if name not in (set_option.SET, set_option.READ_BACK)
        }
        names = set_option.to_read(self._options)
        # RocksDB's newest OPTIONS file has the settings that the option `set` changes.
        newest = None
        if names:
            newest = max(self._home.glob("OPTIONS-*"), default=None)
        if newest is None:
            lines = []
        else:
            lines = newest.read_text().splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        values = {name.strip(): value.strip() for name, _, value in pairs}
        return {**self._tier, **shown, **{name: values.get(name) for name in names}}

    def files(self) -> Iterable[Path]:
        return (path for path in self._home.iterdir() if path.is_file())

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            return (set_option.CAVEAT,)
        return ()


class Keys(OrderedKV, KVReader):
    """The `ordered-kv` port, and the reader of single reads. Each creates an iterator, which sees no later commit."""

    def __init__(self, engine: RocksDB) -> None:
        self.db, self._write_options = engine.db, engine.write_options
        self._batch = engine.library.WriteBatch
        self.get = engine.db.get  # type: ignore[method-assign]

    def seek(self, key: bytes) -> Iterator[Entry]:
        iterator: Iterator[Entry] = self.db.items(from_key=key)
        return iterator

    def reading(self) -> Reader:
        return Reader(self)

    def single(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    def writing(self) -> AbstractContextManager[Overlay]:
        return overlay(self.get, self._commit)

    def _commit(self, pending: Pending) -> None:
        batch = self._batch(raw_mode=True)
        fill(batch, pending)
        self.db.write(batch, self._write_options)


class Reader(AbstractContextManager["Reader"]):
    """Reader for many reads. All calls of `first` share one iterator. It is not a tailing iterator, which may see
    part of a transaction that another thread is committing."""

    def __init__(self, keys: Keys) -> None:
        self._db = keys.db
        # Scans create their own iterators: one that can seek takes four calls per entry in rocksdict.
        self.get = keys.get
        self.seek = keys.seek
        self.stretch = keys.stretch
        self._shared: rocksdict.RdictIter | None = None

    def __exit__(self, *_: object) -> None:
        # Free the iterator, which keeps the database open.
        self._shared = None

    def first(self, key: bytes) -> Entry | None:
        iterator = self._shared
        if iterator is None:
            iterator = self._shared = self._db.iter()
        iterator.seek(key)
        if iterator.valid():
            return (iterator.key(), iterator.value())
        return None


class Series(keyed.KeyedSeries):
    def __init__(self, engine: RocksDB, names: Sequence[str]) -> None:
        self._db = engine.db
        self._options = engine.write_options
        self._batch = engine.library.WriteBatch
        super().__init__(names)

    def put(self, entries: Iterable[Entry]) -> None:
        batch = self._batch(raw_mode=True)
        for key, value in entries:
            batch.put(key, value)
        self._db.write(batch, self._options)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._db.get(key)
        return value

    def scan(self, first: bytes, end: bytes | None = None) -> AbstractContextManager[Iterator[Entry]]:
        entries = self._db.items(from_key=first)
        return nullcontext(entries if end is None else takewhile(lambda entry: entry[0] < end, entries))

    def last(self, numbers: range) -> Iterator[Entry | None]:
        """Yields the last entry of each variable, by seeking backward from the end of its times."""
        iterator = self._db.iter()
        for number in numbers:
            iterator.seek_for_prev(keyed.KEY.pack(number, keyed.MAX_TIME))
            exists = iterator.valid() and iterator.key().startswith(keyed.NUMBER.pack(number))
            yield (iterator.key(), iterator.value()) if exists else None


STALLS = "rocksdb.cf-write-stall-stats"
TICKERS = (
    Counter("rocksdb.block.cache.hit", COUNT, "blocks that were found in the block cache (statistics=yes)"),
    Counter("rocksdb.block.cache.miss", COUNT, "blocks that were not in the block cache (statistics=yes)"),
    Counter("rocksdb.memtable.hit", COUNT, "reads that a memtable answered (statistics=yes)"),
    Counter("rocksdb.bloom.filter.useful", COUNT, "reads of a file that its filter saved (statistics=yes)"),
    Counter("rocksdb.wal.synced", COUNT, "flushes of the log (statistics=yes)"),
    Counter("rocksdb.wal.bytes", BYTES, "data written to the log (statistics=yes)"),
    Counter("rocksdb.compact.read.bytes", BYTES, "data that compactions read (statistics=yes)"),
    Counter("rocksdb.compact.write.bytes", BYTES, "data that compactions wrote (statistics=yes)"),
)


def read_counters(engine: RocksDB) -> Mapping[str, int]:
    texts = engine.db.property_value(STALLS) or "", engine.statistics() or ""
    counts = [*re.findall(r"([\w-]+): (\d+)", texts[0]), *re.findall(r"^(\S+) COUNT : (\d+)", texts[1], re.MULTILINE)]
    return {"versions": engine.versions(), **{name: int(count) for name, count in counts}}


COUNTERS = CounterSpec(
    'Meta Platforms, RocksDB wiki, "Statistics" and "Write Stalls"',
    (
        Counter("versions", COUNT, "times that the set of files changed: a memtable was written, or files merged"),
        Counter("total-delays", COUNT, "writes that were slowed down for compactions"),
        Counter("total-stops", COUNT, "writes that were stopped for compactions"),
        *TICKERS,
    ),
    read_counters,
)
NO_SNAPSHOT = Gap("isolation", "upstream", "an iterator of rocksdict's snapshot does not read from the snapshot")

ENGINE = EngineSpec(
    name="rocksdb",
    title="RocksDB, a log-structured merge tree (rocksdict)",
    opener=RocksDB,
    ports={"ordered-kv": PortSpec(Keys, gaps=(NO_SNAPSHOT,)), "series": PortSpec(Series, clients="one")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    counters=COUNTERS,
    crashes=CrashSpec(Maintenance("new log, and compaction", RocksDB.compact, times=RocksDB.versions)),
    installation=Installation(modules=("rocksdict",), requires=("rocksdict>=0.3.23",)),
    versions=Versions((Wheel("rocksdict"),), line=3),
    options=(
        Setting("cache_mib", integer(1), 256, "block cache, in MiB"),
        Setting("write_buffer_mib", integer(1), 64, "memtable, in MiB (RocksDB's default)"),
        Setting("block_kib", integer(1), 4, "block, in KiB (RocksDB's default)"),
        Setting("bloom_bits", integer(0, 64), 0, "bloom filter bits per key; 0 for none (RocksDB's default)"),
        Setting("compression", choice("snappy", "lz4", "zstd", "none"), "snappy", "block compression"),
        Setting("statistics", boolean, False, "RocksDB's statistics, for its counters: they cost a tenth of a read"),
        set_option.setting("settings", OURS, "its Options"),
    ),
    clients="threads",
)
