"""The port `synthetic`. No engine and no measuring may be put here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Synthetic(Protocol):
    """Engines implement it as a class called with `(engine, work)`: units of work in each operation."""

    def operation(self) -> Callable[[int], int]:
        """A callable that does the work and answers the number that it was given."""

    def close(self) -> None: ...
