"""LMDB by py-lmdb: a B+tree in a memory map, one writer, readers that block nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, PortSpec
from dyno.model import Caveat, Tier, Value
from dyno.ports.ordered_kv import Entry
from dyno.settings import Setting, integer, yes_no

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
        self._home, self._library = home, library
        self.env: Any = library.open(
            str(home),
            map_size=int(options["map_size_gib"]) * GIB,
            readahead=bool(options["readahead"]),
            max_readers=READERS,
            **TIERS[tier],
        )

    def close(self) -> None:
        self.env.close()

    def version(self) -> str:
        return f"LMDB {'.'.join(map(str, self._library.version()))} (py-lmdb {version('lmdb')})"

    def settings(self) -> Mapping[str, Value | None]:
        flags = self.env.flags()
        shown = ("sync", "metasync", "writemap", "map_async", "readahead")
        return {name: flags.get(name) for name in shown} | {"map_size_gib": self.env.info()["map_size"] // GIB}

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


ENGINE = EngineSpec(
    name="lmdb",
    title="LMDB, a memory-mapped B+tree (py-lmdb)",
    opener=Lmdb,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("lmdb",),
    requires=("lmdb>=1.4",),
    options=(
        Setting("map_size_gib", integer(1, 16_384), 64, "largest size of the database, in GiB (address space)"),
        Setting("readahead", yes_no, True, "let the kernel read ahead of page faults"),
    ),
    clients="processes",
)
