"""NumPy arrays in the memory of the process: what nothing that stores can be faster than."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, PortSpec
from dyno.engines._shared import layouts
from dyno.engines._shared.layouts import LAYOUT, Held
from dyno.model import Caveat, Tier, Value
from dyno.suites.arrays.port import Change, Chunk


class Memory:
    """The arrays live as long as the process has the engine open."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import numpy as np

        self.layout = str(options["layout"])
        self.arrays: dict[str, Any] = {name: np.empty(0, of) for name, of in layouts.dtypes(self.layout).items()}

    def close(self) -> None:
        self.arrays = {}

    def version(self) -> str:
        return f"NumPy {version('numpy')} (pandas {version('pandas')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {"layout": self.layout}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds the arrays in this process: nothing is written or read anywhere")


class Arrays(Held):
    """The `arrays` port."""

    def __init__(self, engine: Memory) -> None:
        self._engine = engine
        super().__init__(engine.layout, engine.arrays)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        import numpy as np

        (before,) = {len(array) for array in self._arrays.values()}
        # NumPy's arrays don't grow: others take their place, with what was in them.
        grown = {name: np.empty(before + rows, array.dtype) for name, array in self._arrays.items()}
        for name, array in self._arrays.items():
            grown[name][:before] = array
        count = before

        def write(chunk: Chunk) -> None:
            nonlocal count
            layouts.store(self._layout, grown, count, chunk)
            count += len(next(iter(chunk.values())))

        yield write
        self._engine.arrays.update({name: array[:count] for name, array in grown.items()})

    def update(self, change: Change) -> None:
        self.change(change)

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="numpy_memory",
    title="NumPy arrays in the memory of the process",
    opener=Memory,
    ports={"arrays": PortSpec(Arrays)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("pandas",),
    requires=("pandas>=2.0",),
    options=(LAYOUT,),
    in_memory=True,
)
