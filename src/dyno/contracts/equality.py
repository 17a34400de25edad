"""Whether an answer of an engine is the right one: by exact types and values, and never by what it says of itself.

No method of an answer is called before its type is known to be one of Python's or NumPy's own: an engine's class, a
subclass of a dict or of a string too, may claim to equal anything. Nothing may be put here that depends on a suite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.native import loaded

_native = loaded()

# Two of one of these types are the same where they are equal. Not so floats: 0.0 equals -0.0, no NaN equals itself.
_PLAIN = frozenset({str, bytes, int, bool, type(None)})
_NOTHING = object()


def same(got: Any, right: Any) -> bool:
    """Whether `got` is `right`: None, bool, int, float, str or bytes; tuples, lists and dicts of these; NumPy arrays.

    Of exactly these types, all the way down: 1, True and 1.0 are three values. A dict's order does not matter, and no
    key of it is a float or a tuple. Arrays are the same by data type, shape and bytes. Nothing else ever is the same.
    """
    kind = type(got)
    # By identity: a type may have an equality of its own, too.
    if kind is not type(right):
        return False
    if kind in _PLAIN:
        return bool(got == right)
    compare = _BY_TYPE.get(kind)
    return compare is not None and compare(got, right)


def positions_by_type(answers: Sequence[Any], kind: type) -> list[int]:
    """Positions of the answers that are of exactly this type."""
    return [at for at, answer in enumerate(answers) if type(answer) is kind]


def is_list(got: Any, count: int) -> bool:
    """Whether it is a list of so many, whatever is in it."""
    return type(got) is list and len(got) == count


def difference(got: Any, right: Any) -> str:
    """Two that are not the same, in one line."""
    alike = _text(got) == _text(right)
    return f"got {shorten(got)}, expected {shorten(right)}{', of other types' if alike else ''}"


def array_difference(got: Any, right: NDArray[Any]) -> str:
    """How an answer is not the array that is right, in one line."""
    if type(got) is not np.ndarray or got.dtype != right.dtype or got.shape != right.shape:
        shape = f" of {got.dtype}, {got.shape}" if type(got) is np.ndarray else ""
        return f"got {type(got).__name__}{shape}, expected an array of {right.dtype}, {right.shape}"
    at = next((at for at in range(len(right)) if not same(got[at : at + 1], right[at : at + 1])), 0)
    return f"at {at}, {difference(got[at].item(), right[at].item())}"


def shorten(value: Any, width: int = 90) -> str:
    """A value for a message of one line."""
    text = _text(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def _text(value: Any) -> str:
    try:
        return " ".join(repr(value).split())
    except Exception:
        # An engine's class may have none.
        return object.__repr__(value)


def _floats(got: float, right: float) -> bool:
    return got.hex() == right.hex()


def _sequences(got: Sequence[Any], right: Sequence[Any]) -> bool:
    if len(got) != len(right):
        return False
    kinds = list(map(type, right))
    if not all(map(is_, map(type, got), kinds)):
        return False
    return bool(got == right) if _PLAIN.issuperset(kinds) else all(map(same, got, right))


def _dicts(got: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    if len(got) != len(right):
        return False
    plain = True
    for key, value in got.items():
        if type(key) is not str:
            return _keyed(got, right)
        if type(value) is not str:
            plain = False
    if plain:
        # As records are: by Python's own comparison, which is many times as fast.
        return bool(got == right)
    for key, value in got.items():
        wanted = right.get(key, _NOTHING)
        # Most values are strings; a call for each would take longer than comparing them.
        if value != wanted if type(value) is str is type(wanted) else not same(value, wanted):
            return False
    return True


def _keyed(got: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    wanted = {_key(key): value for key, value in right.items()}
    return all((known := _key(key)) in wanted and same(value, wanted[known]) for key, value in got.items())


def _key(key: Any) -> Any:
    """With its type, as 1 and True are one key; of what may be no key, one that is like no other."""
    kind = type(key)
    return (kind, key) if any(kind is plain for plain in _PLAIN) else object()


def _arrays(got: NDArray[Any], right: NDArray[Any]) -> bool:
    # The bytes of objects are where they lie.
    if got.dtype != right.dtype or got.shape != right.shape or right.dtype.hasobject:
        return False
    return not right.nbytes or np.array_equal(_bytes(got), _bytes(right))


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


_BY_TYPE: Mapping[type, Callable[[Any, Any], bool]] = {
    float: _floats,
    tuple: _sequences,
    list: _sequences,
    dict: _dicts,
    np.ndarray: _arrays,
}


def _natively(answers: Sequence[Any], kind: type) -> list[int]:
    found: list[int] = _native.positions(answers if type(answers) is list else list(answers), kind)
    return found


# Every answer of a trial is looked at. In Python that takes 30 ns each, as long as the whole measuring loop.
# A native module built before it had this function is still used for the loop.
positions = _natively if hasattr(_native, "positions") else positions_by_type
