"""Wendelin.core: arrays in ZODB that may be larger than memory. Pages are loaded from objects on access and stored by
a commit.

The last release of Wendelin.core supports Python 3.7 to 3.10, so its trials run in a separate interpreter.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, PortSpec, Server, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores.ports import LAYOUT, Appender, NumpyArrays, dtypes
from dyno.engines.zodb import databases
from dyno.engines.zodb.databases import ZEO, open_storage
from dyno.host.installation import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import Change, Chunk

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from persistent.mapping import PersistentMapping

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # FileStorage flushes each commit before it acknowledges it, with or without ZEO. No setting changes that.
    Tier.POWER: {"fsync": "each commit"},
}
FILE, ROWS = "Data.fs", "rows"
FILESTORAGE, ON_ZEO = "filestorage", "zeo"
CACHE_MIB = 20
"""Size of ZEO's client cache, which is a file: the default. Pages that have been read are in memory, too."""
INVALIDATIONS = 1
"""Number of recent transactions that a ZEO server remembers for clients that reconnect: the minimum. When the server
starts, it reads this transaction in full. If it were large, a cold phase would find everything in the page cache."""
COMMIT_BYTES = 1 << 30
"""Bytes written before an intermediate commit. ZODB holds a transaction in memory, and an array may be larger."""
PAGE_BYTES = 2 << 20


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server | None:
    if options["storage"] == ON_ZEO:
        return ZEO(home, INVALIDATIONS)
    return None


