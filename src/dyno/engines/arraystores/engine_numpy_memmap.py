"""NumPy arrays mapped from files (`numpy.memmap`): the kernel reads what is touched, and writes it back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.cleanup import finally_
from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.arraystores import layouts
from dyno.engines.arraystores.flushing import flush, replace
from dyno.engines.arraystores.layouts import LAYOUT, Held
from dyno.host.versions import version
from dyno.suites.arrays.port import Change, Chunk

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # What is written to a shared mapping is the kernel's at once, and stays when the process goes.
    Tier.PROCESS: {"flush": "none"},
    # msync of the mapping, and fsync for the file's length.
    Tier.POWER: {"flush": "msync"},
}


class Memmap:
    """A file for each array; how many rows there are stands in a file of its own, which is replaced at a commit."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._home, self.flushed, self.layout = home, tier is Tier.POWER, str(options["layout"])
        self._count = home / "rows"
        self.arrays: dict[str, Any] = {}
        self.rows = int(self._count.read_text()) if self._count.exists() else 0
        self._map(self.rows)

    def _map(self, rows: int) -> None:
        """Arrays of so many rows: files that are too short grow."""
        import numpy as np

        self.arrays.clear()
        for name, of in layouts.dtypes(self.layout).items():
            path = self._path(name)
            if rows:
                mode: Any = "r+" if path.exists() else "w+"
                self.arrays[name] = np.memmap(path, of, mode, shape=(rows,))
            else:
                self.arrays[name] = np.empty(0, of)

    def _path(self, name: str) -> Path:
        return self._home / f"{name}.dat"

    def grow(self, rows: int) -> None:
        """Room for so many more, which are not counted yet."""
        self._map(self.rows + rows)

    def commit(self, rows: int) -> None:
        """So many there are now."""
        self.flush(self.arrays)
        if self.flushed:
            flush(path for path in map(self._path, self.arrays) if path.exists())
        replace(self._count, str(rows), self.flushed)
        self.rows = rows

    def trim(self) -> None:
        """To what is counted."""
        self.arrays.clear()
        for name, of in layouts.dtypes(self.layout).items():
            if self._path(name).exists():
                os.truncate(self._path(name), self.rows * of.itemsize)
        self._map(self.rows)

    def flush(self, names: Iterable[str]) -> None:
        """Writes what was changed in these arrays to the device, at the tier that wants it."""
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
        return [path for path in (*map(self._path, layouts.dtypes(self.layout)), self._count) if path.exists()]

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-place", "updates in place: a crash in the middle of an update leaves a part of it")


class Arrays(Held):
    """The `arrays` port."""

    def __init__(self, engine: Memmap) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    def _column(self, name: str) -> Any:
        import numpy as np

        # The same memory as an array of NumPy's, whose slices are made with less ado.
        return super()._column(name).view(np.ndarray)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        count = self._engine.rows
        self._engine.grow(rows)

        def write(chunk: Chunk) -> None:
            nonlocal count
            layouts.store(self._layout, self._arrays, count, chunk)
            count += len(next(iter(chunk.values())))

        with finally_(self._engine.trim):
            yield write
            self._engine.commit(count)

    def update(self, change: Change) -> None:
        self.change(change)
        self._engine.flush(layouts.touched(self._layout, change.values))

    def close(self) -> None:
        pass


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
    in_place="updates in place: a crash in the middle of an update leaves a part of it",
)
