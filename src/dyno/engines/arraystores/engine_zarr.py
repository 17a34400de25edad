"""Zarr: a chunked array for each column, and a file for each chunk."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import CrashSpec, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.arraystores.ports import ChunkedArrays, ChunkedNdarrays, GroupStore
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.suites.arrays.port import CHUNK_ROWS

if TYPE_CHECKING:
    import numpy as np

IN_PLACE = "has no transactions: a crash in the middle of an update leaves a part of it"


class Zarr(GroupStore):
    """A group of arrays in a directory."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import zarr

        self._path = home / "stock.zarr"
        if options["compression"] == "zstd":
            self._compressors: str | None = "auto"
        else:
            self._compressors = None
        with warnings.catch_warnings():
            # Zarr warns that version 3 of its format has no standard for fixed-length text yet.
            warnings.simplefilter("ignore")
            self.group = zarr.open_group(self._path, mode="a")
            self._open(options)

    def create(self, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype | str) -> None:
        self.group.create_array(name, shape=shape, chunks=chunks, dtype=dtype, compressors=self._compressors)

    def version(self) -> str:
        return f"Zarr {version('zarr')} (numcodecs {version('numcodecs')})"

    def settings(self) -> Mapping[str, Value | None]:
        if not self.arrays:
            return {}
        array = next(iter(self.arrays.values()))
        return {
            "chunks": "x".join(map(str, array.chunks)),
            "compression": ", ".join(type(codec).__name__ for codec in array.compressors) or "none",
            "zarr_format": int(array.metadata.zarr_format),
        }

    def files(self) -> Iterable[Path]:
        return filesystem.files(self._path)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-transactions", IN_PLACE)


ENGINE = EngineSpec(
    name="zarr",
    title="Zarr, arrays in chunks, each a file",
    opener=Zarr,
    ports={
        "arrays": PortSpec(
            ChunkedArrays,
            options=(
                Setting("chunk_rows", integer(1), CHUNK_ROWS, "rows of a chunk: 512 KiB of a column of numbers"),
            ),
        ),
        "ndarrays": PortSpec(ChunkedNdarrays),
    },
    # A chunk is written to a new file, which replaces the old one and is not flushed.
    tiers={Tier.PROCESS: {}},
    installation=Installation(
        modules=("zarr", "pandas"), requires=("zarr>=3.1.3; python_version >= '3.11'", "pandas>=2.0")
    ),
    versions=Versions((Wheel("zarr"),)),
    crashes=CrashSpec(Maintenance("every commit replaces files, and nothing else is ever done"), in_place=IN_PLACE),
    options=(Setting("compression", choice("zstd", "none"), "zstd", "of chunks (Zarr's default: zstd)"),),
)
