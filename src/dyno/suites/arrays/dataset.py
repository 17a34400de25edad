"""The table `stock`, and the model of its expected contents.

Each row follows from its position and the seed, so any chunk can be generated on demand. Expected sums, means and
deviations are added up as rows are acknowledged. The rows are not stored.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import expect
from dyno.contracts.model import Wrong
from dyno.host.procfs import input_bytes
from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, COLUMNS, KEY, NAMES, NUMERIC, Chunk

# Number of distinct values, small enough that sums over 2 ** 32 rows stay below 2 ** 63.
_DISTINCT = {
    "order_id": 1_000_000,
    "explanation_uid": 2**31,
    "node_uid": 100_000,
    "section_uid": 20,
    "payment_uid": 500,
    "function_uid": 40,
    "project_uid": 300,
    "funding_uid": 10,
    "payment_request_uid": 1_000_000,
    "mirror_section_uid": 20,
    "mirror_node_uid": 100_000,
    "resource_uid": 50_000,
    "is_cancellation": 2,
    "is_accountable": 2,
}
RANGES = {"quantity": (1.0, 1_000.0), "total_price": (1.0, 100_000.0)}
UPDATED = tuple(RANGES)
"""Columns that an update changes."""
_EPOCH, _SECONDS = np.datetime64("2005-01-01T00:00:00", "s"), 86_400 * 3_971
"""First moment, and the number of seconds up to the day of the published test."""
_WORDS = {
    "portal_type": (
        *(b"Sale Order Line", b"Invoice Line", b"Inventory Line", b"Accounting Line", b"Container Line"),
        *(b"Delivery Cell", b"Production Line", b"Movement"),
    ),
    "simulation_state": (
        *(b"draft", b"planned", b"ordered", b"confirmed", b"ready", b"started", b"stopped", b"delivered"),
        b"cancelled",
    ),
    "variation_text": (b"", b"", b"size/s", b"size/m", b"size/l", b"size/xl", b"blue", b"red", b"green"),
    "sub_variation_text": (b"", b"", b"", b"lot", b"set", b"pair", b"kit"),
}
ROW_BYTES = sum(np.dtype(column.dtype).itemsize for column in COLUMNS)
"""Bytes of a row in arrays: 175. The published number of rows takes 250 MB, like the published arrays."""
_BLOCK = 4
"""Number of 64-bit numbers for each value of Philox's counter."""


class Dataset:
    """Unlimited rows of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._words = {name: np.array(words, BY_NAME[name].dtype) for name, words in _WORDS.items()}

    def chunk(self, rows: range, version: int = 0, names: Sequence[str] = NAMES) -> Chunk:
        """Returns consecutive rows. Each version has other values, except in the key column."""
        return {name: self._column(name, rows, version) for name in names}

    def chunks(self, rows: range, most: int | None = None) -> Iterator[tuple[range, Chunk]]:
        """Yields rows in chunks of at most `most`, each with its range. Without it, a chunk has as many as Dyno holds
        in memory at once."""
        if most is None:
            most = max(input_bytes(CHUNK_ROWS * ROW_BYTES) // ROW_BYTES, 1)
        for start in range(rows.start, rows.stop, most):
            part = range(start, min(start + most, rows.stop))
            yield part, self.chunk(part)

    def _column(self, name: str, rows: range, version: int) -> NDArray[np.generic]:
        column = BY_NAME[name]
        if name == KEY:
            return np.arange(rows.start + 1, rows.stop + 1, dtype=column.dtype)
        # Philox (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011) is a counter-based generator,
        # which can start anywhere.
        block, skipped = divmod(rows.start, _BLOCK)
        bits = np.random.Philox(key=[self.seed, NAMES.index(name)], counter=[block, version, 0, 0])
        drawn: NDArray[np.uint64] = bits.random_raw(skipped + len(rows))[skipped:]
        if name in RANGES:
            low, high = RANGES[name]
            # Use all 53 bits of a double, which an engine with 32-bit floats would not preserve.
            return low + (drawn >> np.uint64(11)) * (2.0**-53 * (high - low))
        if name in self._words:
            words = self._words[name]
            return words[(drawn % np.uint64(len(words))).astype(np.intp)]
        if column.sql == "time":
            return _EPOCH + (drawn % np.uint64(_SECONDS)).astype("m8[s]")
        # Identifiers count from 1. Flags are 0 or 1.
        first = np.uint64(column.sql == "id")
        return (drawn % np.uint64(_DISTINCT[name]) + first).astype(column.dtype)


# -- expected sums, means and deviations ------------------------------------------------------------------------

SUM_ERROR = 1e-12
"""Relative error allowed for a sum of floats. Any order of addition stays well below it, since the values are
positive and rounding errors of a million additions mostly cancel. Values stored as 32-bit floats are off by 1e-11 and
more."""
DEVIATION_ERROR = 1e-9
STATS = ("quantity", "total_price", "resource_uid")
"""Columns of the phase read-column-stats."""
_CENTRES = {**{name: sum(ends) / 2 for name, ends in RANGES.items()}, "resource_uid": 25_000.0}
"""Values near the mean, so that squared differences from them don't suffer from cancellation."""
_INTEGERS, _FLOATS = (int, np.int64, np.uint64), (float, np.float64)


