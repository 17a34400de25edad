"""The engines of the sorting suite: Python's own sort, and one that does nothing."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec
from dyno.model import Caveat, Tier, Value


class Process:
    """An engine that is nothing but this process: nothing to open, no files."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
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


class Null(Process):
    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing: the harness's own cost, which is inside every other figure")


class Timsort:
    """The `sorting` port; `sort` is Python's own function."""

    def __init__(self, engine: Process) -> None:
        self.sort = sorted


class Nothing:
    """The `sorting` port's floor."""

    def __init__(self, engine: Process) -> None:
        pass

    def sort(self, numbers: Sequence[int]) -> list[int]:
        return []


TIMSORT = EngineSpec(
    name="timsort",
    title="Python's own sort",
    opener=Process,
    ports={"sorting": PortSpec(Timsort)},
    # It stores nothing, so nothing can be asked of its durability.
    tiers={},
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
