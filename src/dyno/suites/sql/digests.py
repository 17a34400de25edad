"""Digests of answers: hashes of whole rows, so that values exchanged between rows are found. Rows in any order are
added up; ordered rows are hashed with their position.

Texts, times, whole numbers, NULLs and the number of rows must agree exactly, other numbers by the rounding of
`grids`, and decimals of the same scales exactly, too. The answers of a batch are digested together, column by column.
The hash of a row depends on the row alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b
from itertools import repeat
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyno.suites.sql.checks.answers import list_rows, normalize_time, plain
from dyno.suites.sql.grids import COUNT, grids

Hashes = NDArray[np.uint64]

MASK = (1 << 64) - 1
QUOTIENT = 16
"""From this scale on, decimals are taken for quotients, whose last digits depend on the engine."""
LARGEST = 1 << 63
"""From this size on, integers are hashed as texts."""
ROWS = 20_000
"""Rows whose columns are in memory at once."""
# Odd numbers without a pattern, from SplitMix64 and xxHash.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_PLACE = np.uint64(0xC2B2AE3D27D4EB4F)
_CELL = np.uint64(0x165667B19E3779F9)
_SCALE = np.uint64(0x27D4EB2F165667C5)
_STATEMENT = np.uint64(1_000_003)
_NUMBER = ()
"""Stands for a number in the row of the other values."""


class Digest(NamedTuple):
    """Hashes of 64 bits."""

    common: int
    """Everything but numbers that are not whole: the same for all engines that agree, unless a number is almost
    whole. 0 only if the operation failed, so that nothing is known about its answer."""
    kinds: int
    """Which numbers are whole, by type or value, and which are decimals of which scale."""
    exact: int
    """Everything but doubles, decimals by their digits. Answers with the same kinds of numbers must agree in it."""
    grids: tuple[int, ...]
    """Everything, numbers as each grid rounds them."""


FIELDS = len(Digest._fields) - 1 + COUNT
COMMON = 0
KINDS = 1
EXACT = 2
GRIDS = 3
FAILED = Digest(0, 0, 0, (0,) * COUNT)


def digests(
    answers: Sequence[object], ordered: bool, tolerance: float, columns: Sequence[int] | None = None
) -> list[Digest]:
    """Returns the digests of operations' answers. `columns`: positions of the columns that are compared; None: all of
    them, () for none, so that only the number of rows is."""
    results = [list_rows(answer) for answer in answers]
    counts = np.array(list(map(len, results)), np.int64)
    sums = np.ones((FIELDS, len(results)), np.uint64)
    for statement in range(counts.max(initial=0)):
        having = np.flatnonzero(counts > statement)
        parts = [results[at][statement] for at in having]
        lengths = np.array(list(map(len, parts)), np.int64)
        ends = np.cumsum(lengths)
        rows = [row for part in parts for row in part]
        ranks = None
        if ordered:
            ranks = np.arange(1, len(rows) + 1) - np.repeat(ends - lengths, lengths)
        hashes = _of_rows(rows, ranks, tolerance, columns)
        # Sums modulo 2^64 up to each row, which also give those of answers without rows.
        totals = np.zeros((FIELDS, len(rows) + 1), np.uint64)
        np.cumsum(hashes, axis=1, out=totals[:, 1:])
        added = totals[:, ends] - totals[:, ends - lengths] + lengths.astype(np.uint64)
        sums[:, having] = sums[:, having] * _STATEMENT + added
    sums[COMMON] = np.maximum(sums[COMMON], np.uint64(1))
    return [Digest(common, kinds, exact, tuple(cells)) for common, kinds, exact, *cells in sums.T.tolist()]


def agree(one: Digest, other: Digest) -> bool:
    """Returns whether two answers agree, or nothing is known about one of them."""
    if not one.common or not other.common:
        return True
    if one.kinds == other.kinds and one.exact != other.exact:
        return False
    return any(mine == theirs for mine, theirs in zip(one.grids, other.grids, strict=True))


def _of_rows(
    rows: Sequence[Sequence[object]], ranks: NDArray[np.int64] | None, tolerance: float, columns: Sequence[int] | None
) -> Hashes:
    """Returns the hashes of each row, in the order of the digest's fields."""
    hashes = np.zeros((FIELDS, len(rows)), np.uint64)
    widths = set(map(len, rows))
    width = max(widths, default=0)
    if len(widths) > 1:
        rows = [(*row, *repeat(..., width - len(row))) for row in rows]
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        sums = hashes[:, start : start + ROWS]
        others: list[Iterable[object]] = []
        for place in range(width) if columns is None else columns:
            values = list(map(itemgetter(place), part))
            others.append(_add_column(sums, values, np.full(len(part), place + 1, np.uint64), tolerance))
        if all(type(each) is repeat for each in others):
            sums += np.uint64(_hash((_NUMBER,) * len(others)))
        else:
            sums += np.fromiter(map(_hash, zip(*others, strict=False)), np.uint64, len(part))
        if ranks is not None:
            sums += _mix_numbers(ranks[start : start + ROWS].view(np.uint64))
        sums[:] = _mix_numbers(sums)
    return hashes


