"""A transaction for key-value engines whose batches can't be read back: writes wait in a dict until the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Pending = Mapping[bytes, "bytes | None"]
_UNSEEN = object()


class Overlay:
    """The writer: a value waiting to be put, or None for a key waiting to be deleted."""

    def __init__(self, get: Callable[[bytes], bytes | None]) -> None:
        self._below = get
        self.pending: dict[bytes, bytes | None] = {}
        # The dict's own method, so that a put costs no Python frame.
        self.put = self.pending.__setitem__

    def get(self, key: bytes) -> bytes | None:
        found = self.pending.get(key, _UNSEEN)
        return self._below(key) if found is _UNSEEN else found  # type: ignore[return-value]

    def delete(self, key: bytes) -> None:
        self.pending[key] = None


@contextmanager
def overlay(get: Callable[[bytes], bytes | None], commit: Callable[[Pending], None]) -> Iterator[Overlay]:
    """A writer whose writes reach `commit` together at the end of the block, and not at all if it raises."""
    writer = Overlay(get)
    yield writer
    commit(writer.pending)


def fill(batch: Any, pending: Pending) -> None:
    """Puts what waits into an engine's own batch, which has `put` and `delete`."""
    put, delete = batch.put, batch.delete
    for key, value in pending.items():
        if value is None:
            delete(key)
        else:
            put(key, value)
