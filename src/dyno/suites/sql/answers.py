"""What an engine answered, in a form that can be compared with another engine's answer.

An answer is reduced to three numbers. The first is a digest of everything that must agree exactly: texts, times,
whole numbers, NULLs and the number of rows. The others are the weighted sum of all other numbers, and the sum of
their sizes, to which the tolerance is relative. Rows in any order are added up; ordered rows are weighted by their
position.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from dyno.contracts.equality import same

MASK = (1 << 64) - 1
EXACT = 1e-12
"""Relative error of a sum of doubles, within which a whole number is still taken for one."""
INTEGERS = 2.0**53
"""From this size on, doubles can't hold each whole number, and sums of whole numbers depend on their order."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d*)?(?:Z|[+-]00(?::?00)?)?")


class Digest(NamedTuple):
    exact: int
    """64 bits; 0 only if the operation failed, so that nothing is known about its answer."""
    total: float
    size: float


FAILED = Digest(0, 0.0, 0.0)


def near(number: float, tolerance: float) -> float | int | str:
    """Returns the whole number that is as near as its type's rounding explains; otherwise the number itself. Returns
    a text for a number that is not finite."""
    if not math.isfinite(number):
        return str(number)
    if abs(number) >= INTEGERS:
        return number
    whole = round(number)
    return whole if abs(number - whole) <= max(tolerance, EXACT * abs(number)) else number


def canonical(value: Any, tolerance: float) -> Any:
    """Returns the value in the form that is compared: None, an int, a finite float that is not whole, bytes, or
    a text."""
    kind = type(value)
    if kind is int or value is None:
        return value
    if kind is str:
        match = _TIME.fullmatch(value)
        return value if match is None else _time(match[1], match[2], match[3] or "")
    if kind is bool:
        return int(value)
    if kind is float:
        return near(value, tolerance)
    if kind is Decimal:
        if value.is_finite() and value == value.to_integral_value():
            return int(value)
        return near(float(value), tolerance)
    if kind is datetime:
        if value.tzinfo is not None:
            value = value.astimezone(timezone.utc)
        return _time(f"{value:%Y-%m-%d}", f"{value:%H:%M:%S}", f".{value.microsecond:06}")
    if kind in (bytes, bytearray, memoryview):
        try:
            # ClickHouse has one type for texts and bytes.
            return canonical(bytes(value).decode(), tolerance)
        except UnicodeDecodeError:
            return bytes(value)
    if kind in (date, UUID):
        return str(value)
    if kind is timedelta:
        return near(value.total_seconds(), tolerance)
    if isinstance(value, (list, tuple)):
        return repr([canonical(each, tolerance) for each in value])
    if hasattr(value, "item"):
        # A number of NumPy.
        return canonical(value.item(), tolerance)
    return str(value)


def _time(day: str, clock: str, fraction: str) -> str:
    return f"{day} {clock}{fraction[:7].rstrip('0').rstrip('.')}"


def rows_of(answer: Any) -> list[list[tuple[Any, ...]]]:
    """Returns the rows of each statement of a transaction. A number of changed rows counts as a row."""
    results = answer if type(answer) is tuple else (answer,)
    return [[(each,)] if type(each) is int else each for each in results]


def digest(answer: Any, ordered: bool, tolerance: float, columns: Sequence[int] | None = None) -> Digest:
    """Returns the digest of an operation's answer. `columns`: positions of the columns that are compared; None: all
    of them, () for none, so that only the number of rows is."""
    exact, total, size = 1, 0.0, 0.0
    for rows in rows_of(answer):
        added, rank = len(rows), 0
        for row in rows:
            rank += ordered
            parts = []
            for column, value in enumerate(row if columns is None else [row[at] for at in columns], 1):
                one = canonical(value, tolerance)
                if type(one) is float:
                    weight = column + 3 * rank
                    total += weight * one
                    size += weight * abs(one)
                    one = "number"
                parts.append(f"{type(one).__name__}:{one!r}")
            # The position is part of an ordered row, so that two rows in exchanged places differ.
            hashed = blake2b(f"{rank}|{'|'.join(parts)}".encode(), digest_size=8).digest()
            added += int.from_bytes(hashed, "big")
        exact = (exact * 1_000_003 + added) & MASK
    return Digest(exact or 1, total, size)


def agree(one: Digest, other: Digest, tolerance: float) -> bool:
    """Returns whether two answers agree, or nothing is known about one of them."""
    if not one.exact or not other.exact:
        return True
    within = tolerance * max(one.size, other.size)
    return one.exact == other.exact and abs(one.total - other.total) <= within


def rows_agree(one: Any, other: Any, ordered: bool, tolerance: float) -> bool:
    """Returns whether two answers, as `shown` returns them, agree value by value."""
    if [len(rows) for rows in one] != [len(rows) for rows in other]:
        return False
    for left, right in zip(one, other, strict=True):
        # Numbers within the tolerance sort into the same place unless other columns tell the rows apart.
        pair = (left, right) if ordered else (sorted(left, key=_order), sorted(right, key=_order))
        if not all(_row_agrees(mine, theirs, tolerance) for mine, theirs in zip(*pair, strict=True)):
            return False
    return True


def _row_agrees(one: Sequence[Any], other: Sequence[Any], tolerance: float) -> bool:
    def agrees(mine: Any, theirs: Any) -> bool:
        if type(mine) is type(theirs) is float:
            return bool(abs(mine - theirs) <= tolerance * max(abs(mine), abs(theirs)))
        return same(mine, theirs)

    return len(one) == len(other) and all(map(agrees, one, other))


def _order(row: Sequence[Any]) -> Any:
    exact = [(type(each).__name__, str(each)) for each in row if type(each) is not float]
    return exact, [each for each in row if type(each) is float]


def shown(answer: Any, tolerance: float, columns: Sequence[int] | None = None) -> list[list[list[Any]]]:
    """Returns the rows of an answer in canonical form, as plain JSON."""

    def plain(row: Sequence[Any]) -> list[Any]:
        values = row if columns is None else [row[at] for at in columns]
        return [_plain(canonical(value, tolerance)) for value in values]

    return [list(map(plain, rows)) for rows in rows_of(answer)]


def displayed(rows: Any, ordered: bool) -> Any:
    """Returns an answer, as `shown` returns it, in the same form for engines that agree: rows in an order that is not
    compared are sorted, and numbers that are not whole have nine digits."""

    def rounded(row: Sequence[Any]) -> list[Any]:
        return [float(f"{value:.9g}") if type(value) is float else value for value in row]

    each = [list(map(rounded, part)) for part in rows]
    return each if ordered else [sorted(part, key=repr) for part in each]


def _plain(value: Any) -> Any:
    return value.hex() if type(value) is bytes else value
