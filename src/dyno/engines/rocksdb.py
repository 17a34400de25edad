"""RocksDB by rocksdict: a log-structured merge tree inside the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.ordered_kv import Entry
from dyno.contracts.overlay import Overlay, Pending, fill, overlay
from dyno.contracts.settings import Setting, choice, integer
from dyno.host.versions import version
from dyno.servers import set_option
from dyno.suites.series import sample_keys, samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

MIB = 1 << 20

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"disable_wal": True, "sync": False},
    # The log is handed to the kernel before a write returns.
    Tier.PROCESS: {"disable_wal": False, "sync": False},
    Tier.POWER: {"disable_wal": False, "sync": True},
}


OURS = ("create_if_missing", "write_buffer_size", "compression_type", "manual_wal_flush", "wal_dir", "use_fsync")
"""Settings that a tier, an option or Dyno itself decides."""


def _set(settings: Any, name: str, value: str) -> None:
    """Raises Refused for what is no setting of one number, of yes or no, or of a text."""
    change = getattr(settings, f"set_{name}", None)
    if change is None:
        raise Refused(f"set.{name}: rocksdict has no such setting")
    word = value.lower()
    kinds = (int, float, str)
    tries = [word == "true"] if word in ("true", "false") else [kind(value) for kind in kinds if _is(kind, value)]
    for each in tries:
        try:
            change(each)
        except (TypeError, OverflowError, ValueError):
            continue
        return
    raise Refused(f"set.{name}={value}: rocksdict takes no such value")


def _is(kind: type, value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


class RocksDB:
    """One database in its directory; threads share it."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import rocksdict

        self._home, self._options = home, options
        self._tier = TIERS[tier]
        # Its type stubs take attributes for methods.
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
        for name, value in set_option.given(options).items():
            _set(settings, name, value)
        self.db: Any = rocksdict.Rdict(str(home), settings)
        self.write_options = self.library.WriteOptions()
        self.write_options.sync = bool(self._tier["sync"])
        self.write_options.disable_wal = bool(self._tier["disable_wal"])

    def close(self) -> None:
        self.db.close()

    def compact(self) -> None:
        """What is in memory goes to a table, a new log begins, and tables are merged: as after each buffer of
        writes."""
        self.db.flush()
        self.db.compact_range(None, None)

    def version(self) -> str:
        return f"RocksDB of rocksdict {version('rocksdict')}"

    def settings(self) -> Mapping[str, Value | None]:
        shown = {
            name: value for name, value in self._options.items() if name not in (set_option.SET, set_option.READ_BACK)
        }
        return {**self._tier, **shown, **self._read_back()}

    def _read_back(self) -> dict[str, Value | None]:
        """Returns settings of RocksDB's own, as the newest file of its settings has them."""
        names = set_option.to_read(self._options)
        kept = max(self._home.glob("OPTIONS-*"), default=None) if names else None
        lines = [] if kept is None else kept.read_text().splitlines()
        known = {
            name.strip(): value.strip() for name, equals, value in (line.partition("=") for line in lines) if equals
        }
        return {name: known.get(name) for name in names}

    def files(self) -> Iterable[Path]:
        return (path for path in self._home.iterdir() if path.is_file())

    def caveats(self) -> Iterable[Caveat]:
        return (set_option.CAVEAT,) if self._options[set_option.SET] else ()


class Keys:
    """The `ordered-kv` port, and its single reads: `get` is rocksdict's own; an iterator sees no later commit, so
    each read has one of its own."""

    def __init__(self, engine: RocksDB) -> None:
        self.db, self._write_options = engine.db, engine.write_options
        self._batch = engine.library.WriteBatch
        self.get = engine.db.get

    def first(self, key: bytes) -> Entry | None:
        return next(self.seek(key), None)

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        return list(islice(self.seek(key), count))

    def seek(self, key: bytes) -> Iterator[Entry]:
        found: Iterator[Entry] = self.db.items(from_key=key)
        return found

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

    def close(self) -> None:
        pass


