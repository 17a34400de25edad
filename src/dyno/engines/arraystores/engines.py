"""NumPy arrays, either in the process's memory or mapped from files (`numpy.memmap`).

Arrays in memory are the upper limit for engines that store arrays. The kernel does the I/O of mapped files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dyno.contracts.cleanup import finally_
from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.arraystores.flushing import flush, replace
from dyno.engines.arraystores.ports import ARRAY, LAYOUT, RECORDS, WHOLE, Appender, NumpyArrays, dtypes, store
from dyno.host.installation import version
from dyno.suites.arrays.port import CHUNK_ROWS, Change, Chunk
from dyno.suites.ndarrays import DTYPE, Block, Ndarrays, Region, split_region
from dyno.suites.series import port, samples
from dyno.suites.series.port import SampleBatch, Samples

if TYPE_CHECKING:
    import numpy as np

# -- in memory ----------------------------------------------------------------------------------------------------


class Memory(Engine):
    """NumPy arrays in memory, which exist as long as the engine is open."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import numpy as np

        self.layout = str(options["layout"])
        self.arrays: dict[str, np.ndarray] = {name: np.empty(0, dtype) for name, dtype in dtypes(self.layout).items()}
        self.batches: list[SampleBatch] = []
        """Samples of the port `series`: a sorted batch, and then later batches in the order of their arrival."""

    def close(self) -> None:
        self.arrays = {}
        self.batches = []

    def version(self) -> str:
        return f"NumPy {version('numpy')} (pandas {version('pandas')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {"layout": self.layout}

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds the arrays in this process: nothing is written or read anywhere")


class MemoryArrays(NumpyArrays):
    def __init__(self, engine: Memory) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        import numpy as np

        (before,) = {len(array) for array in self._arrays.values()}
        # NumPy's arrays can't grow, so larger copies replace them.
        grown = {name: np.empty(before + rows, array.dtype) for name, array in self._arrays.items()}
        for name, array in self._arrays.items():
            grown[name][:before] = array
        write = Appender(before, partial(store, self._layout, grown))
        yield write
        self._engine.arrays.update({name: array[: write.rows] for name, array in grown.items()})


class Series(port.Series):
    """The `series` port: batches are sorted by variable and time at the next read."""

    def __init__(self, engine: Memory, names: Sequence[str]) -> None:
        self._engine, self._count = engine, len(names)
        if not engine.batches:
            engine.batches.append(samples.batch([()] * 5))

    def insert(self, batch: SampleBatch) -> None:
        self._engine.batches.append(SampleBatch(*(values.copy() for values in batch)))

    def _sort_batches(self) -> SampleBatch:
        import numpy as np

        if len(batches := self._engine.batches) > 1:
            columns = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
            batches[:] = [SampleBatch(*samples.latest_versions(columns))]
        return batches[0]

    def _samples_of(self, pv: int) -> Samples:
        import numpy as np

        batch = self._sort_batches()
        first, last = np.searchsorted(batch.pv, [pv, pv + 1])
        return Samples(*(values[first:last] for values in batch[1:]))

    def seen(self, pv: int, ts: int) -> bool:
        return any(((batch.ts == ts) & (batch.pv == pv)).any() for batch in reversed(self._engine.batches))

    def one(self, pv: int) -> Samples:
        return Samples(*(values.copy() for values in self._samples_of(pv)))

    def window(self, pv: int, start: int, end: int) -> Samples:
        import numpy as np

        one = self._samples_of(pv)
        first, last = np.searchsorted(one.ts, [start, end])
        return Samples(*(values[first:last].copy() for values in one))

    def all(self) -> Iterator[SampleBatch]:
        batch = self._sort_batches()
        for at in range(0, len(batch.ts), CHUNK_ROWS):
            yield SampleBatch(*(values[at : at + CHUNK_ROWS].copy() for values in batch))

    def latest(self) -> SampleBatch:
        import numpy as np

        batch = self._sort_batches()
        last = np.searchsorted(batch.pv, np.arange(1, self._count + 1)) - 1
        # Leave out variables without samples.
        last = last[np.diff(np.r_[-1, last]) > 0]
        return SampleBatch(*(values[last] for values in batch))


NUMPY_MEMORY = EngineSpec(
    name="numpy_memory",
    title="NumPy arrays in the memory of the process",
    opener=Memory,
    ports={"arrays": PortSpec(MemoryArrays), "series": PortSpec(Series)},
    tiers={Tier.VOLATILE: {}},
    installation=Installation(modules=("pandas",), requires=("pandas>=2.0",)),
    options=(LAYOUT,),
    in_memory=True,
)

# -- mapped from files --------------------------------------------------------------------------------------------

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A write to a shared mapping reaches the kernel at once and survives the process.
    Tier.PROCESS: {"flush": "none"},
    # A commit calls msync for the mapping and fsync for the file's length.
    Tier.POWER: {"flush": "msync"},
}
IN_PLACE = "updates in place: a crash in the middle of an update leaves a part of it"


