"""RocksDB by rocksdict: a log-structured merge tree inside the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, Gap, PortSpec
from dyno.model import Caveat, Tier, Value
from dyno.ports.ordered_kv import Entry
from dyno.ports.overlay import Overlay, Pending, fill, overlay
from dyno.settings import Setting, choice, integer

MIB = 1 << 20

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"disable_wal": True, "sync": False},
    # The log is handed to the kernel before a write returns.
    Tier.PROCESS: {"disable_wal": False, "sync": False},
    Tier.POWER: {"disable_wal": False, "sync": True},
}


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
        self.db: Any = rocksdict.Rdict(str(home), settings)
        self.write_options = self.library.WriteOptions()
        self.write_options.sync = bool(self._tier["sync"])
        self.write_options.disable_wal = bool(self._tier["disable_wal"])

    def close(self) -> None:
        self.db.close()

    def version(self) -> str:
        return f"RocksDB of rocksdict {version('rocksdict')}"

    def settings(self) -> Mapping[str, Value | None]:
        return {**self._tier, **self._options}

    def files(self) -> Iterable[Path]:
        return (path for path in self._home.iterdir() if path.is_file())

    def caveats(self) -> Iterable[Caveat]:
        return ()


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


LATEST = Gap("isolation", "upstream", "an iterator of rocksdict's snapshot does not read from the snapshot")

ENGINE = EngineSpec(
    name="rocksdb",
    title="RocksDB, a log-structured merge tree (rocksdict)",
    opener=RocksDB,
    ports={"ordered-kv": PortSpec(Keys, gaps=(LATEST,))},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("rocksdict",),
    requires=("rocksdict>=0.3.23",),
    options=(
        Setting("cache_mib", integer(1), 256, "block cache, in MiB"),
        Setting("write_buffer_mib", integer(1), 64, "memtable, in MiB (RocksDB's default)"),
        Setting("block_kib", integer(1), 4, "block, in KiB (RocksDB's default)"),
        Setting("bloom_bits", integer(0, 64), 0, "bloom filter bits a key; 0 for none (RocksDB's default)"),
        Setting("compression", choice("snappy", "lz4", "zstd", "none"), "snappy", "block compression"),
    ),
    clients="threads",
)
