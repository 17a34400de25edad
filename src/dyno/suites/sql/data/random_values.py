"""Random values of rows: pure functions of a key and the row's number, in any order and any number at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, AnyStr
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from dyno.suites._shared.permutation import Permutation
from dyno.suites._shared.zipf import zipf_candidates
from dyno.suites.sql.data.generators import Generator

if TYPE_CHECKING:
    from datetime import date, datetime

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

PIECE = 8_192
"""Rows whose values are made at once. The arrays of a piece fit into a CPU's second-level cache."""
_SYLLABLES = [first + second for first in "bdfghjklmnprstvz" for second in "aeio"]
WORDS = [first + second for first in _SYLLABLES for second in _SYLLABLES]
"""The 4,096 words. All have 4 letters, so that collations that ignore spaces sort their sequences like the others."""
LETTERS = b"0123456789abcdefghijklmnopqrstuv"
"""The 32 characters of texts, in an order that all collations share."""

# Constants of Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).
_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: Sequence[Words], key: int) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10. Returns 4 random numbers of 32 bits for each counter of 4 such numbers. `key` has 64 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def key_of(*parts: object) -> int:
    """Returns a key of 64 bits for a list of numbers and names."""
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest(), "little")


class Random:
    """Random numbers of some rows. Each row has 2 ** 32 streams of 2 ** 33 words of 64 bits."""

    def __init__(self, key: int, rows: Integers, stream: int = 0) -> None:
        self._key = key
        self.rows = rows
        self._stream = stream
        self._made: tuple[int, tuple[Words, ...]] = -1, ()

    def __len__(self) -> int:
        return len(self.rows)

    def select_rows(self, which: Integers, stream: int | None = None) -> Random:
        """Returns the random numbers of the rows at these positions, of the same stream or another one."""
        return Random(self._key, self.rows[which], self._stream if stream is None else stream)

    def words(self, number: int) -> Words:
        """Returns the word with this number, of each row."""
        pair, second = divmod(number, 2)
        if self._made[0] != pair:
            rows = self.rows.astype(np.uint64)
            counter = [rows & _LOW, rows >> _HALF, np.full_like(rows, pair), np.full_like(rows, self._stream)]
            self._made = pair, philox(counter, self._key)
        parts = self._made[1]
        result: Words = parts[2 * second] | (parts[2 * second + 1] << _HALF)
        return result

    def shares(self, number: int) -> NDArray[np.float64]:
        """Returns a float from 0 up to, but not including, 1 for each row."""
        result: NDArray[np.float64] = (self.words(number) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return result

    def draw_below(self, limit: int) -> Words:
        """Returns a number below `limit`, at most 2 ** 64, for each row. All numbers have the same probability."""
        if limit == 2**64:
            return self.words(0)
        # Words beyond the last multiple of the limit are rejected.
        last = np.uint64(2**64 - 2**64 % limit - 1)
        numbers: Words = self._draw_until_accepted(
            lambda words: (words % np.uint64(limit), words <= last), Random.words
        )
        return numbers

    def zipf(self, count: int, theta: float) -> Integers:
        """Returns a zipfian rank below `count` for each row. 0 is the most frequent one."""
        if count == 1:
            return np.zeros(len(self), np.int64)
        ranks: Integers = self._draw_until_accepted(
            lambda shares: zipf_candidates(count, theta, shares), Random.shares
        )
        return ranks

    def _draw_until_accepted(
        self, propose: Callable[[Any], tuple[Any, Any]], numbers: Callable[[Random, int], Any]
    ) -> Any:
        """Proposes a value for each row, by its next random number, until the value is accepted."""
        values, accepted = propose(numbers(self, 0))
        left, attempt = np.flatnonzero(~accepted), 1
        while len(left):
            again, accepted = propose(numbers(self.select_rows(left), attempt))
            values[left[accepted]] = again[accepted]
            left, attempt = left[~accepted], attempt + 1
        return values


def positions(generator: Generator, random: Random, count: int, order: int) -> Integers:
    """Returns a row number below `count` of another table for each row. `order` decides which ones are frequent."""
    if generator.kind == "uniform":
        return random.draw_below(count).astype(np.int64)
    if generator.kind == "latest":
        return count - 1 - random.zipf(count, generator.arguments[0])
    if generator.kind == "zipf":
        ranks = random.zipf(count, generator.arguments[0])
    else:
        rows, references = generator.arguments
        hot = min(max(round(count * rows), 1), count)
        is_hot = random.shares(0) < references
        share = random.shares(1)
        # If all rows are hot, the others are the same rows.
        ranks = np.where(is_hot, share * hot, hot % count + share * (count - hot % count)).astype(np.int64)
    return Permutation(count, order).numbers_at(ranks)


def values(generator: Generator, random: Random, seed: int) -> Sequence[object]:
    """Returns a value for each row, by a generator without a reference. `seed` decides which numbers of a range are
    frequent."""
    if generator.kind == "zipf":
        theta, low, high = generator.arguments
        count = high - low + 1
        order = Permutation(count, key_of(seed, low, high))
        result: Sequence[object] = (order.numbers_at(random.zipf(count, theta)) + low).tolist()
    else:
        result = _MAKERS[generator.kind](random, *generator.arguments)
    return result


def _draw_between(random: Random, low: int, high: int) -> Integers:
    """Returns a whole number from `low` to `high`, which have 64 bits, for each row."""
    # The sum may pass 2 ** 63 and wrap around, but its final value has 64 bits.
    return random.draw_below(high - low + 1).view(np.int64) + np.int64(low)


def _sizes(random: Random, low: int, high: int) -> list[int]:
    sizes: list[int] = (low + random.shares(0) * (high - low + 1)).astype(np.int64).tolist()
    return sizes


def _serial(random: Random, start: int) -> list[int]:
    numbers: list[int] = (random.rows + start).tolist()
    return numbers


def _uniform(random: Random, low: float, high: float) -> list[float]:
    if isinstance(low, int) and isinstance(high, int):
        drawn: list[float] = _draw_between(random, low, high).tolist()
    else:
        drawn = (low + random.shares(0) * (high - low)).tolist()
    return drawn


def _normal(random: Random, mean: float, deviation: float, digits: int | None) -> list[float]:
    """By Box and Muller (1958)."""
    radius = np.sqrt(-2 * np.log(1 - random.shares(0)))
    numbers = mean + deviation * radius * np.cos(2 * np.pi * random.shares(1))
    if digits is not None:
        numbers = np.round(numbers, digits)
    drawn: list[float] = (numbers.astype(np.int64) if digits == 0 else numbers).tolist()
    return drawn


def _choose(random: Random, choices: Sequence[object], weights: Sequence[float]) -> list[object]:
    ends = np.cumsum(weights)
    which = np.searchsorted(ends, random.shares(0) * ends[-1], side="right").clip(0, len(choices) - 1)
    return list(map(choices.__getitem__, which.tolist()))


def _words(random: Random, low: int, high: int) -> list[str]:
    columns = []
    for number in range(high):
        # Each 64 bits have room for 5 numbers of 12 bits.
        bits = random.words(1 + number // 5) >> np.uint64(12 * (number % 5))
        columns.append(map(WORDS.__getitem__, (bits & np.uint64(len(WORDS) - 1)).tolist()))
    texts = list(map(" ".join, zip(*columns, strict=True)))
    if low == high:
        return texts
    # Each word takes 4 characters and a space.
    return [text[: 5 * size - 1] for text, size in zip(texts, _sizes(random, low, high), strict=True)]


def _text(random: Random, low: int, high: int) -> list[str]:
    table = np.frombuffer(LETTERS, np.uint8)
    return _cut(table[_octets(random, high) & 31].tobytes().decode("ascii"), random, low, high)


def _bytes(random: Random, low: int, high: int) -> list[bytes]:
    return _cut(_octets(random, high).tobytes(), random, low, high)


def _octets(random: Random, count: int) -> NDArray[np.uint8]:
    words = [random.words(1 + number).astype("<u8") for number in range(-(-count // 8))]
    if not words:
        return np.empty((len(random), 0), np.uint8)
    return np.stack(words, axis=1).view(np.uint8)[:, :count]


def _cut(joined: AnyStr, random: Random, low: int, high: int) -> list[AnyStr]:
    """Cuts the joined values of all rows, which have `high` characters or bytes each, and shortens them to random
    sizes."""
    starts = [high * row for row in range(len(random))]
    if low == high:
        return [joined[start : start + high] for start in starts]
    return [joined[start : start + size] for start, size in zip(starts, _sizes(random, low, high), strict=True)]


def _uuid(random: Random) -> list[UUID]:
    """Version 4."""
    high = random.words(0) & np.uint64(0xFFFFFFFFFFFF0FFF) | np.uint64(0x4000)
    low = random.words(1) & np.uint64(2**62 - 1) | np.uint64(2**63)
    return [UUID(int=upper << 64 | lower) for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]


def _time(random: Random, low: int, high: int) -> list[datetime]:
    times: list[datetime] = _draw_between(random, low, high).view("M8[us]").tolist()
    return times


def _date(random: Random, low: int, high: int) -> list[date]:
    dates: list[date] = _draw_between(random, low, high).view("M8[D]").tolist()
    return dates


def _decimal(random: Random, low: int, high: int, digits: int) -> list[Decimal]:
    exponent = Decimal(-digits)
    return [number.scaleb(exponent) for number in map(Decimal, _draw_between(random, low, high).tolist())]


def _bool(random: Random, share: float) -> list[bool]:
    drawn: list[bool] = (random.shares(0) < share).tolist()
    return drawn


def _null(random: Random) -> list[None]:
    return [None] * len(random)


_MAKERS: dict[str, Callable[..., Sequence[object]]] = {
    "serial": _serial,
    "uniform": _uniform,
    "normal": _normal,
    "choose": _choose,
    "words": _words,
    "text": _text,
    "uuid": _uuid,
    "time": _time,
    "date": _date,
    "decimal": _decimal,
    "bool": _bool,
    "bytes": _bytes,
    "null": _null,
}
