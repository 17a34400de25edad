"""Which loop measures: the native one where it was built, else the one in Python. Nothing is timed here."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from time import monotonic_ns
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import UsageError
from dyno.measure import loop as python
from dyno.native import REMEDY, loaded

SAMPLE = 20_000
BATCHES = 5


class Stamps(Protocol):
    def resolve(self) -> tuple[Any, Any]:
        """Starts and ends in ns: lists, or buffers of int64."""


class Loop(Protocol):
    """What `dyno.measure.loop` and the native module have in common."""

    NAME: str
    CLOCK: str

    def now(self) -> int: ...

    def calibrate(self) -> None: ...

    def closed(
        self, calls: Any, arguments: Any, deadline: int, failed: Callable[[Exception], Any], start: int = 0, /
    ) -> tuple[list[Any], Stamps]: ...

    def paced(
        self, calls: Any, arguments: Any, due: NDArray[np.int64], deadline: int, failed: Callable[[Exception], Any]
    ) -> tuple[list[Any], Stamps]: ...


def native() -> ModuleType | None:
    """The native module; None where it was not built."""
    found: ModuleType | None = loaded()
    return found


def pick(name: str = "auto") -> Loop:
    """The loop of that name. Raises UsageError for one that is not there."""
    built = native()
    if name == "native" and built is None:
        raise UsageError(f"loop native is not built here; {REMEDY}")
    return cast(Loop, python if built is None or name == "python" else built)


def about(loop: Loop) -> dict[str, Any]:
    """The loop's name and clock, the version of its Python, and its own cost on a callable that does next to nothing.

    operation_ns: of the elapsed time, for each operation, the call itself (some 15 ns) in it.
    span_ns: the median latency that it shows for such a call.
    Both are the median of some batches, whose arguments are built before.
    """
    arguments, nothing = tuple(range(SAMPLE)), {}.get  # type: ignore[var-annotated]
    costs, spans = [], []
    for _ in range(BATCHES):
        begin = loop.now()
        _, stamps = loop.closed((nothing,), arguments, begin + 10**12, _never)
        costs.append((loop.now() - begin) / SAMPLE)
        starts, ends = resolved(stamps)
        spans.append(float(np.median(ends - starts)))
    cost, span = float(np.median(costs)), float(np.median(spans))
    return {
        "name": loop.NAME,
        "clock": loop.CLOCK,
        "python": platform.python_version(),
        "operation_ns": round(cost, 1),
        "span_ns": round(span, 1),
    }


def _never(error: Exception) -> Any:
    raise error


def clocks(loop: Loop) -> tuple[int, ...]:
    """What the clocks show now that something is measured by, each in ns: the one of budgets and flights, the one of
    bulk calls, and the loop's own."""
    return monotonic_ns(), cast(Loop, python).now(), loop.now()


def resolved(stamps: Stamps) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts, ends = stamps.resolve()
    return _array(starts), _array(ends)


def _array(times: Sequence[int] | bytearray) -> NDArray[np.int64]:
    if isinstance(times, bytearray):
        return np.frombuffer(times, dtype=np.int64)
    return np.asarray(times, dtype=np.int64)
