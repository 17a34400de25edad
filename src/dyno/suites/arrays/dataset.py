"""The table `stock`. Each row follows from its position and the seed, so any chunk can be generated on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.suites.arrays.port import BY_NAME, CHUNK_ROWS, COLUMNS, KEY, NAMES, Chunk

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
        self._seed = seed
        self._words = {name: np.array(words, BY_NAME[name].dtype) for name, words in _WORDS.items()}

    def chunk(self, rows: range, version: int = 0, names: Sequence[str] = NAMES) -> Chunk:
        """Returns consecutive rows. Each version has other values, except in the key column."""
        return {name: self._column(name, rows, version) for name in names}

    def chunks(self, rows: range, most: int = CHUNK_ROWS) -> Iterator[tuple[range, Chunk]]:
        """Yields rows in chunks of at most `most`, each with its range."""
        for start in range(rows.start, rows.stop, most):
            part = range(start, min(start + most, rows.stop))
            yield part, self.chunk(part)

    def _column(self, name: str, rows: range, version: int) -> NDArray[Any]:
        column = BY_NAME[name]
        if name == KEY:
            return np.arange(rows.start + 1, rows.stop + 1, dtype=column.dtype)
        drawn = self._draw(NAMES.index(name), rows, version)
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

    def _draw(self, number: int, rows: range, version: int) -> NDArray[np.uint64]:
        """Returns a random number for each row, by Philox (Salmon et al., Parallel Random Numbers: As Easy as 1, 2,
        3, 2011), a counter-based generator that can start anywhere."""
        first, skipped = divmod(rows.start, _BLOCK)
        bits = np.random.Philox(key=[self._seed, number], counter=[first, version, 0, 0])
        numbers: NDArray[np.uint64] = bits.random_raw(skipped + len(rows))[skipped:]
        return numbers
