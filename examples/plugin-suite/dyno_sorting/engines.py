"""The engines of the sorting suite: Python's sort, NumPy's sort, and a null engine."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno_sorting.port import Sorted


class Process(Engine):
    """An engine inside the process. It has nothing to open and no files."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        pass

    def version(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"


class NumPy(Process):
    def version(self) -> str:
        return version("numpy")


class Null(Process):
    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing: shows the harness's own cost, which is part of every other figure")


class Timsort:
    """The `sorting` port with a list's own sort."""

    def __init__(self, engine: Process) -> None:
        pass

    def sort(self, numbers: Sequence[int]) -> Sorted:
        begin = perf_counter_ns()
        copy = list(numbers)
        copied = perf_counter_ns()
        copy.sort()
        return copy, copied - begin, perf_counter_ns() - copied


class NumPySort:
    """The `sorting` port with an array, which takes longer to create and less time to order."""

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
    """The `sorting` port of the null engine."""

    def __init__(self, engine: Process) -> None:
        pass

    def sort(self, numbers: Sequence[int]) -> Sorted:
        return (), 0, 0


TIMSORT = EngineSpec(
    name="timsort",
    title="Python's own sort",
    opener=Process,
    ports={"sorting": PortSpec(Timsort)},
    # It stores nothing, so it has no durability.
    tiers={},
    clients="processes",
)

NUMPY = EngineSpec(
    name="numpy-sort",
    title="NumPy's sort of an array",
    opener=NumPy,
    ports={"sorting": PortSpec(NumPySort)},
    tiers={},
    installation=Installation(modules=("numpy",), requires=("numpy",)),
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
