"""HDF5 through h5py: one file, with a chunked dataset for each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.arraystores.ports import ChunkedArrays, ChunkedNdarrays, GroupStore
from dyno.host.installation import version

if TYPE_CHECKING:
    import numpy as np


class HDF5(GroupStore):
    """The HDF5 file. A commit writes it to the kernel. If the process dies in between, it may be damaged."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import h5py

        self._path = home / "stock.h5"
        self.group = h5py.File(self._path, "a")
        if options["compression"] == "none":
            self._compression = None
        else:
            self._compression = options["compression"]
        self._open(options)

    def create(self, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype | str) -> None:
        # A table begins without rows, and grows.
        most = tuple(length or None for length in shape)
        self.group.create_dataset(name, shape, dtype, maxshape=most, chunks=chunks, compression=self._compression)

    def flush(self) -> None:
        self.group.flush()

    def close(self) -> None:
        self.group.close()

    def version(self) -> str:
        import h5py

        return f"HDF5 {h5py.version.hdf5_version} (h5py {version('h5py')})"

    def settings(self) -> Mapping[str, Value | None]:
        if not self.arrays:
            return {}
        dataset = next(iter(self.arrays.values()))
        return {
            "chunks": "x".join(map(str, dataset.chunks)),
            "compression": dataset.compression or "none",
            "chunk_cache_bytes": int(self.group.id.get_access_plist().get_cache()[2]),
        }

    def files(self) -> Iterable[Path]:
        return [self._path]

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-journal", "has no journal: a process that dies while it writes may leave a torn file")


ENGINE = EngineSpec(
    name="hdf5",
    title="HDF5, a file of datasets in chunks (h5py)",
    opener=HDF5,
    ports={
        "arrays": PortSpec(
            ChunkedArrays,
            options=(Setting("chunk_rows", integer(1), 16_384, "rows of a chunk: 128 KiB of a column of numbers"),),
        ),
        "ndarrays": PortSpec(ChunkedNdarrays),
    },
    # A commit writes its rows into the file, but a process that dies during a later write may destroy the file.
    tiers={Tier.VOLATILE: {}},
    installation=Installation(modules=("h5py", "pandas"), requires=("h5py>=3.8", "pandas>=2.0")),
    versions=Versions((Wheel("h5py"),)),
    options=(Setting("compression", choice("none", "gzip", "lzf"), "none", "of chunks (HDF5's default: none)"),),
)
