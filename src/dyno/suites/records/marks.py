"""Hashes of records with their versions, by which an answer is known again that was compared whole before. No engine
may be put here.

`marks` is the native one where it was built (rust/measure), and else as `marked`, which says what is right: the
same hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.native import loaded

_native = loaded()


def mark(version: int, answer: Any) -> int:
    """A hash of an answer to what is asked at this version of the record; 0 for what is not shaped like a record.

    The version is in it, so that a stale answer, which was right before, is not taken for one that is right.
    """
    strings = strings_of(answer)
    return 0 if strings is None else hash((version, strings))


def strings_of(answer: Any) -> tuple[str, str, str] | None:
    """Name, location and stub of a record; None of what is no dict of three strings by these names, of exactly these
    types, so that hashes and comparisons are Python's own."""
    if type(answer) is not dict or len(answer) != 3:
        return None
    one, two, three = answer
    if not (type(one) is type(two) is type(three) is str):
        return None
    name, location, stub = answer.get("name"), answer.get("location"), answer.get("stub")
    return (name, location, stub) if type(name) is type(location) is type(stub) is str else None


def marked(versions: NDArray[np.int64], answers: Sequence[Any]) -> NDArray[np.int64]:
    """Of each answer, at its version."""
    pairs = zip(versions.tolist(), answers, strict=True)
    return np.fromiter((mark(version, answer) for version, answer in pairs), np.int64, len(answers))


def _natively(versions: NDArray[np.int64], answers: Sequence[Any]) -> NDArray[np.int64]:
    into = np.empty(len(answers), dtype=np.int64)
    _native.marks(np.ascontiguousarray(versions), answers if type(answers) is list else list(answers), into)
    return into


# One that was built before it had this has the loop alone.
marks = _natively if hasattr(_native, "marks") else marked
