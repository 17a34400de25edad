"""The worker's end of the pipe of the results. With each event it tells what its clocks show, so that the run's
process finds out one that does not go as its own does: an engine's library may have put another in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from dyno.contracts.declarations import InvalidValue
from dyno.contracts.pipe import SealedLines


class Reporter:
    """Open until the end of the block."""

    def __init__(self, descriptor: int, key: bytes) -> None:
        # Not inherited by what the engine starts, which could hold the pipe open after this process is gone.
        os.set_inheritable(descriptor, False)
        self._pipe, self._lines = os.fdopen(descriptor, "wb"), SealedLines(key)
        self.clocks: Callable[[], tuple[int, ...]] = _clocks
        """What the clocks show that are read in the measuring, each in ns on the scale of the monotonic clock."""

    def tell(self, kind: str, **event: Any) -> None:
        """Raises Unfit for an event that is too long."""
        try:
            line = self._lines.write({"event": kind, **event}, self.clocks)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidValue(f"what is to be told of {kind} can't be: {error}") from None
        self._pipe.writelines(line)
        self._pipe.flush()

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pipe.close()


def _clocks() -> tuple[int, ...]:
    return (monotonic_ns(),)
