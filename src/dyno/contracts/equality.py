"""Compares answers of engines with expected values, by exact types and values.

A subclass of dict or str may compare in its own way. So no method of an answer is called before its type is known to
be one of Python's or NumPy's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Wrong
from dyno.contracts.native import load_native

_native = load_native()

# Types whose equality means identity of values. Not floats: 0.0 equals -0.0, and NaN differs from itself.
_PLAIN = frozenset({str, bytes, int, bool, type(None)})
_NOTHING = object()


def same(got: object, right: object) -> bool:
    """Returns whether two values are the same.

    The values may be None, bool, int, float, str or bytes; tuples, lists and dicts of these; and NumPy arrays. Types
    must match exactly at every level: 1, True and 1.0 are three different values. The order of a dict does not
    matter; its keys may not be floats or tuples. Arrays are compared by type, shape and bytes. Values of other types
    are never the same.
    """
    kind = type(got)
    if kind is not type(right):
        return False
    if kind in _PLAIN:
        return bool(got == right)
    compare = _BY_TYPE.get(kind)
    return compare is not None and compare(got, right)


def positions_by_type(answers: Sequence[object], kind: type) -> list[int]:
    """Returns the positions of the answers that have exactly this type."""
    return [at for at, answer in enumerate(answers) if type(answer) is kind]


def expect(got: object, right: object, what: str) -> None:
    """Raises Wrong unless both values are the same."""
    if not same(got, right):
        raise Wrong(f"{what}: {difference(got, right)}")


class PlannedFailure(Exception):
    """Raised by a check inside a transaction, which must then leave no trace."""


def is_list(got: object, count: int) -> bool:
    """Returns whether the answer is a list of this length, with any items."""
    return type(got) is list and len(got) == count


def difference(got: object, right: object) -> str:
    """Describes two different values in one line. Of two lists or arrays, it describes the first different items."""
    if type(got) is type(right) is list:
        shared = min(len(got), len(right))
        at = next((at for at in range(shared) if not same(got[at], right[at])), shared)
        if at < shared:
            return f"at {at}, {difference(got[at], right[at])}"
        if len(got) > len(right):
            longer = got
            what = "surplus"
        else:
            longer = right
            what = "missing"
        return f"got {len(got)} items, expected {len(right)}: {shorten(longer[at])} is {what}"
    if type(right) is np.ndarray:
        if type(got) is not np.ndarray or got.dtype != right.dtype or got.shape != right.shape:
            shape = ""
            if type(got) is np.ndarray:
                shape = f" of {got.dtype}, {got.shape}"
            return f"got {type(got).__name__}{shape}, expected an array of {right.dtype}, {right.shape}"
        got, right = got.ravel(), right.ravel()
        at = next((at for at in range(len(right)) if not same(got[at : at + 1], right[at : at + 1])), 0)
        return f"at {at}, {difference(got[at].item(), right[at].item())}"
    alike = _text(got) == _text(right)
    return f"got {shorten(got)}, expected {shorten(right)}{', of other types' if alike else ''}"


def shorten(value: object, width: int = 90) -> str:
    """Formats a value for a one-line message."""
    text = _text(value)
    if len(text) <= width:
        return text
    return text[: width - 1] + "…"


def _text(value: object) -> str:
    try:
        return " ".join(repr(value).split())
    except Exception:
        # The class may have a broken repr.
        return object.__repr__(value)


def _sequences(got: Sequence[object], right: Sequence[object]) -> bool:
    if len(got) != len(right):
        return False
    kinds = list(map(type, right))
    if list(map(type, got)) != kinds:
        return False
    if _PLAIN.issuperset(kinds):
        return bool(got == right)
    return all(map(same, got, right))


def _dicts(got: Mapping[object, object], right: Mapping[object, object]) -> bool:
    if len(got) != len(right):
        return False
    plain = True
    for key, value in got.items():
        if type(key) is not str:
            return _compare_dicts(got, right)
        if type(value) is not str:
            plain = False
    if plain:
        # Most records are such dicts, and Python's own comparison is many times faster.
        return bool(got == right)
    for key, value in got.items():
        wanted = right.get(key, _NOTHING)
        # Strings, the most common values, are compared inline: calling `same` would take longer than the comparison.
        if value != wanted if type(value) is str is type(wanted) else not same(value, wanted):
            return False
    return True


def _compare_dicts(got: Mapping[object, object], right: Mapping[object, object]) -> bool:
    wanted = {_key(key): value for key, value in right.items()}
    return all((known := _key(key)) in wanted and same(value, wanted[known]) for key, value in got.items())


def _key(key: object) -> object:
    """Returns the key with its type, since 1 equals True; for other types, an object that equals nothing."""
    kind = type(key)
    if kind in _PLAIN:
        return (kind, key)
    return object()


def _arrays(got: NDArray[np.generic], right: NDArray[np.generic]) -> bool:
    # Arrays of Python objects are never the same: their bytes are addresses.
    if got.dtype != right.dtype or got.shape != right.shape or right.dtype.hasobject:
        return False
    return not right.nbytes or np.array_equal(_bytes(got), _bytes(right))


def _bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


_BY_TYPE: Mapping[type, Callable[[Any, Any], bool]] = {
    float: lambda got, right: got.hex() == right.hex(),
    tuple: _sequences,
    list: _sequences,
    dict: _dicts,
    np.ndarray: _arrays,
}


def _positions_by_native_code(answers: Sequence[object], kind: type) -> list[int]:
    result: list[int] = _native.positions(answers if type(answers) is list else list(answers), kind)
    return result


# This function is called for every answer of a trial. The Python version takes 30 ns per answer, as long as the whole
# measuring loop.
positions = positions_by_type if _native is None else _positions_by_native_code
