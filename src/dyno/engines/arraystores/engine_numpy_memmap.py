"""NumPy arrays mapped from files (`numpy.memmap`): the kernel loads pages on access and writes them back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.cleanup import finally_
from dyno.contracts.engine import Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.arraystores.chunked import Appender
from dyno.engines.arraystores.flushing import flush, replace
from dyno.engines.arraystores.layouts import LAYOUT, RECORDS, WHOLE, NumpyArrays, dtypes
from dyno.host.installation import version
from dyno.suites.arrays.port import Change, Chunk

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A write to a shared mapping is in the kernel at once, and survives the process.
    Tier.PROCESS: {"flush": "none"},
    # msync of the mapping, and fsync for the file's length.
    Tier.POWER: {"flush": "msync"},
}
IN_PLACE = "updates in place: a crash in the middle of an update leaves a part of it"


class Memmap(Engine):
    """A file for each array, and one with the number of rows, which a commit replaces."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._home, self.flushed, self.layout = home, tier is Tier.POWER, str(options["layout"])
        self._count = home / "rows"
        self.arrays: dict[str, Any] = {}
        self.rows = int(self._count.read_text()) if self._count.exists() else 0
        self._map(self.rows)

    def _map(self, rows: int) -> None:
        """Maps arrays of that many rows; files that are too short grow."""
        import numpy as np

        self.arrays.clear()
        for name, dtype in dtypes(self.layout).items():
            path = self._path(name)
            if rows:
                mode: Any = "r+" if path.exists() else "w+"
                self.arrays[name] = np.memmap(path, dtype, mode, shape=(rows,))
            else:
                self.arrays[name] = np.empty(0, dtype)

    def _path(self, name: str) -> Path:
        return self._home / f"{name}.dat"

    def grow(self, rows: int) -> None:
        """Makes room for more rows, which don't count until a commit."""
        self._map(self.rows + rows)

    def commit(self, rows: int) -> None:
        """Stores the number of rows."""
        self.flush(self.arrays)
        if self.flushed:
            flush(path for path in map(self._path, self.arrays) if path.exists())
        replace(self._count, str(rows), self.flushed)
        self.rows = rows

    def trim(self) -> None:
        """Truncates the files to the committed rows."""
        self.arrays.clear()
        for name, dtype in dtypes(self.layout).items():
            if self._path(name).exists():
                os.truncate(self._path(name), self.rows * dtype.itemsize)
        self._map(self.rows)

    def flush(self, names: Iterable[str]) -> None:
        """Writes changes of these arrays to the device, at tier `power`."""
        for array in (self.arrays[name] for name in names if self.flushed):
            if len(array):
                array.flush()

    def close(self) -> None:
        self.arrays.clear()

    def version(self) -> str:
        return f"NumPy {version('numpy')} (pandas {version('pandas')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {"layout": self.layout, "flush": "msync" if self.flushed else "none"}

    def files(self) -> Iterable[Path]:
        return [path for path in (*map(self._path, dtypes(self.layout)), self._count) if path.exists()]

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-place", IN_PLACE)


class Arrays(NumpyArrays):
    """The `arrays` port."""

    def __init__(self, engine: Memmap) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    def _column(self, name: str) -> Any:
        import numpy as np

        # As a plain array, whose slices are cheaper to create than those of a memmap.
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


ENGINE = EngineSpec(
    name="numpy_memmap",
    title="NumPy arrays mapped from files (numpy.memmap)",
    opener=Memmap,
    ports={"arrays": PortSpec(Arrays)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("pandas",),
    requires=("pandas>=2.0",),
    options=(LAYOUT,),
    seldom=Maintenance("every commit stores its rows and the file of their number, and nothing else is ever done"),
    in_place=IN_PLACE,
)
