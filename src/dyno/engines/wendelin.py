"""Wendelin.core: arrays in ZODB, larger than memory, whose pages are loaded from their objects when they are touched,
and stored as objects by a commit.

Its last release is for Python 3.7 to 3.10, so that its trials run in an interpreter of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, PortSpec
from dyno.engines._shared import layouts
from dyno.engines._shared.layouts import LAYOUT, Held
from dyno.model import Caveat, Tier, Value
from dyno.settings import Setting, choice
from dyno.suites.arrays.port import Change, Chunk

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # FileStorage flushes each commit before it is acknowledged, and nothing switches that off.
    Tier.POWER: {"fsync": "each commit"},
}
FILE, COUNT = "Data.fs", "rows"
AT_ONCE = 1 << 30
"""Bytes after which what was written is committed: a transaction is in memory, and an array may be larger than
that."""


class Wendelin:
    """A database on a FileStorage, with an array for each column or one of rows."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import ZODB
        from wendelin.bigfile import file_zodb
        from ZODB.FileStorage import FileStorage

        self.layout, self._blocks = str(options["layout"]), str(options["blocks"])
        # What the variable WENDELIN_CORE_ZBLK_FMT sets when it is imported.
        file_zodb.ZBlk_fmt_write = self._blocks
        self._file = home / FILE
        self._database = ZODB.DB(FileStorage(str(self._file)))
        self._connection = self._database.open()
        self.root: Any = self._connection.root()
        if COUNT not in self.root:
            self._create()
        self.arrays: dict[str, Any] = {}
        """A view of each array, whole."""
        self.view()

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

    def close(self) -> None:
        self.arrays.clear()
        self._connection.close()
        self._database.close()

    def version(self) -> str:
        return f"wendelin.core {version('wendelin.core')} (ZODB {version('ZODB')}, NumPy {version('numpy')})"

    def settings(self) -> Mapping[str, Value | None]:
        from wendelin.bigfile import file_zodb

        return {**TIERS[Tier.POWER], "layout": self.layout, "blocks": file_zodb.ZBlk_fmt_write}

    def files(self) -> Iterable[Path]:
        return [path for path in (self._file, self._file.with_suffix(".fs.index")) if path.exists()]

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
        count = int(engine.root[COUNT])

        def write(chunk: Chunk) -> None:
            nonlocal count, waiting
            layouts.store(self._layout, self._arrays, count, chunk)
            count += len(next(iter(chunk.values())))
            waiting += sum(values.nbytes for values in chunk.values())
            if waiting >= AT_ONCE:
                transaction.commit()
                waiting = 0

        try:
            engine.resize(count + rows)
            engine.view()
            yield write
            engine.resize(count)
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

    def update(self, change: Change) -> None:
        import transaction

        self.change(change)
        transaction.commit()

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="wendelin",
    title="Wendelin.core, arrays in ZODB that are larger than memory",
    opener=Wendelin,
    ports={"arrays": PortSpec(Arrays)},
    tiers=TIERS,
    default_tier=Tier.POWER,
    modules=("wendelin.bigarray", "ZODB", "pandas"),
    requires=("wendelin.core==0.13", "ZODB>=5.8", "pandas>=2.0"),
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
        LAYOUT,
    ),
)
