"""NumPy arrays in the memory of the process: the limit for everything that stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.arraystores import layouts
from dyno.engines.arraystores.chunked import Appender
from dyno.engines.arraystores.layouts import LAYOUT, NumpyArrays
from dyno.host.installation import version
from dyno.suites.arrays.port import CHUNK_ROWS, Chunk
from dyno.suites.series import port, samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples


class Memory(Engine):
    """The arrays live as long as the engine is open."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import numpy as np

        self.layout = str(options["layout"])
        self.arrays: dict[str, Any] = {
            name: np.empty(0, dtype) for name, dtype in layouts.dtypes(self.layout).items()
        }
        self.batches: list[SampleBatch] = []
        """Samples of the port `series`: a sorted batch, and later ones as they arrived."""

    def close(self) -> None:
        self.arrays = {}
        self.batches = []

    def version(self) -> str:
        return f"NumPy {version('numpy')} (pandas {version('pandas')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {"layout": self.layout}

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds the arrays in this process: nothing is written or read anywhere")


class Arrays(NumpyArrays):
    """The `arrays` port."""

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
        write = Appender(before, partial(layouts.store, self._layout, grown))
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

    def _sorted(self) -> SampleBatch:
        import numpy as np

        if len(batches := self._engine.batches) > 1:
            columns = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
            batches[:] = [SampleBatch(*samples.latest_versions(columns))]
        return batches[0]

    def _of(self, pv: int) -> Samples:
        import numpy as np

        batch = self._sorted()
        first, last = np.searchsorted(batch.pv, [pv, pv + 1])
        return Samples(*(values[first:last] for values in batch[1:]))

    def seen(self, pv: int, ts: int) -> bool:
        return any(((batch.ts == ts) & (batch.pv == pv)).any() for batch in reversed(self._engine.batches))

    def one(self, pv: int) -> Samples:
        return Samples(*(values.copy() for values in self._of(pv)))

    def window(self, pv: int, start: int, end: int) -> Samples:
        import numpy as np

        one = self._of(pv)
        first, last = np.searchsorted(one.ts, [start, end])
        return Samples(*(values[first:last].copy() for values in one))

    def all(self) -> Iterator[SampleBatch]:
        batch = self._sorted()
        for at in range(0, len(batch.ts), CHUNK_ROWS):
            yield SampleBatch(*(values[at : at + CHUNK_ROWS].copy() for values in batch))

    def latest(self) -> SampleBatch:
        import numpy as np

        batch = self._sorted()
        last = np.searchsorted(batch.pv, np.arange(1, self._count + 1)) - 1
        # Without the variables that have no samples.
        last = last[np.diff(np.r_[-1, last]) > 0]
        return SampleBatch(*(values[last] for values in batch))

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return samples.downsample(self.window(pv, start, end), bucket)


ENGINE = EngineSpec(
    name="numpy_memory",
    title="NumPy arrays in the memory of the process",
    opener=Memory,
    ports={"arrays": PortSpec(Arrays), "series": PortSpec(Series)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("pandas",),
    requires=("pandas>=2.0",),
    options=(LAYOUT,),
    in_memory=True,
)
