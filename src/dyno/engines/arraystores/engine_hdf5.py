"""HDF5 by h5py: one file, with a dataset in chunks for each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.cleanup import finally_
from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores.chunked_reads import Pieces
from dyno.host.versions import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import NAMES, Change, Chunk

COUNT = "rows"
"""The attribute that says how many there are."""


class HDF5:
    """One file. It is flushed at each commit, to the kernel; nothing guards it in between."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import h5py

        self._path, self._chunk_rows = home / "stock.h5", int(options["chunk_rows"])
        self._compression = str(options["compression"])
        self.file: Any = h5py.File(self._path, "a")
        if COUNT not in self.file.attrs:
            self._create()
        self.datasets: dict[str, Any] = {name: self.file[name] for name in NAMES}

    def _create(self) -> None:
        compression = None if self._compression == "none" else self._compression
        for name in NAMES:
            of = columns.dtype(name)
            self.file.create_dataset(
                name,
                shape=(0,),
                maxshape=(None,),
                chunks=(self._chunk_rows,),
                # It has no times.
                dtype="i8" if of.kind == "M" else of,
                compression=compression,
            )
        self.file.attrs[COUNT] = 0

    def resize(self, rows: int) -> None:
        for dataset in self.datasets.values():
            dataset.resize((rows,))

    @property
    def rows(self) -> int:
        return int(self.file.attrs[COUNT])

    def commit(self, rows: int) -> None:
        self.file.attrs[COUNT] = rows
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    def version(self) -> str:
        import h5py

        return f"HDF5 {h5py.version.hdf5_version} (h5py {version('h5py')})"

    def settings(self) -> Mapping[str, Value | None]:
        one = self.datasets[NAMES[0]]
        return {
            "chunk_rows": int(one.chunks[0]),
            "compression": one.compression or "none",
            "chunk_cache_bytes": int(self.file.id.get_access_plist().get_cache()[2]),
        }

    def files(self) -> Iterable[Path]:
        return [self._path] if self._path.exists() else []

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-journal", "has no journal: a process that dies while it writes may leave a torn file")


class Arrays(Pieces):
    """The `arrays` port."""

    def __init__(self, engine: HDF5) -> None:
        self._engine = engine
        self.rows = engine.rows

    def column(self, name: str) -> Any:
        return self._engine.datasets[name]

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        count, datasets = self.rows, self._engine.datasets
        self._engine.resize(count + rows)

        def write(chunk: Chunk) -> None:
            nonlocal count
            size = len(next(iter(chunk.values())))
            for name, values in chunk.items():
                datasets[name][count : count + size] = columns.stored(name, values)
            count += size

        def settle() -> None:
            self._engine.resize(self.rows)
            self._engine.commit(self.rows)

        with finally_(settle):
            yield write
            self.rows = count

    def update(self, change: Change) -> None:
        for name, values in change.values.items():
            self._engine.datasets[name][change.start : change.stop] = values
        self._engine.file.flush()

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="hdf5",
    title="HDF5, a file of datasets in chunks (h5py)",
    opener=HDF5,
    ports={"arrays": PortSpec(Arrays)},
    # What was acknowledged is in the file, but a death in the middle of the next write may cost the file.
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("h5py", "pandas"),
    requires=("h5py>=3.8", "pandas>=2.0"),
    options=(
        Setting("chunk_rows", integer(1), 16_384, "rows of a chunk: 128 KiB of a column of numbers"),
        Setting("compression", choice("none", "gzip", "lzf"), "none", "of chunks (HDF5's default: none)"),
    ),
)
