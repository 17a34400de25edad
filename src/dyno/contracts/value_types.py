"""Types of values and their limits, for declarations: they don't import msgspec, which takes long.

`decoded_types` has the same types for the run file's decoder.
"""

from __future__ import annotations

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""Range of whole numbers: 64 bits, as in Parquet."""
MOST_REAL = 1e300
"""Largest other number, so that sums of two stay finite."""
MOST_TEXT = 50_000
"""Longest text, in characters."""
MOST_HISTOGRAM = 1 << 20
"""Longest histogram, in characters of base64."""
MOST_POINTS = 10_000
"""Most points of a series."""

Value = str | int | float | bool
Fact = str | int | float | bool | None
"""A suite's remark on a store besides its times; None if unknown."""
