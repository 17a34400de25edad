"""Equality of answers, as the suite `calls` compares those of several functions.

`dyno.suites.calls.answers.same` is for a user's own check.

Types must match exactly at every level: 1, True and 1.0 are three different values, and so are 0.0 and -0.0. NaN is
the same as NaN. The order of dicts and sets does not matter. Arrays are compared by type, shape and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

Update = Callable[[bytes], object]
_PLAIN: Mapping[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"",
    bool: lambda value: b"%d" % value,
    int: lambda value: hex(value).encode(),
    float: lambda value: value.hex().encode(),
    complex: lambda value: f"{value.real.hex()} {value.imag.hex()}".encode(),
    str: lambda value: value.encode(errors="surrogatepass"),
    bytes: lambda value: value,
    bytearray: bytes,
    range: lambda value: repr(value).encode(),
}
_BY_REPR = frozenset(
    {
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "time"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("uuid", "UUID"),
    }
)
"""Types of the standard library that are compared by their `repr`, by module and name: importing them takes long."""
BYTES = 16


def same(got: object, right: object) -> bool:
    """Returns whether two answers are the same.

    They may be None, numbers, texts, bytes, times, and lists, tuples, sets, dicts, named tuples, data classes and
    enums of these, and NumPy's arrays and numbers. Answers of other types are never the same.
    """
    one = digest(got)
    return one is not None and one == digest(right)


def digest(value: object) -> bytes | None:
    """Returns 16 bytes that only equal answers have in common; None for a type that can't be compared."""
    hashed = blake2b(digest_size=BYTES)
    try:
        if _feed(hashed.update, value):
            return hashed.digest()
        return None
    except RecursionError:
        return None


def _feed(update: Update, value: Any) -> bool:
    """Passes a canonical form of the value to `update`. Returns False if there is none."""
    kind = type(value)
    if plain := _PLAIN.get(kind):
        return _put(update, kind.__name__, plain(value))
    if kind in (list, tuple):
        return _feed_all(update, kind.__name__, value)
    if kind in (set, frozenset):
        return _put_unordered(update, kind.__name__, [digest(each) for each in value])
    if kind is dict:
        pairs = [(digest(key), digest(each)) for key, each in value.items()]
        joined = [None if key is None or each is None else key + each for key, each in pairs]
        return _put_unordered(update, kind.__name__, joined)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if (kind.__module__, kind.__qualname__) in _BY_REPR:
        return _put(update, name, repr(value).encode())
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        if value.dtype.hasobject:
            # The bytes of such an array are addresses.
            return False
        return _put(update, f"{name} {value.dtype!r} {value.shape}", value.tobytes())
    if hasattr(kind, "__dataclass_fields__"):
        return _feed_all(update, name, [getattr(value, each) for each in kind.__dataclass_fields__])
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _feed_all(update, name, tuple(value))
    if hasattr(kind, "__members__"):
        return _put(update, name, str(value.name).encode(errors="surrogatepass"))
    return False


def _put(update: Update, name: str, content: bytes) -> bool:
    # The length separates a value from the next one.
    update(f"{name}:{len(content)}:".encode())
    update(content)
    return True


def _feed_all(update: Update, name: str, values: Sequence[object]) -> bool:
    _put(update, name, str(len(values)).encode())
    return all(_feed(update, each) for each in values)


def _put_unordered(update: Update, name: str, digests: list[bytes | None]) -> bool:
    known = sorted(each for each in digests if each is not None)
    return len(known) == len(digests) and _put(update, name, b"".join(known))
