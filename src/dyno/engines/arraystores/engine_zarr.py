"""Zarr: an array in chunks for each column, and each chunk a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.cleanup import finally_
from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores.chunked_reads import Pieces
from dyno.host import tree
from dyno.host.versions import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import CHUNK_ROWS, NAMES, Change, Chunk

COUNT = "rows"
"""The attribute that says how many there are."""


class Zarr:
    """A group of arrays in a directory."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import zarr

        self._path, self._options = home / "stock.zarr", options
        with warnings.catch_warnings():
            # That the format's third version has no standard for text of fixed length yet.
            warnings.simplefilter("ignore")
            self.group: Any = zarr.open_group(self._path, mode="a")
            if COUNT not in self.group.attrs:
                self._create()
            self.arrays: dict[str, Any] = {name: self.group[name] for name in NAMES}

    def _create(self) -> None:
        for name in NAMES:
            of = columns.dtype(name)
            self.group.create_array(
                name,
                shape=(0,),
                chunks=(int(self._options["chunk_rows"]),),
                # Times as numbers: their type has no standard yet.
                dtype="i8" if of.kind == "M" else of,
                compressors="auto" if self._options["compression"] == "zstd" else None,
            )
        self.group.attrs[COUNT] = 0

    def resize(self, rows: int) -> None:
        for array in self.arrays.values():
            array.resize((rows,))

    @property
    def rows(self) -> int:
        return int(self.group.attrs[COUNT])

    def commit(self, rows: int) -> None:
        self.group.attrs[COUNT] = rows

    def close(self) -> None:
        self.arrays.clear()

    def version(self) -> str:
        return f"Zarr {version('zarr')} (numcodecs {version('numcodecs')})"

    def settings(self) -> Mapping[str, Value | None]:
        one = self.arrays[NAMES[0]]
        return {
            "chunk_rows": int(one.chunks[0]),
            "compression": ", ".join(type(codec).__name__ for codec in one.compressors) or "none",
            "zarr_format": int(one.metadata.zarr_format),
        }

    def files(self) -> Iterable[Path]:
        return tree.files(self._path)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-transactions", "has no transactions: a crash in the middle of an update leaves a part of it")


class Arrays(Pieces):
    """The `arrays` port."""

    def __init__(self, engine: Zarr) -> None:
        self._engine = engine
        self.rows = engine.rows

    def column(self, name: str) -> Any:
        return self._engine.arrays[name]

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        count, arrays = self.rows, self._engine.arrays
        self._engine.resize(count + rows)

        def write(chunk: Chunk) -> None:
            nonlocal count
            size = len(next(iter(chunk.values())))
            for name, values in chunk.items():
                arrays[name][count : count + size] = columns.stored(name, values)
            count += size

        def trim() -> None:
            if count != self.rows or count < self.rows + rows:
                self._engine.resize(self.rows)

        with finally_(trim):
            yield write
            self._engine.commit(count)
            self.rows = count

    def update(self, change: Change) -> None:
        for name, values in change.values.items():
            self._engine.arrays[name][change.start : change.stop] = values

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="zarr",
    title="Zarr, arrays in chunks, each a file",
    opener=Zarr,
    ports={"arrays": PortSpec(Arrays)},
    # Each chunk is a file that is written beside the old one and takes its place; none is flushed.
    tiers={Tier.PROCESS: {}},
    default_tier=Tier.PROCESS,
    modules=("zarr", "pandas"),
    requires=("zarr>=3.1.3; python_version >= '3.11'", "pandas>=2.0"),
    seldom=Maintenance("every commit replaces files, and nothing else is ever done"),
    in_place="has no transactions: a crash in the middle of an update leaves a part of it",
    options=(
        Setting("chunk_rows", integer(1), CHUNK_ROWS, "rows of a chunk: 512 KiB of a column of numbers"),
        Setting("compression", choice("zstd", "none"), "zstd", "of chunks (Zarr's default: zstd)"),
    ),
)
