"""The native measuring loop, in Rust (rust/src): an optional extension of the same contract as `dyno.measure.loop`;
and the packing of keys, of that of `dyno.suites.records.keys`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME: str
CLOCK: str

class Stamps:
    def resolve(self) -> tuple[bytearray, bytearray]: ...

def now() -> int: ...
def calibrate() -> None: ...
def closed(
    calls: tuple[Callable[[Any], Any], ...],
    arguments: tuple[Any, ...],
    deadline_ns: int,
    failed: Callable[[Exception], Any],
) -> tuple[list[Any], Stamps]: ...
def paced(
    calls: tuple[Callable[[Any], Any], ...],
    arguments: tuple[Any, ...],
    due: NDArray[np.int64],
    deadline_ns: int,
    failed: Callable[[Exception], Any],
) -> tuple[list[Any], Stamps]: ...
def record(counts: NDArray[np.int64], values: NDArray[np.int64], magnitude: int, highest: int) -> None: ...
def pack(prefix: bytes, parts: tuple[str, ...]) -> bytes: ...
