"""LMDB through py-lmdb: a B+tree in a memory map, with one writer, and readers that block nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.host.installation import version
from dyno.suites._shared.ordered_kv import Entry, OrderedKV
from dyno.suites.series import keyed

if TYPE_CHECKING:
    import lmdb

GIB = 1 << 30
# Higher than any number of clients. LMDB's default is 126.
READERS = 2048

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A writable map is changed in place: the fastest way, but a process that dies in a commit may leave a torn file.
    Tier.VOLATILE: {"sync": False, "metasync": False, "writemap": True, "map_async": True},
    # A commit writes its pages to the kernel, which flushes them at some later time.
    Tier.PROCESS: {"sync": False, "metasync": False, "writemap": False, "map_async": False},
    Tier.POWER: {"sync": True, "metasync": True, "writemap": False, "map_async": False},
}


class Lmdb(Engine):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import lmdb

        library: Any = lmdb
        self._home = home
        self._library = library
        self._options = options
        self.env = library.open(
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
        names = ("sync", "metasync", "writemap", "map_async", "readahead")
        settings = {name: flags.get(name) for name in names} | {"map_size_gib": self.env.info()["map_size"] // GIB}
        # LMDB doesn't report these two settings, so return the options.
        return settings | {name: self._options[name] for name in ("meminit", "max_spare_txns")}

    def files(self) -> Iterable[Path]:
        return (self._home / "data.mdb",)


class Reader(AbstractContextManager["Reader"]):
    """A read transaction. `get` is py-lmdb's own method. All reads except `seek` share one cursor."""

    def __init__(self, txn: lmdb.Transaction[bytes]) -> None:
        self._txn = txn
        self.get = txn.get
        self._shared: lmdb.Cursor[bytes] | None = None

    def __exit__(self, *_: object) -> None:
        self._txn.abort()

    def _cursor(self) -> lmdb.Cursor[bytes]:
        self._shared = self._txn.cursor()
        return self._shared

    def first(self, key: bytes) -> Entry | None:
        cursor = self._shared or self._cursor()
        if cursor.set_range(key):
            return cursor.item()
        return None

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        cursor = self._shared or self._cursor()
        if cursor.set_range(key):
            return list(islice(cursor.iternext(), count))
        return []

    def seek(self, key: bytes) -> Iterator[Entry]:
        return _entries(self._txn, key)


class Keys(OrderedKV):
    """The `ordered-kv` port. Its writer is a transaction of py-lmdb, which has the methods get, put and delete."""

    def __init__(self, engine: Lmdb) -> None:
        self._begin = engine.env.begin
        # A single read uses a whole read transaction: py-lmdb reuses ended ones, so nothing is cheaper. Binding the
        # method here saves the timed loop a call, and overriding `reading` overrides both.
        self.single = self.reading  # type: ignore[method-assign]

    def reading(self) -> Reader:
        return Reader(self._begin())

    def writing(self) -> Any:
        return self._begin(write=True)


class Series(keyed.KeyedSeries):
    def __init__(self, engine: Lmdb, names: Sequence[str]) -> None:
        self._begin = engine.env.begin
        super().__init__(names)

    def put(self, entries: Iterable[Entry]) -> None:
        with self._begin(write=True) as txn:
            txn.cursor().putmulti(entries)

    def get(self, key: bytes) -> bytes | None:
        with self._begin() as txn:
            value: bytes | None = txn.get(key)
            return value

    @contextmanager
    def scan(self, first: bytes, end: bytes | None = None) -> Iterator[Iterator[Entry]]:
        with self._begin() as txn:
            entries = _entries(txn, first)
            yield entries if end is None else takewhile(lambda entry: entry[0] < end, entries)

    def last(self, numbers: range) -> Iterator[Entry | None]:
        """Yields the last entry of each variable, by seeking the first key after it and stepping back."""
        with self._begin() as txn:
            cursor = txn.cursor()
            for number in numbers:
                after = keyed.KEY.pack(number + 1, 0)
                if cursor.set_range(after):
                    exists = cursor.prev()
                else:
                    exists = cursor.last()
                yield cursor.item() if exists and cursor.key().startswith(keyed.NUMBER.pack(number)) else None


def _entries(txn: lmdb.Transaction[bytes], key: bytes) -> Iterator[Entry]:
    cursor = txn.cursor()
    if cursor.set_range(key):
        return cursor.iternext()
    return iter(())


ENGINE = EngineSpec(
    name="lmdb",
    title="LMDB, a memory-mapped B+tree (py-lmdb)",
    opener=Lmdb,
    ports={"ordered-kv": PortSpec(Keys), "series": PortSpec(Series, clients="one")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    crashes=CrashSpec(Maintenance("every commit writes its pages and the root, and nothing else is ever done")),
    installation=Installation(modules=("lmdb",), requires=("lmdb>=1.4",)),
    versions=Versions((Wheel("lmdb"),)),
    options=(
        Setting("map_size_gib", integer(1, 16_384), 64, "largest size of the database, in GiB (address space)"),
        Setting("readahead", boolean, True, "let the kernel read ahead of page faults"),
        Setting("meminit", boolean, True, "zero the memory of a page before it is written (LMDB's default)"),
        Setting("max_spare_txns", integer(0, 1_000), 1, "ended read transactions that are kept (py-lmdb's default)"),
    ),
    clients="processes",
)