class Reader:
    """Many reads: one iterator, moved to where it is wanted, serves all that ask for a first entry.

    No tailing one, which may see a part of what another thread is committing."""

    def __init__(self, keys: Keys) -> None:
        self._db = keys.db
        # A scan has an iterator of its own: rocksdict wants four calls for each entry of one that can be moved.
        self.get, self.seek, self.stretch = keys.get, keys.seek, keys.stretch
        self._own: Any = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        # While it is there, the database stays open.
        self._own = None

    def first(self, key: bytes) -> Entry | None:
        found = self._own
        if found is None:
            found = self._own = self._db.iter()
        found.seek(key)
        return (found.key(), found.value()) if found.valid() else None


class Series:
    """The `series` port: a record for each sample."""

    def __init__(self, engine: RocksDB, names: Sequence[str]) -> None:
        self._db, self._options, self._made = engine.db, engine.write_options, engine.library.WriteBatch
        new, every = sample_keys.add_names(names, sample_keys.parse_names(self._db.items(from_key=sample_keys.NAME)))
        self._write(new)
        self._numbers = samples.VariableIds(names, every)
        self._end = max((number for number, _ in every), default=-1) + 1

    def _write(self, entries: Iterable[Entry]) -> None:
        batch = self._made(raw_mode=True)
        for key, value in entries:
            batch.put(key, value)
        self._db.write(batch, self._options)

    def insert(self, batch: SampleBatch) -> None:
        self._write(sample_keys.entries(batch._replace(pv=self._numbers.to_store(batch.pv))))

    def settle(self) -> None:
        pass

    def seen(self, pv: int, ts: int) -> bool:
        return self._db.get(sample_keys.KEY.pack(self._numbers.one(pv), ts)) is not None

    def one(self, pv: int) -> Samples:
        return self.window(pv, 0, sample_keys.MAX_TIME)

    def window(self, pv: int, start: int, end: int) -> Samples:
        pack, number = sample_keys.KEY.pack, self._numbers.one(pv)
        return sample_keys.samples_of(self._between(pack(number, start), pack(number, end)))

    def _between(self, first: bytes, last: bytes) -> Iterator[Entry]:
        return takewhile(lambda entry: entry[0] < last, self._db.items(from_key=first))

    def all(self) -> Iterator[SampleBatch]:
        found = self._between(b"\0", sample_keys.KEY.pack(self._end, 0))
        return sample_keys.batches(found, self._numbers)

    def latest(self) -> SampleBatch:
        """A seek for each variable: from the end of its times backward."""
        found = self._db.iter()
        return sample_keys.batch(filter(None, map(partial(_last, found), range(self._end))), self._numbers)

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return samples.downsample(self.window(pv, start, end), bucket)

    def close(self) -> None:
        pass


def _last(found: Any, number: int) -> Entry | None:
    """The last sample of a variable, by the store's number."""
    found.seek_for_prev(sample_keys.KEY.pack(number, sample_keys.MAX_TIME))
    if not found.valid() or not found.key().startswith(sample_keys.NUMBER.pack(number)):
        return None
    return found.key(), found.value()


LATEST = Gap("isolation", "upstream", "an iterator of rocksdict's snapshot does not read from the snapshot")

ENGINE = EngineSpec(
    name="rocksdb",
    title="RocksDB, a log-structured merge tree (rocksdict)",
    opener=RocksDB,
    ports={"ordered-kv": PortSpec(Keys, gaps=(LATEST,)), "series": PortSpec(Series, clients="one")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    seldom=Maintenance("new log, and compaction", RocksDB.compact),
    modules=("rocksdict",),
    requires=("rocksdict>=0.3.23",),
    options=(
        Setting("cache_mib", integer(1), 256, "block cache, in MiB"),
        Setting("write_buffer_mib", integer(1), 64, "memtable, in MiB (RocksDB's default)"),
        Setting("block_kib", integer(1), 4, "block, in KiB (RocksDB's default)"),
        Setting("bloom_bits", integer(0, 64), 0, "bloom filter bits a key; 0 for none (RocksDB's default)"),
        Setting("compression", choice("snappy", "lz4", "zstd", "none"), "snappy", "block compression"),
        set_option.setting("settings", OURS, "its Options"),
    ),
    clients="threads",
)
