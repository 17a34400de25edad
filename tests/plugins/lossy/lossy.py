"""A test engine, not a real one: NumPy arrays whose amounts lose half of their bits, or grow by one, according to its
option `how`. Not for measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dyno.contracts.engine import PortSpec
from dyno.contracts.settings import Setting, choice
from dyno.engines.arraystores import engines
from dyno.suites.arrays.port import Chunk


class Lossy(engines.Memory):
    def __init__(self, home: Any, tier: Any, options: Any) -> None:
        super().__init__(home, tier, options)
        # Passes the brief checks before measuring.
        self.how = str(options["how"]) if home.name == "store" else "not"


class Arrays(engines.MemoryArrays):
    def __init__(self, engine: Lossy) -> None:
        super().__init__(engine)
        self._how = engine.how

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with super().writing(rows) as write:

            def lose(chunk: Chunk) -> None:
                half = chunk["quantity"].astype("f4").astype("f8")
                write({**chunk, "quantity": half} if self._how == "half" else chunk)

            yield lose

    def sum(self, column: str) -> Any:
        found = super().sum(column)
        return found + 1 if self._how == "one" and column == "node_uid" else found


ENGINE = replace(
    engines.NUMPY_MEMORY,
    name="lossy",
    opener=Lossy,
    ports={"arrays": PortSpec(Arrays)},
    options=(*engines.NUMPY_MEMORY.options, Setting("how", choice("half", "one"), "half", "what is lost")),
)
