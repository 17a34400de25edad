"""Wendelin.core: arrays in ZODB, larger than memory, whose pages are loaded from their objects when they are touched,
and stored as objects by a commit.

Its last release is for Python 3.7 to 3.10, so that its trials run in an interpreter of its own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores import layouts
from dyno.engines.arraystores.layouts import LAYOUT, Held
from dyno.engines.zodb import databases, zeo_client
from dyno.engines.zodb.server_zeo import ZEO
from dyno.host.versions import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import Change, Chunk

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # FileStorage, be it ZEO's, flushes each commit before it is acknowledged, and nothing switches that off.
    Tier.POWER: {"fsync": "each commit"},
}
FILE, COUNT = "Data.fs", "rows"
FILESTORAGE, SERVED = "filestorage", "zeo"
CACHE_MIB = 20
"""Of a client of ZEO's, in a file: its default. What was read is in the array's own pages."""
REMEMBERED = 1
"""Transactions that a server of ZEO's reads whole when it starts, for clients that come back: the fewest. That one
has to be small, or a cold phase would find everything read."""
AT_ONCE = 1 << 30
"""Bytes after which what was written is committed: a transaction is in memory, and an array may be larger than
that."""
PAGE_BYTES = 2 << 20


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server | None:
    return ZEO(home, REMEMBERED) if options["storage"] == SERVED else None


class Wendelin:
    """A database on a FileStorage or on ZEO, with an array for each column or one of rows."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any = None) -> None:
        import ZODB
        from wendelin.bigfile import file_zodb

        self.bound = int(options["pages_mib"]) << 20
        """Bytes of pages that may be in memory; 0 where all may."""
        self._touched = 0
        self.layout, self._blocks = str(options["layout"]), str(options["blocks"])
        # What the variable WENDELIN_CORE_ZBLK_FMT sets when it is imported.
        file_zodb.ZBlk_fmt_write = self._blocks
        self._home, self.server = home, server
        self._database = ZODB.DB(self._storage())
        self._connection = self._database.open()
        self.root: Any = self._connection.root()
        if COUNT not in self.root:
            self._create()
        self.arrays: dict[str, Any] = {}
        """A view of each array, whole."""
        self.view()

    def _storage(self) -> Any:
        from ZODB.FileStorage import FileStorage

        if self.server is None:
            return FileStorage(str(self._home / FILE))
        return zeo_client.storage(self.server, self._home, CACHE_MIB)

    def _create(self) -> None:
        import transaction
        from wendelin.bigarray.array_zodb import ZBigArray

        self.root[COUNT] = 0
        for name, of in layouts.dtypes(self.layout).items():
            self.root[name] = ZBigArray((0,), of)
        # An array is to be known to the database before it is used.
        transaction.commit()

    def view(self) -> None:
        self.arrays.clear()
        self.arrays.update({name: self.root[name][:] for name in layouts.dtypes(self.layout)})

    def resize(self, rows: int) -> None:
        self.arrays.clear()
        for name in layouts.dtypes(self.layout):
            self.root[name].resize((rows,))

    def touched(self, arrays: int, size: int) -> None:
        """Pages of so many arrays were, for `size` bytes of each: once there may be too many, all go."""
        self._touched += arrays * (size // PAGE_BYTES + 2) * PAGE_BYTES
        if 0 < self.bound < self._touched:
            self.committed()

    def committed(self) -> None:
        """What was written is: its pages are no longer wanted, nor the copies of them that its commit has made."""
        if self.bound:
            # A writer of ZODB's is a cycle that holds the last block it wrote, and Python looks for none meanwhile.
            gc.collect()
            self.forget()

    def forget(self) -> None:
        """Takes all pages from memory but those that were changed and are not committed."""
        from wendelin.bigfile import ram_reclaim

        self._touched = 0
        # Some at a time.
        while ram_reclaim():
            pass

    def close(self) -> None:
        self.arrays.clear()
        self._connection.close()
        self._database.close()

    def version(self) -> str:
        used = ("ZODB", "NumPy") if self.server is None else ("ZODB", "ZEO", "NumPy")
        return f"wendelin.core {version('wendelin.core')} ({', '.join(f'{name} {version(name)}' for name in used)})"

    def settings(self) -> Mapping[str, Value | None]:
        from wendelin.bigfile import file_zodb

        told = {**TIERS[Tier.POWER], "layout": self.layout, "blocks": file_zodb.ZBlk_fmt_write}
        told["pages_mib"] = self.bound >> 20
        if self.server is None:
            return {**told, "storage": FILESTORAGE}
        return {**told, "storage": SERVED, "cache_mib": CACHE_MIB, "invalidation_queue": REMEMBERED}

    def files(self) -> Iterable[Path]:
        file = self._home / FILE if self.server is None else self.server.file(self.server.storage(self._home))
        return [path for path in (file, file.with_suffix(".fs.index")) if path.exists()]

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Arrays(Held):
    """The `arrays` port."""

    def __init__(self, engine: Wendelin) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        import transaction

        engine, waiting = self._engine, 0
        count, most = int(engine.root[COUNT]), min(AT_ONCE, engine.bound // 2 or AT_ONCE)

        def write(chunk: Chunk) -> None:
            nonlocal count, waiting
            layouts.store(self._layout, self._arrays, count, chunk)
            count += len(next(iter(chunk.values())))
            waiting += sum(values.nbytes for values in chunk.values())
            if waiting >= most:
                transaction.commit()
                waiting = 0
                engine.committed()

        try:
            engine.resize(count + rows)
            engine.view()
            yield write
            engine.resize(count)
            if engine.server is not None:
                # See REMEMBERED: what is written counts by a transaction of its own, which is the last.
                transaction.commit()
            engine.root[COUNT] = count
            transaction.commit()
        except BaseException:
            engine.arrays.clear()
            transaction.abort()
            engine.resize(int(engine.root[COUNT]))
            transaction.commit()
            raise
        finally:
            engine.view()
            engine.committed()

    def update(self, change: Change) -> None:
        import transaction

        self.change(change)
        transaction.commit()

    def close(self) -> None:
        pass


class Bounded(Arrays):
    """The same with a bound to the pages in memory, which are never given back else: columns are read in pieces, and
    the pages of one go before the next."""

    def _parts(self, name: str) -> Iterator[Any]:
        column = self._column(name)
        for part in columns.pieces(column, max(self._engine.bound // 2 // column.strides[0], 1)):
            yield part
            self._engine.forget()

    def sum(self, column: str) -> int | float:
        return columns.added(column, self._parts(column))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [columns.moments(partial(self._parts, name)) for name in names]

    def frame(self, names: Sequence[str]) -> Any:
        from pandas import DataFrame

        return DataFrame({name: self._copied(name) for name in names}, copy=False)

    def _copied(self, name: str) -> Any:
        import numpy as np

        found, at = np.empty(len(self._column(name)), columns.dtype(name)), 0
        for part in self._parts(name):
            found[at : at + len(part)] = part
            at += len(part)
        return found

    def slice(self, rows: range) -> Chunk:
        found = super().slice(rows)
        self._engine.touched(len(self._arrays), len(rows) * columns.record().itemsize)
        return found

    def update(self, change: Change) -> None:
        super().update(change)
        self._engine.touched(len(change.values), (change.stop - change.start) * columns.record().itemsize)


def arrays(engine: Wendelin) -> Arrays:
    return Bounded(engine) if engine.bound else Arrays(engine)


ENGINE = EngineSpec(
    name="wendelin",
    title="Wendelin.core, arrays in ZODB that are larger than memory",
    opener=Wendelin,
    ports={"arrays": PortSpec(arrays)},
    tiers=TIERS,
    default_tier=Tier.POWER,
    modules=("wendelin.bigarray", "ZODB", "ZEO", "pandas"),
    requires=("wendelin.core==0.13", "ZODB>=5.8", "ZEO>=6", "pandas>=2.0"),
    # Its setup and its package want pkg_resources, which later ones of setuptools lack.
    builds=("setuptools<66", "wheel", "numpy>=1.26"),
    python="3.10",
    options=(
        Setting(
            "blocks",
            choice("ZBlk0", "ZBlk1"),
            "ZBlk0",
            "ZBlk0: a block of 2 MiB is an object; ZBlk1: it is many, of which those that changed are stored",
        ),
        Setting(
            "storage",
            choice(FILESTORAGE, SERVED),
            FILESTORAGE,
            "what the database is on: FileStorage, in the process; zeo, a server of ZEO's in front of one",
        ),
        Setting(
            "pages_mib", integer(0), 0, "the most of the array's pages in memory, in MiB; 0: all that were touched"
        ),
        LAYOUT,
    ),
    server=serve,
    seldom=databases.APPENDED,
)