def _add_column(sums: Hashes, values: Sequence[Any], places: Hashes, tolerance: float) -> Iterable[object]:
    """Adds the hashes of a column's numbers to those of its rows. Returns the other values, and _NUMBER for numbers.
    `places`: the place of each value in its row."""
    kinds = set(map(type, values))
    if kinds <= {str, NoneType}:
        return [value if value is None else normalize_time(value) for value in values]
    if kinds == {int} and min(values) >= -LARGEST and max(values) < LARGEST:
        _add_integers(sums, slice(None), np.array(values, np.int64), places)
        return repeat(_NUMBER)
    if kinds == {float} and np.isfinite(numbers := np.array(values)).all():
        _add_fractions(sums, slice(None), numbers, places, tolerance)
        return repeat(_NUMBER)
    return _add_any(sums, values, places, tolerance)


def _add_any(sums: Hashes, values: Sequence[object], places: Hashes, tolerance: float) -> list[object]:
    """Does the same for values of any types."""
    others = list[Any]()
    integers = dict[int, int]()
    fractions = dict[int, float]()
    decimals = dict[int, tuple[int, int, int]]()
    for at, value in enumerate(values):
        others.append(_NUMBER)
        if type(value) is Decimal and value.is_finite():
            text = f"{value:f}"
            before, _, after = text.partition(".")
            digits = after.rstrip("0")
            if digits:
                fractions[at] = float(text)
                decimals[at] = (int(before + digits) & MASK, len(digits), len(after))
                continue
            value = int(before)
        one = plain(value)
        if type(one) is int:
            if -LARGEST <= one < LARGEST:
                integers[at] = one
            else:
                integers[at] = _hash(one) - LARGEST
        elif type(one) is float:
            fractions[at] = one
        elif type(one) is list:
            others[at] = _add_list(sums[:, at : at + 1], one, places[at : at + 1], tolerance)
        else:
            others[at] = one
    if integers:
        of_integers = np.array(list(integers.values()), np.int64)
        _add_integers(sums, list(integers), of_integers, places[list(integers)])
    if fractions:
        of_fractions = np.array(list(fractions.values()))
        _add_fractions(sums, list(fractions), of_fractions, places[list(fractions)], tolerance)
    if decimals:
        at_decimals = list(decimals)
        digits_of, shortest, scales = np.array(list(decimals.values()), np.uint64).T
        of_places = places[at_decimals] * _PLACE
        exact = _mix_numbers(_mix_numbers(digits_of) + shortest * _SCALE + of_places)
        sums[KINDS, at_decimals] += _mix_numbers(scales * _SCALE + of_places)
        sums[EXACT, at_decimals] += np.where(scales < QUOTIENT, exact, np.uint64(0))
    return others


def _add_list(sums: Hashes, values: Sequence[object], place: Hashes, tolerance: float) -> Sequence[object]:
    """Does the same for a value that is a list, as if it were a column."""
    inner = np.zeros((FIELDS, len(values)), np.uint64)
    others = _add_column(inner, values, np.arange(1, len(values) + 1, dtype=np.uint64), tolerance)
    added = _mix_numbers(inner.sum(axis=1, keepdims=True) + place * _PLACE)
    sums += np.where(inner.any(axis=1, keepdims=True), added, np.uint64(0))
    return [other for _, other in zip(values, others, strict=False)]


def _add_integers(sums: Hashes, at: slice | list[int], integers: NDArray[np.int64], places: Hashes) -> None:
    codes = _mix_numbers(integers.view(np.uint64) * _STEP + places * _PLACE)
    for field in (COMMON, EXACT, *range(GRIDS, FIELDS)):
        sums[field, at] += codes
    sums[KINDS, at] += _mix_numbers(places * _PLACE)


def _add_fractions(
    sums: Hashes, at: slice | list[int], numbers: NDArray[np.float64], places: Hashes, tolerance: float
) -> None:
    for grid, (whole, codes) in enumerate(grids(tolerance).codes(numbers)):
        mixed = _mix_numbers(codes.view(np.uint64) * _STEP + places * _PLACE + np.where(whole, np.uint64(0), _CELL))
        sums[GRIDS + grid, at] += mixed
        if grid == 0:
            sums[COMMON, at] += np.where(whole, mixed, np.uint64(0))


def _mix_numbers(numbers: Hashes) -> Hashes:
    """Returns the finalizer of SplitMix64 of each number."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    return numbers ^ (numbers >> np.uint64(31))


def _hash(value: object) -> int:
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=8).digest(), "big")