class Memmap(Engine):
    """Arrays that are mapped from a file each. A commit replaces a further file, which has the number of rows."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._home, self.flushed = home, tier is Tier.POWER
        self._table = {name: options[name] for name in options if name == LAYOUT.name}
        self.layout = str(self._table.get(LAYOUT.name, LAYOUT.default))
        self._count = home / "rows"
        self.arrays: dict[str, Any] = {}
        if self._count.exists():
            self.rows = int(self._count.read_text())
        else:
            self.rows = 0
        self._map(self.rows)

    def _map(self, rows: int) -> None:
        """Maps arrays of `rows` rows. Files that are too short grow."""
        import numpy as np

        self.arrays.clear()
        for name, dtype in dtypes(self.layout).items():
            path = self.path(name)
            if rows:
                mode: Literal["r+", "w+"] = "r+" if path.exists() else "w+"
                self.arrays[name] = np.memmap(path, dtype, mode, shape=(rows,))
            else:
                self.arrays[name] = np.empty(0, dtype)

    def path(self, name: str) -> Path:
        return self._home / f"{name}.dat"

    def grow(self, rows: int) -> None:
        """Makes room for `rows` more rows, which don't count until a commit."""
        self._map(self.rows + rows)

    def commit(self, rows: int) -> None:
        """Stores the number of rows."""
        self.flush(self.arrays)
        if self.flushed:
            flush(path for path in map(self.path, self.arrays) if path.exists())
        replace(self._count, str(rows), self.flushed)
        self.rows = rows

    def trim(self) -> None:
        """Truncates the files to the committed rows."""
        self.arrays.clear()
        for name, dtype in dtypes(self.layout).items():
            if self.path(name).exists():
                os.truncate(self.path(name), self.rows * dtype.itemsize)
        self._map(self.rows)

    def flush(self, names: Iterable[str]) -> None:
        """Writes changes of these arrays to the device at tier `power`. Does nothing at other tiers."""
        for array in (self.arrays[name] for name in names if self.flushed):
            if len(array):
                array.flush()

    def close(self) -> None:
        self.arrays.clear()

    def version(self) -> str:
        return f"NumPy {version('numpy')} (pandas {version('pandas')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {**self._table, "flush": "msync" if self.flushed else "none"}

    def files(self) -> Iterable[Path]:
        return [path for path in (*map(self.path, (*dtypes(self.layout), ARRAY)), self._count) if path.exists()]

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-place", IN_PLACE)


class MappedArrays(NumpyArrays):
    def __init__(self, engine: Memmap) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    def _column(self, name: str) -> np.ndarray:
        import numpy as np

        # Return a plain array, because its slices are cheaper to create than those of a memmap.
        return super()._column(name).view(np.ndarray)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        write = Appender(self._engine.rows, self._store)
        self._engine.grow(rows)
        with finally_(self._engine.trim):
            yield write
            self._engine.commit(write.rows)

    def update(self, change: Change) -> None:
        super().update(change)
        self._engine.flush([WHOLE] if self._layout == RECORDS else change.values)


def _shift_region(region: Region, firsts: Sequence[int]) -> Region:
    """Returns the region by its distance from these indexes."""
    return tuple(slice(axis.start - first, axis.stop - first) for axis, first in zip(region, firsts, strict=True))


class MappedNdarrays(Ndarrays):
    """The `ndarrays` port: a file with one chunk after the other. A single chunk is an array in C order."""

    def __init__(self, engine: Memmap, shape: Sequence[int], chunks: Sequence[int]) -> None:
        import numpy as np

        path, self._chunks = engine.path(ARRAY), chunks
        grid = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
        mapped = np.memmap(path, DTYPE, "r+" if path.exists() else "w+", shape=(*grid, *chunks))
        self._mapped = mapped.view(np.ndarray)

    def _parts(self, region: Region) -> Iterator[tuple[np.ndarray, Region]]:
        """Yields the part of each chunk that is in the region, as a view, and its place in the region."""
        for at, part in split_region(region, self._chunks):
            firsts = [number * chunk for number, chunk in zip(at, self._chunks, strict=True)]
            yield self._mapped[at][_shift_region(part, firsts)], _shift_region(part, [axis.start for axis in region])

    def write(self, block: Block) -> None:
        for part, place in self._parts(block.region):
            part[...] = block.values[place]

    def read(self, region: Region) -> np.ndarray:
        import numpy as np

        values = np.empty([axis.stop - axis.start for axis in region], DTYPE)
        for part, place in self._parts(region):
            values[place] = part
        return values


NUMPY_MEMMAP = EngineSpec(
    name="numpy_memmap",
    title="NumPy arrays mapped from files (numpy.memmap)",
    opener=Memmap,
    ports={
        "arrays": PortSpec(MappedArrays, options=(LAYOUT,)),
        "ndarrays": PortSpec(MappedNdarrays, tiers={Tier.PROCESS: TIERS[Tier.PROCESS]}),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    installation=Installation(modules=("pandas",), requires=("pandas>=2.0",)),
    crashes=CrashSpec(
        Maintenance("every commit stores its rows and the file of their number, and nothing else is ever done"),
        in_place=IN_PLACE,
    ),
)
