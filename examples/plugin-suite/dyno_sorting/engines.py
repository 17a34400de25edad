"""The engines of the sorting suite: Python's own sort, NumPy's, and one that does nothing."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno_sorting.port import Sorted


class Process:
    """An engine that is nothing but this process: nothing to open, no files."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        pass

    def close(self) -> None:
        pass

    def version(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        return ()


class NumPy(Process):
    def version(self) -> str:
        return version("numpy")


class Null(Process):
    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing: the harness's own cost, which is inside every other figure")


class Timsort:
    """The `sorting` port by a list's own sort."""

    def __init__(self, engine: Process) -> None:
        pass

    def sort(self, numbers: Sequence[int]) -> Sorted:
        begin = perf_counter_ns()
        copy = list(numbers)
        copied = perf_counter_ns()
        copy.sort()
        return copy, copied - begin, perf_counter_ns() - copied


class NumPySort:
    """The `sorting` port by an array, which takes longer to make and less long to order."""

    def __init__(self, engine: Process) -> None:
        import numpy

        self._array, self._type = numpy.array, numpy.int64

    def sort(self, numbers: Sequence[int]) -> Sorted:
        begin = perf_counter_ns()
        copy = self._array(numbers, dtype=self._type)
        copied = perf_counter_ns()
        copy.sort()
        return copy, copied - begin, perf_counter_ns() - copied


class Nothing:
    """The `sorting` port's floor."""

    def __init__(self, engine: Process) -> None:
        pass

    def sort(self, numbers: Sequence[int]) -> Sorted:
        return (), 0, 0


TIMSORT = EngineSpec(
    name="timsort",
    title="Python's own sort",
    opener=Process,
    ports={"sorting": PortSpec(Timsort)},
    # It stores nothing, so nothing can be asked of its durability.
    tiers={},
    clients="processes",
)

NUMPY = EngineSpec(
    name="numpy-sort",
    title="NumPy's sort of an array",
    opener=NumPy,
    ports={"sorting": PortSpec(NumPySort)},
    tiers={},
    modules=("numpy",),
    requires=("numpy",),
    clients="processes",
)

NULL = EngineSpec(
    name="sorting-null",
    title="Nothing: the floor of the sorting suite",
    opener=Null,
    ports={"sorting": PortSpec(Nothing)},
    tiers={},
    clients="processes",
    floor=True,
)
