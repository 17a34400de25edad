"""TileDB Embedded: a dense array with an attribute for each column. Each write adds a fragment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.arraystores.ports import ARRAY, Appender, ChunkedArrays
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, NAMES, Change, Chunk
from dyno.suites.ndarrays import DTYPE, Block, Ndarrays, Region

if TYPE_CHECKING:
    import numpy as np
    import tiledb

ROWS = "rows"
"""Key of the number of rows in the array's metadata. Cells after these rows are unused."""
MOST_ROWS = 2**40


class TileDB(Engine):
    """A TileDB array that stays open for reading. Each write opens the array a second time, as TileDB requires."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import tiledb

        self._path, self._compression = home / "stock.tiledb", options["compression"]
        memory = int(options.get("memory_mib", 0)) << 20
        # A read first loads tiles up to the second limit, and needs the rest for their contents.
        limits = {"sm.mem.total_budget": memory, "sm.mem.tile_upper_memory_limit": memory // 2}
        if memory:
            self._context = tiledb.Ctx(tiledb.Config(limits))
        else:
            self._context = None
        self.array: Any = None
        self.uri = str(self._path)
        if "tile_rows" in options:
            tile = int(options["tile_rows"])
            # The domain must be a multiple of the tile.
            self.open([MOST_ROWS // tile * tile], [tile], {name: columns.dtype(name) for name in NAMES})
        elif self._path.exists():
            self.array = tiledb.open(self.uri, ctx=self._context)

    def open(self, shape: Sequence[int], tiles: Sequence[int], dtypes: Mapping[str, np.dtype | str]) -> None:
        """Opens the array, which is created if it doesn't exist."""
        import tiledb

        if not self._path.exists():
            lengths = enumerate(zip(shape, tiles, strict=True))
            axes = [tiledb.Dim(f"axis{at}", domain=(0, n - 1), tile=tile, dtype="u8") for at, (n, tile) in lengths]
            filters = tiledb.FilterList([tiledb.ZstdFilter()] if self._compression == "zstd" else [])
            attributes = [tiledb.Attr(name, dtype=dtype, filters=filters) for name, dtype in dtypes.items()]
            schema = tiledb.ArraySchema(domain=tiledb.Domain(*axes), attrs=attributes, sparse=False)
            tiledb.Array.create(self.uri, schema)
            with tiledb.open(self.uri, "w") as array:
                array.meta[ROWS] = 0
        if self.array is None:
            self.array = tiledb.open(self.uri, ctx=self._context)

    @property
    def rows(self) -> int:
        return int(self.array.meta[ROWS])

    @contextmanager
    def writing(self) -> Iterator[tiledb.DenseArray]:
        import tiledb

        with tiledb.open(self.uri, "w") as array:
            yield array
        self.array.reopen()

    def close(self) -> None:
        if self.array is not None:
            self.array.close()

    def version(self) -> str:
        import tiledb

        return f"TileDB {'.'.join(map(str, tiledb.libtiledb.version()))} (tiledb {version('tiledb')})"

    def settings(self) -> Mapping[str, Value | None]:
        if self.array is None:
            return {}
        schema = self.array.schema
        filters = ", ".join(type(each).__name__ for each in schema.attr(0).filters)
        tiles = [str(schema.domain.dim(at).tile) for at in range(schema.domain.ndim)]
        return {"tiles": "x".join(tiles), "compression": filters or "none"}

    def files(self) -> Iterable[Path]:
        return filesystem.files(self._path)


class Attribute:
    """An attribute of the array, which is read when this object is sliced."""

    def __init__(self, array: tiledb.DenseArray, name: str) -> None:
        self._query, self._name = array.query(attrs=[name]), name

    def __getitem__(self, rows: slice) -> object:
        # Depending on its version, TileDB returns a single attribute as an array or in a dict.
        values = self._query[rows]
        if isinstance(values, dict):
            return values[self._name]
        return values


class Arrays(ChunkedArrays):
    def column(self, name: str) -> Attribute:
        return Attribute(self._engine.array, name)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with self._engine.writing() as array:

            def store(start: int, chunk: Chunk) -> None:
                array[start : start + len(next(iter(chunk.values())))] = dict(chunk)

            write = Appender(self.rows, store)
            yield write
            array.meta[ROWS] = write.rows
        self.rows = write.rows

    def sum(self, name: str) -> int | float:
        if not self.rows:
            # TileDB rejects an empty range.
            return 0
        result = self._engine.array.query(attrs=[name]).agg({name: ["sum"]})[0 : self.rows]
        value = result
        if isinstance(result, dict):
            value = result["sum"]
        if BY_NAME[name].exact:
            return int(value)
        return float(value)

    def slice(self, rows: range) -> Chunk:
        return dict(self._engine.array[rows.start : rows.stop])

    def update(self, change: Change) -> None:
        """Reads the unchanged attributes first, because a fragment must contain all attributes."""
        values = {**self._engine.array[change.start : change.stop], **change.values}
        with self._engine.writing() as array:
            array[change.start : change.stop] = values


class TileDBNdarrays(Ndarrays):
    """The `ndarrays` port. Each block is a fragment."""

    def __init__(self, engine: TileDB, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
        self._engine = engine
        engine.open(shape, chunks, {ARRAY: DTYPE})

    def write(self, block: Block) -> None:
        with self._engine.writing() as array:
            array[block.region] = block.values

    def read(self, region: Region) -> Any:
        values = self._engine.array[region]
        if isinstance(values, dict):
            return values[ARRAY]
        return values


ENGINE = EngineSpec(
    name="tiledb",
    title="TileDB, a dense array of fragments in the process",
    opener=TileDB,
    ports={
        "arrays": PortSpec(
            Arrays,
            options=(Setting("tile_rows", integer(1), CHUNK_ROWS, "rows of a tile: 512 KiB of a column of numbers"),),
        ),
        "ndarrays": PortSpec(
            TileDBNdarrays,
            options=(
                Setting("memory_mib", integer(0), 0, "memory of a read, in MiB; 0 for TileDB's default, 10 GiB"),
            ),
        ),
    },
    # A fragment becomes valid when its commit file exists, which is written last.
    tiers={Tier.PROCESS: {}},
    crashes=CrashSpec(Maintenance("every commit is a fragment of its own, and nothing else is ever done")),
    installation=Installation(modules=("tiledb", "pandas"), requires=("tiledb>=0.33", "pandas>=2.0")),
    versions=Versions((Wheel("tiledb"),)),
    options=(Setting("compression", choice("none", "zstd"), "none", "of tiles (TileDB's default: none)"),),
)
