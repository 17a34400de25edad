"""TileDB Embedded: a dense array with an attribute for each column. Each write adds a fragment."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores.ports import Appender, ChunkedArrays
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, NAMES, Change, Chunk

ROWS = "rows"
"""Key of the number of rows in the array's metadata. Cells after these rows are unused."""
MOST_ROWS = 2**40


class TileDB(Engine):
    """A TileDB array that stays open for reading. Each write opens the array a second time, as TileDB requires."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import tiledb

        self._path = home / "stock.tiledb"
        self.uri = str(self._path)
        if not self._path.exists():
            tile = int(options["tile_rows"])
            # The domain must be a multiple of the tile.
            last = MOST_ROWS // tile * tile - 1
            domain = tiledb.Domain(tiledb.Dim("row", domain=(0, last), tile=tile, dtype="u8"))
            filters = tiledb.FilterList([tiledb.ZstdFilter()] if options["compression"] == "zstd" else [])
            attributes = [tiledb.Attr(name, dtype=columns.dtype(name), filters=filters) for name in NAMES]
            tiledb.Array.create(self.uri, tiledb.ArraySchema(domain=domain, attrs=attributes, sparse=False))
            with tiledb.open(self.uri, "w") as array:
                array.meta[ROWS] = 0
        self.array: Any = tiledb.open(self.uri)

    @property
    def rows(self) -> int:
        return int(self.array.meta[ROWS])

    @contextmanager
    def writing(self) -> Iterator[Any]:
        import tiledb

        with tiledb.open(self.uri, "w") as array:
            yield array
        self.array.reopen()

    def close(self) -> None:
        self.array.close()

    def version(self) -> str:
        import tiledb

        return f"TileDB {'.'.join(map(str, tiledb.libtiledb.version()))} (tiledb {version('tiledb')})"

    def settings(self) -> Mapping[str, Value | None]:
        schema = self.array.schema
        filters = ", ".join(type(each).__name__ for each in schema.attr(0).filters)
        return {"tile_rows": int(schema.domain.dim(0).tile), "compression": filters or "none"}

    def files(self) -> Iterable[Path]:
        return filesystem.files(self._path)


class Column:
    """An attribute of the array, which is read when this object is sliced."""

    def __init__(self, array: Any, name: str) -> None:
        self._query, self._name = array.query(attrs=[name]), name

    def __getitem__(self, rows: slice) -> Any:
        # Depending on its version, TileDB returns a single attribute as an array or in a dict.
        values = self._query[rows]
        return values[self._name] if isinstance(values, dict) else values


class Arrays(ChunkedArrays):
    """The `arrays` port."""

    def column(self, name: str) -> Any:
        return Column(self._engine.array, name)

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
        value = result["sum"] if isinstance(result, dict) else result
        return int(value) if BY_NAME[name].exact else float(value)

    def slice(self, rows: range) -> Chunk:
        return dict(self._engine.array[rows.start : rows.stop])

    def update(self, change: Change) -> None:
        """Reads the unchanged attributes first, because a fragment must contain all attributes."""
        values = {**self._engine.array[change.start : change.stop], **change.values}
        with self._engine.writing() as array:
            array[change.start : change.stop] = values


ENGINE = EngineSpec(
    name="tiledb",
    title="TileDB, a dense array of fragments in the process",
    opener=TileDB,
    ports={"arrays": PortSpec(Arrays)},
    # A fragment becomes valid when its commit file exists, which is written last.
    tiers={Tier.PROCESS: {}},
    seldom=Maintenance("every commit is a fragment of its own, and nothing else is ever done"),
    modules=("tiledb", "pandas"),
    requires=("tiledb>=0.33", "pandas>=2.0"),
    options=(
        Setting("tile_rows", integer(1), CHUNK_ROWS, "rows of a tile: 512 KiB of a column of numbers"),
        Setting("compression", choice("none", "zstd"), "none", "of tiles (TileDB's default: none)"),
    ),
)