class Wendelin(Engine):
    """A ZODB database on FileStorage or ZEO. The layout decides whether it has an array per column or one of rows."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: ZEO | None = None) -> None:
        import transaction
        import ZODB
        from wendelin.bigarray.array_zodb import ZBigArray
        from wendelin.bigfile import file_zodb
        from ZODB.FileStorage import FileStorage

        self.bound = int(options["pages_mib"]) << 20
        """Maximum number of bytes of pages in memory; 0 for no limit."""
        self._touched = 0
        self.layout = str(options["layout"])
        # By default, the environment variable WENDELIN_CORE_ZBLK_FMT decides when the module is imported.
        file_zodb.ZBlk_fmt_write = str(options["blocks"])
        self._home, self.server = home, server
        if server is None:
            storage = FileStorage(str(home / FILE))
        else:
            storage = open_storage(server, home, CACHE_MIB)
        self._database = ZODB.DB(storage)
        self._connection = self._database.open()
        self.root: PersistentMapping = self._connection.root()
        if ROWS not in self.root:
            self.root[ROWS] = 0
            for name, dtype in dtypes(self.layout).items():
                self.root[name] = ZBigArray((0,), dtype)
            # A new array must be committed before it is used.
            transaction.commit()
        self.arrays: dict[str, np.ndarray] = {}
        """Views of the whole arrays, by name."""
        self.view()

    def view(self) -> None:
        self.arrays.clear()
        self.arrays.update({name: self.root[name][:] for name in dtypes(self.layout)})

    def resize(self, rows: int) -> None:
        self.arrays.clear()
        for name in dtypes(self.layout):
            self.root[name].resize((rows,))

    def count_loaded_pages(self, arrays: int, size: int) -> None:
        """Counts the pages that an access to `size` bytes of each array loads. Above the limit, frees all pages."""
        self._touched += arrays * (size // PAGE_BYTES + 2) * PAGE_BYTES
        if 0 < self.bound < self._touched:
            self.free_committed()

    def free_committed(self) -> None:
        """Frees all pages, and the copies of them that a commit made."""
        if self.bound:
            # ZODB's writer is a reference cycle that holds the last block it wrote.
            gc.collect()
            self.free_pages()

    def free_pages(self) -> None:
        """Frees all pages without uncommitted changes."""
        from wendelin.bigfile import ram_reclaim

        self._touched = 0
        # Each call frees only some of the pages.
        while ram_reclaim():
            pass

    def close(self) -> None:
        self.arrays.clear()
        self._connection.close()
        self._database.close()

    def version(self) -> str:
        others = ("ZODB", "NumPy") if self.server is None else ("ZODB", "ZEO", "NumPy")
        return f"wendelin.core {version('wendelin.core')} ({', '.join(f'{name} {version(name)}' for name in others)})"

    def settings(self) -> Mapping[str, Value | None]:
        from wendelin.bigfile import file_zodb

        settings = {**TIERS[Tier.POWER], "layout": self.layout, "blocks": file_zodb.ZBlk_fmt_write}
        settings["pages_mib"] = self.bound >> 20
        if self.server is None:
            return {**settings, "storage": FILESTORAGE}
        return {**settings, "storage": ON_ZEO, "cache_mib": CACHE_MIB, "invalidation_queue": INVALIDATIONS}

    def files(self) -> Iterable[Path]:
        if self.server is None:
            file = self._home / FILE
        else:
            file = self.server.file(self.server.storage(self._home))
        return [path for path in (file, file.with_suffix(".fs.index")) if path.exists()]


class Arrays(NumpyArrays):
    def __init__(self, engine: Wendelin) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        import transaction

        engine, uncommitted = self._engine, 0
        limit = min(COMMIT_BYTES, engine.bound // 2 or COMMIT_BYTES)

        def store(start: int, chunk: Chunk) -> None:
            nonlocal uncommitted
            self._store(start, chunk)
            uncommitted += sum(values.nbytes for values in chunk.values())
            if uncommitted >= limit:
                transaction.commit()
                uncommitted = 0
                engine.free_committed()

        write = Appender(int(engine.root[ROWS]), store)
        try:
            engine.resize(write.rows + rows)
            engine.view()
            yield write
            engine.resize(write.rows)
            if engine.server is not None:
                # Make the last transaction small: it has only the number of rows. See INVALIDATIONS.
                transaction.commit()
            engine.root[ROWS] = write.rows
            transaction.commit()
        except BaseException:
            engine.arrays.clear()
            transaction.abort()
            engine.resize(int(engine.root[ROWS]))
            transaction.commit()
            raise
        finally:
            engine.view()
            engine.free_committed()

    def update(self, change: Change) -> None:
        import transaction

        super().update(change)
        transaction.commit()


class BoundedArrays(Arrays):
    """Arrays with a limit for pages in memory, because wendelin.core never frees pages by itself. Columns are read in
    pieces, and the pages of each piece are freed before the next is read."""

    def _parts(self, name: str) -> Iterator[np.ndarray]:
        column = self._column(name)
        for part in columns.pieces(column, max(self._engine.bound // 2 // column.strides[0], 1)):
            yield part
            self._engine.free_pages()

    def sum(self, column: str) -> int | float:
        return columns.sum_pieces(column, self._parts(column))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [columns.moments(partial(self._parts, name)) for name in names]

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        import numpy as np
        from pandas import DataFrame

        copies = {name: np.empty(len(self._column(name)), columns.dtype(name)) for name in names}
        for name, values in copies.items():
            at = 0
            for part in self._parts(name):
                values[at : at + len(part)] = part
                at += len(part)
        return DataFrame(copies, copy=False)

    def slice(self, rows: range) -> Chunk:
        chunk = super().slice(rows)
        self._engine.count_loaded_pages(len(self._arrays), len(rows) * columns.row_dtype().itemsize)
        return chunk

    def update(self, change: Change) -> None:
        super().update(change)
        self._engine.count_loaded_pages(
            len(change.values), (change.stop - change.start) * columns.row_dtype().itemsize
        )


ENGINE = EngineSpec(
    name="wendelin",
    title="Wendelin.core, arrays in ZODB that are larger than memory",
    opener=Wendelin,
    server=ServerSpec(serve, library_works=True),
    ports={"arrays": PortSpec(lambda engine: BoundedArrays(engine) if engine.bound else Arrays(engine))},
    tiers=TIERS,
    installation=Installation(
        modules=("wendelin.bigarray", "ZODB", "ZEO", "pandas"),
        requires=("wendelin.core==0.13", "ZODB>=5.8", "ZEO>=6", "pandas>=2.0"),
        # wendelin.core needs pkg_resources, which later versions of setuptools lack.
        builds=("setuptools<66", "wheel", "numpy>=1.26"),
        python="3.10",
    ),
    options=(
        Setting(
            "blocks",
            choice("ZBlk0", "ZBlk1"),
            "ZBlk0",
            "ZBlk0: a block of 2 MiB is one object; ZBlk1: it is many, and only the changed ones are stored",
        ),
        Setting(
            "storage",
            choice(FILESTORAGE, ON_ZEO),
            FILESTORAGE,
            "storage of the database: FileStorage in the process, or zeo, a ZEO server in front of one",
        ),
        Setting("pages_mib", integer(0), 0, "largest size of the array's pages in memory, in MiB; 0 for no limit"),
        LAYOUT,
    ),
    crashes=CrashSpec(databases.APPENDED),
)
