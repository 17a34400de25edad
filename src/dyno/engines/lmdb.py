"""LMDB by py-lmdb: a B+tree in a memory map, one writer, readers that block nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.ordered_kv import Entry
from dyno.contracts.settings import Setting, boolean, integer
from dyno.host.versions import version
from dyno.suites.series import sample_keys, samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

GIB = 1 << 30
# More than there can be clients; LMDB's default of 126 is less.
READERS = 2048

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A writable map is changed in place: the fastest, and a process that dies inside a commit may tear it.
    Tier.VOLATILE: {"sync": False, "metasync": False, "writemap": True, "map_async": True},
    # Pages are written to the kernel at the commit, and flushed by it when it likes.
    Tier.PROCESS: {"sync": False, "metasync": False, "writemap": False, "map_async": False},
    Tier.POWER: {"sync": True, "metasync": True, "writemap": False, "map_async": False},
}


class Lmdb:
    """One environment in its directory."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import lmdb

        library: Any = lmdb
        self._home, self._library, self._options = home, library, options
        self.env: Any = library.open(
            str(home),
            map_size=int(options["map_size_gib"]) * GIB,
            readahead=bool(options["readahead"]),
            max_readers=READERS,
            meminit=bool(options["meminit"]),
            max_spare_txns=int(options["max_spare_txns"]),
            **TIERS[tier],
        )

    def close(self) -> None:
        self.env.close()

    def version(self) -> str:
        return f"LMDB {'.'.join(map(str, self._library.version()))} (py-lmdb {version('lmdb')})"

    def settings(self) -> Mapping[str, Value | None]:
        flags = self.env.flags()
        shown = ("sync", "metasync", "writemap", "map_async", "readahead")
        told = {name: flags.get(name) for name in shown} | {"map_size_gib": self.env.info()["map_size"] // GIB}
        # It tells neither.
        return told | {name: self._options[name] for name in ("meminit", "max_spare_txns")}

    def files(self) -> Iterable[Path]:
        return (self._home / "data.mdb",)

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Reader:
    """A read transaction; `get` is py-lmdb's own. One cursor of it serves all reads that leave it at once."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn
        self.get = txn.get
        self._own: Any = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._txn.abort()

    def _cursor(self) -> Any:
        self._own = self._txn.cursor()
        return self._own

    def first(self, key: bytes) -> Entry | None:
        cursor = self._own or self._cursor()
        return cursor.item() if cursor.set_range(key) else None

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        cursor = self._own or self._cursor()
        return list(islice(cursor.iternext(), count)) if cursor.set_range(key) else []

    def seek(self, key: bytes) -> Iterator[Entry]:
        cursor = self._txn.cursor()
        found: Iterator[Entry] = cursor.iternext() if cursor.set_range(key) else iter(())
        return found


class Keys:
    """The `ordered-kv` port. A write transaction is py-lmdb's own: it has get, put and delete."""

    def __init__(self, engine: Lmdb) -> None:
        self._begin = engine.env.begin
        # py-lmdb keeps an ended read transaction and renews it: there is no cheaper single read.
        self.single = self.reading

    def reading(self) -> Reader:
        return Reader(self._begin())

    def writing(self) -> Any:
        return self._begin(write=True)

    def close(self) -> None:
        pass


class Series:
    """The `series` port: a record for each sample."""

    def __init__(self, engine: Lmdb, names: Sequence[str]) -> None:
        self._begin = engine.env.begin
        with self._begin(write=True) as txn:
            new, every = sample_keys.add_names(names, sample_keys.parse_names(_from(txn, sample_keys.NAME)))
            txn.cursor().putmulti(new)
        self._numbers = samples.VariableIds(names, every)
        self._end = max((number for number, _ in every), default=-1) + 1

    def insert(self, batch: SampleBatch) -> None:
        stored = batch._replace(pv=self._numbers.to_store(batch.pv))
        with self._begin(write=True) as txn:
            txn.cursor().putmulti(sample_keys.entries(stored))

    def settle(self) -> None:
        pass

    def seen(self, pv: int, ts: int) -> bool:
        with self._begin() as txn:
            return txn.get(sample_keys.KEY.pack(self._numbers.one(pv), ts)) is not None

    def one(self, pv: int) -> Samples:
        return self.window(pv, 0, sample_keys.MAX_TIME)

    def window(self, pv: int, start: int, end: int) -> Samples:
        pack, number = sample_keys.KEY.pack, self._numbers.one(pv)
        last = pack(number, end)
        with self._begin() as txn:
            return sample_keys.samples_of(takewhile(lambda entry: entry[0] < last, _from(txn, pack(number, start))))

    def all(self) -> Iterator[SampleBatch]:
        last = sample_keys.KEY.pack(self._end, 0)
        with self._begin() as txn:
            found = takewhile(lambda entry: entry[0] < last, _from(txn, b"\0"))
            yield from sample_keys.batches(found, self._numbers)

    def latest(self) -> SampleBatch:
        """A seek for each variable: to what comes after it, and one back."""
        with self._begin() as txn:
            return sample_keys.batch(filter(None, map(partial(_last, txn.cursor()), range(self._end))), self._numbers)

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return samples.downsample(self.window(pv, start, end), bucket)

    def close(self) -> None:
        pass


def _from(txn: Any, key: bytes) -> Iterator[Entry]:
    """All records from there on."""
    cursor = txn.cursor()
    return cursor.iternext() if cursor.set_range(key) else iter(())


def _last(cursor: Any, number: int) -> Entry | None:
    """The last sample of a variable, by the store's number."""
    there = cursor.prev() if cursor.set_range(sample_keys.KEY.pack(number + 1, 0)) else cursor.last()
    if not there or not cursor.key().startswith(sample_keys.NUMBER.pack(number)):
        return None
    found: Entry = cursor.item()
    return found


ENGINE = EngineSpec(
    name="lmdb",
    title="LMDB, a memory-mapped B+tree (py-lmdb)",
    opener=Lmdb,
    ports={"ordered-kv": PortSpec(Keys), "series": PortSpec(Series, clients="one")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    seldom=Maintenance("every commit writes its pages and the root, and nothing else is ever done"),
    modules=("lmdb",),
    requires=("lmdb>=1.4",),
    options=(
        Setting("map_size_gib", integer(1, 16_384), 64, "largest size of the database, in GiB (address space)"),
        Setting("readahead", boolean, True, "let the kernel read ahead of page faults"),
        Setting("meminit", boolean, True, "zero the memory of a page before it is written (LMDB's default)"),
        Setting("max_spare_txns", integer(0, 1_000), 1, "ended read transactions that are kept (py-lmdb's default)"),
    ),
    clients="processes",
)
