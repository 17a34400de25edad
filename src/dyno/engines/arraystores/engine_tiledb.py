"""TileDB Embedded: a dense array with an attribute for each column, of which each write is a fragment of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores.chunked_reads import Pieces
from dyno.host import tree
from dyno.host.versions import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, NAMES, Change, Chunk

COUNT = "rows"
"""What says how many there are, in the array's metadata. Cells beyond are none."""
MOST_ROWS = 2**40


class TileDB:
    """The array, open to be read; it is opened beside that for each write, as TileDB wants it."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import tiledb

        self._path, self._options = home / "stock.tiledb", options
        self.uri = str(self._path)
        if not self._path.exists():
            self._create(tiledb)
        self.array: Any = tiledb.open(self.uri)

    def _create(self, tiledb: Any) -> None:
        tile = int(self._options["tile_rows"])
        # A whole number of tiles.
        last = MOST_ROWS // tile * tile - 1
        domain = tiledb.Domain(tiledb.Dim("row", domain=(0, last), tile=tile, dtype="u8"))
        zstd = [tiledb.ZstdFilter()] if self._options["compression"] == "zstd" else []
        attributes = [tiledb.Attr(name, dtype=columns.dtype(name), filters=tiledb.FilterList(zstd)) for name in NAMES]
        tiledb.Array.create(self.uri, tiledb.ArraySchema(domain=domain, attrs=attributes, sparse=False))
        with tiledb.open(self.uri, "w") as array:
            array.meta[COUNT] = 0

    @property
    def rows(self) -> int:
        return int(self.array.meta[COUNT])

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
        return tree.files(self._path)

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Column:
    """An attribute, which is read where it is sliced."""

    def __init__(self, array: Any, name: str) -> None:
        self._query, self._name = array.query(attrs=[name]), name

    def __getitem__(self, rows: slice) -> Any:
        # One attribute comes as itself, or as a dict of one, by TileDB's version.
        found = self._query[rows]
        return found[self._name] if isinstance(found, dict) else found


class Arrays(Pieces):
    """The `arrays` port."""

    def __init__(self, engine: TileDB) -> None:
        self._engine = engine
        self.rows = engine.rows

    def column(self, name: str) -> Any:
        return Column(self._engine.array, name)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        count = self.rows
        with self._engine.writing() as array:

            def write(chunk: Chunk) -> None:
                nonlocal count
                size = len(next(iter(chunk.values())))
                array[count : count + size] = dict(chunk)
                count += size

            yield write
            array.meta[COUNT] = count
        self.rows = count

    def sum(self, name: str) -> int | float:
        if not self.rows:
            # It takes no range without a place in it.
            return 0
        found = self._engine.array.query(attrs=[name]).agg({name: ["sum"]})[0 : self.rows]
        value = found["sum"] if isinstance(found, dict) else found
        return int(value) if BY_NAME[name].exact else float(value)

    def slice(self, rows: range) -> Chunk:
        return dict(self._engine.array[rows.start : rows.stop])

    def update(self, change: Change) -> None:
        """A fragment has all attributes: those that stay are read first."""
        found = {**self._engine.array[change.start : change.stop], **change.values}
        with self._engine.writing() as array:
            array[change.start : change.stop] = found

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="tiledb",
    title="TileDB, a dense array of fragments in the process",
    opener=TileDB,
    ports={"arrays": PortSpec(Arrays)},
    # A fragment counts when a file of its own says so, which is written last.
    tiers={Tier.PROCESS: {}},
    default_tier=Tier.PROCESS,
    seldom=Maintenance("every commit is a fragment of its own, and nothing else is ever done"),
    modules=("tiledb", "pandas"),
    requires=("tiledb>=0.33", "pandas>=2.0"),
    options=(
        Setting("tile_rows", integer(1), CHUNK_ROWS, "rows of a tile: 512 KiB of a column of numbers"),
        Setting("compression", choice("none", "zstd"), "none", "of tiles (TileDB's default: none)"),
    ),
)