class Reference:
    """Sums of the rows that were added so far. Answers of engines are compared with them."""

    def __init__(self) -> None:
        self.rows = 0
        self._whole = {name: 0 for name in NUMERIC if BY_NAME[name].exact}
        # longdouble has more digits than a double, if the machine supports that.
        self._real = {name: np.longdouble(0) for name in NUMERIC if not BY_NAME[name].exact}
        self._squares = {name: np.longdouble(0) for name in STATS}

    def add(self, chunk: Chunk, times: int = 1) -> None:
        """Adds rows, or subtracts them with times=-1."""
        for name in NUMERIC:
            if name not in chunk:
                continue
            values = chunk[name]
            if name in self._whole:
                self._whole[name] += times * int(values.sum(dtype=np.int64))
            else:
                self._real[name] += times * values.sum(dtype=np.longdouble)
            if name in self._squares:
                off = values.astype(np.longdouble) - _CENTRES[name]
                self._squares[name] += times * (off * off).sum()

    def sum(self, name: str) -> int | float:
        if name in self._whole:
            return self._whole[name]
        return float(self._real[name])

    def stats(self, name: str) -> tuple[float, float]:
        """Returns mean and population standard deviation."""
        if name in self._whole:
            total = np.longdouble(self.sum(name))
        else:
            total = self._real[name]
        mean = total / self.rows
        off = mean - _CENTRES[name]
        return float(mean), math.sqrt(float(self._squares[name] / self.rows - off * off))

    def check_sum(self, name: str, answer: Any) -> int:
        """Compares an engine's sum. Returns the number of compared answers. Raises Wrong."""
        expected = self.sum(name)
        types, words = (_INTEGERS, "a whole number") if BY_NAME[name].exact else (_FLOATS, "a float")
        if not any(type(answer) is each for each in types):
            raise Wrong(f"the sum of {name} is of type {type(answer).__name__}, expected {words}")
        if BY_NAME[name].exact:
            expect(int(answer), expected, f"the sum of {name}")
        elif not is_near(float(answer), float(expected), SUM_ERROR):
            raise Wrong(f"the sum of {name}: got {float(answer)!r}, expected {expected!r} within {SUM_ERROR:g}")
        return 1

    def check_stats(self, names: Sequence[str], answer: object) -> int:
        """Compares an engine's means and deviations. Returns the number of compared answers. Raises Wrong."""
        if type(answer) is not list or len(answer) != len(names):
            raise Wrong(
                f"means and deviations are of type {type(answer).__name__}, expected a list of {len(names)} pairs"
            )
        for name, pair in zip(names, answer, strict=True):
            if type(pair) is not tuple or len(pair) != 2 or any(type(part) is not float for part in pair):
                raise Wrong(f"mean and deviation of {name} are of type {type(pair).__name__}, expected two floats")
            kinds = (("mean", SUM_ERROR), ("standard deviation", DEVIATION_ERROR))
            for (what, error), got, expected in zip(kinds, pair, self.stats(name), strict=True):
                if not is_near(got, expected, error):
                    raise Wrong(f"the {what} of {name}: got {got!r}, expected {expected!r} within {error:g}")
        return 2 * len(names)


def is_near(got: float, expected: float, error: float) -> bool:
    """Returns whether the relative error is at most `error`. False for NaN."""
    return abs(got - expected) <= error * abs(expected)


def bytes_of(names: Sequence[str]) -> int:
    """Returns the bytes of a row with these columns, as arrays."""
    return sum(np.dtype(BY_NAME[name].dtype).itemsize for name in names)


class Model(Reference):
    """Expected contents of the store: its sums, and the slices that were updated. `judged`: False for a null engine,
    whose answers are not checked."""

    def __init__(self, dataset: Dataset, slice_rows: int, judged: bool = True) -> None:
        super().__init__()
        self.dataset = dataset
        self.slice_rows = slice_rows
        self.judged = judged
        self.updated: dict[int, tuple[int, range]] = {}
        """Version and rows of each updated slice, by number of the slice."""

    def append(self, chunk: Chunk) -> None:
        """Adds rows at the end."""
        if self.judged:
            self.add(chunk)
        self.rows += len(chunk[NAMES[0]])

    def part(self, number: int) -> range:
        """Returns the rows of a slice."""
        return range(number * self.slice_rows, min((number + 1) * self.slice_rows, self.rows))

    def values(self, number: int, version: int) -> Chunk:
        """Returns the values of a slice's updated columns in that version."""
        return self.dataset.chunk(self.part(number), version, UPDATED)

    def next_version(self, number: int) -> int:
        """Returns the version that a slice's next update writes."""
        if number in self.updated:
            return self.updated[number][0] + 1
        return 1

    def update(self, number: int, version: int) -> None:
        part = self.part(number)
        if self.judged:
            now = self.chunk(part)
            self.add({name: now[name] for name in UPDATED}, -1)
            self.add(self.values(number, version))
        self.updated[number] = version, part

    def chunk(self, rows: range) -> Chunk:
        """Returns the expected current values of these rows."""
        chunk = dict(self.dataset.chunk(rows))
        for number in range(rows.start // self.slice_rows, (rows.stop - 1) // self.slice_rows + 1):
            version, part = self.updated.get(number, (0, range(0)))
            if version:
                both = range(max(part.start, rows.start), min(part.stop, rows.stop))
                for name, values in self.dataset.chunk(part, version, UPDATED).items():
                    chunk[name][both.start - rows.start : both.stop - rows.start] = values[
                        both.start - part.start : both.stop - part.start
                    ]
        return chunk

    def check(self, rows: range, answer: object) -> int:
        """Compares a slice. Returns the number of compared columns. Raises Wrong."""
        if type(answer) is not dict:
            raise Wrong(f"rows {rows.start} to {rows.stop}: got {type(answer).__name__}, expected a dict of columns")
        if set(answer) != set(NAMES):
            raise Wrong(f"rows {rows.start} to {rows.stop}: got columns {', '.join(map(str, answer))}")
        for name, expected in self.chunk(rows).items():
            expect(answer[name], expected, f"{name} of rows {rows.start} to {rows.stop}")
        return len(NAMES)
