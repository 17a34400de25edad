"""What an engine answered, in a form that can be compared with another engine's answer, value by value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from dyno.contracts.equality import same
from dyno.suites.sql.grids import close, grids

Results = Sequence[Sequence[Sequence[object]]]
"""Rows of each statement of a transaction, as plain JSON."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d*)?(?:Z|[+-]00(?::?00)?)?")
_TIME_LENGTH = 19


def plain(value: Any) -> Any:
    """Returns the value as one of few types: None, an int, a float or a Decimal that is finite, bytes, a text, or a
    list of these. A Decimal is not whole."""
    kind = type(value)
    if kind is int or value is None:
        return value
    if kind is str:
        return normalize_time(value)
    if kind is bool:
        return int(value)
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is Decimal:
        if not value.is_finite():
            return str(value)
        return int(value) if value == value.to_integral_value() else value
    if kind is datetime:
        if value.tzinfo is not None:
            value = value.astimezone(timezone.utc)
        return _time(f"{value:%Y-%m-%d}", f"{value:%H:%M:%S}", f".{value.microsecond:06}")
    if kind in (bytes, bytearray, memoryview):
        try:
            # ClickHouse has one type for texts and bytes.
            return normalize_time(bytes(value).decode())
        except UnicodeDecodeError:
            return bytes(value)
    if kind in (date, UUID):
        return str(value)
    if kind is timedelta:
        return value.total_seconds()
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if hasattr(value, "item"):
        # A number of NumPy.
        return plain(value.item())
    return str(value)


def canonical(value: Any, tolerance: float) -> Any:
    """Returns the value in the form that is compared: None, an int, a finite float that is not whole, bytes, a text,
    or a list of these."""
    one = plain(value)
    if type(one) is list:
        return [canonical(each, tolerance) for each in one]
    if type(one) not in (float, Decimal):
        return one
    number = float(one)
    whole = grids(tolerance).whole(number)
    if whole is None:
        return number
    return whole


def normalize_time(text: str) -> str:
    """Returns a text, in one form if it is a time."""
    match = None
    if len(text) >= _TIME_LENGTH:
        match = _TIME.fullmatch(text)
    if match is None:
        return text
    return _time(match[1], match[2], match[3] or "")


def _time(day: str, clock: str, fraction: str) -> str:
    return f"{day} {clock}{fraction[:7].rstrip('0').rstrip('.')}"


def list_rows(answer: Any) -> list[list[tuple[Any, ...]]]:
    """Returns the rows of each statement of a transaction. A number of changed rows counts as a row."""
    results = answer if type(answer) is tuple else (answer,)
    return [[(each,)] if type(each) is int else each for each in results]


def rows_agree(one: Results, other: Results, ordered: bool, tolerance: float) -> bool:
    """Returns whether two answers, as `format_rows` returns them, agree value by value."""
    if [len(rows) for rows in one] != [len(rows) for rows in other]:
        return False

    def agrees(mine: Any, theirs: Any) -> bool:
        if type(mine) is type(theirs) is list:
            return len(mine) == len(theirs) and all(map(agrees, mine, theirs))
        if type(mine) in (int, float) and type(theirs) in (int, float):
            return close(mine, theirs, tolerance)
        return same(mine, theirs)

    for left, right in zip(one, other, strict=True):
        # Numbers within the tolerance sort into the same place unless other columns tell the rows apart.
        if ordered:
            pair = (left, right)
        else:
            pair = (sorted(left, key=_order), sorted(right, key=_order))
        if not all(map(agrees, *pair)):
            return False
    return True


def _order(row: Sequence[object]) -> tuple[list[tuple[str, str]], list[float]]:
    exact = [(type(each).__name__, str(each)) for each in row if type(each) is not float]
    return exact, [each for each in row if type(each) is float]


def format_rows(answer: object, tolerance: float, columns: Sequence[int] | None = None) -> list[list[list[object]]]:
    """Returns the rows of an answer in canonical form, as plain JSON."""

    def plain(row: Sequence[object]) -> list[object]:
        values = row
        if columns is not None:
            values = [row[at] for at in columns]
        return [_plain(canonical(value, tolerance)) for value in values]

    return [list(map(plain, rows)) for rows in list_rows(answer)]


def normalize_rows(rows: Any, ordered: bool) -> Any:
    """Returns an answer, as `format_rows` returns it, in the same form for engines that agree: rows in an order that
    is not compared are sorted, and numbers that are not whole have nine digits."""

    def round_numbers(value: Any) -> Any:
        if type(value) is list:
            return list(map(round_numbers, value))
        if type(value) is float:
            return float(f"{value:.9g}")
        return value

    each = round_numbers(rows)
    if ordered:
        return each
    return [sorted(part, key=repr) for part in each]


def _plain(value: object) -> object:
    if type(value) is list:
        return list(map(_plain, value))
    if type(value) is bytes:
        return value.hex()
    return value
