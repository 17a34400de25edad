"""What null engines have for the ports that suites share: it does nothing, and so prices what stands around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dyno.contracts.ordered_kv import Entry


class NullKeys:
    """The port `ordered-kv`: takes every entry and has none."""

    def __init__(self, engine: Any) -> None:
        pass

    def get(self, key: bytes) -> bytes | None:
        return None

    def put(self, key: bytes, value: bytes) -> None:
        pass

    def delete(self, key: bytes) -> None:
        pass

    def seek(self, key: bytes) -> Iterator[Entry]:
        return iter(())

    def first(self, key: bytes) -> Entry | None:
        return None

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        return []

    def reading(self) -> AbstractContextManager[NullKeys]:
        return nullcontext(self)

    def single(self) -> AbstractContextManager[NullKeys]:
        return nullcontext(self)

    def writing(self) -> AbstractContextManager[NullKeys]:
        return nullcontext(self)

    def close(self) -> None:
        pass
