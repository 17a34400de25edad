"""HDF5 by h5py: one file, with a chunked dataset for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.arraystores.chunked import ChunkedArrays
from dyno.host.installation import version
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import NAMES, Change

ROWS = "rows"
"""Attribute with the number of rows."""


class HDF5(Engine):
    """The file. A commit writes it to the kernel; in between nothing protects it."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import h5py

        self._path = home / "stock.h5"
        self.file: Any = h5py.File(self._path, "a")
        if ROWS not in self.file.attrs:
            self._create(options)
        self.arrays: dict[str, Any] = {name: self.file[name] for name in NAMES}

    def _create(self, options: Mapping[str, Value]) -> None:
        for name in NAMES:
            dtype = columns.dtype(name)
            self.file.create_dataset(
                name,
                shape=(0,),
                maxshape=(None,),
                chunks=(int(options["chunk_rows"]),),
                # HDF5 has no type for times.
                dtype="i8" if dtype.kind == "M" else dtype,
                compression=None if options["compression"] == "none" else options["compression"],
            )
        self.file.attrs[ROWS] = 0

    def resize(self, rows: int) -> None:
        for dataset in self.arrays.values():
            dataset.resize((rows,))

    @property
    def rows(self) -> int:
        return int(self.file.attrs[ROWS])

    def commit(self, rows: int) -> None:
        self.file.attrs[ROWS] = rows
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    def version(self) -> str:
        import h5py

        return f"HDF5 {h5py.version.hdf5_version} (h5py {version('h5py')})"

    def settings(self) -> Mapping[str, Value | None]:
        dataset = self.arrays[NAMES[0]]
        return {
            "chunk_rows": int(dataset.chunks[0]),
            "compression": dataset.compression or "none",
            "chunk_cache_bytes": int(self.file.id.get_access_plist().get_cache()[2]),
        }

    def files(self) -> Iterable[Path]:
        return [self._path] if self._path.exists() else []

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-journal", "has no journal: a process that dies while it writes may leave a torn file")


class Arrays(ChunkedArrays):
    """The `arrays` port."""

    def update(self, change: Change) -> None:
        super().update(change)
        self._engine.file.flush()


ENGINE = EngineSpec(
    name="hdf5",
    title="HDF5, a file of datasets in chunks (h5py)",
    opener=HDF5,
    ports={"arrays": PortSpec(Arrays)},
    # Acknowledged rows are in the file, but a death during a later write may destroy the file.
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("h5py", "pandas"),
    requires=("h5py>=3.8", "pandas>=2.0"),
    options=(
        Setting("chunk_rows", integer(1), 16_384, "rows of a chunk: 128 KiB of a column of numbers"),
        Setting("compression", choice("none", "gzip", "lzf"), "none", "of chunks (HDF5's default: none)"),
    ),
)
