"""What values are, and how large they may be. What one means may not be put here.

For declarations, which do without the run file's decoder: to import it takes long. With it: `bounded`.
"""

from __future__ import annotations

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""Of a whole number: what tables for other programs have room for."""
MOST_REAL = 1e300
"""Of any other, so that a sum or a product of two is one."""
MOST_TEXT = 50_000
"""Characters."""
MOST_HISTOGRAM = 1 << 20
"""The same, of one in base64: more than any has."""
MOST_POINTS = 10_000
"""Of a series."""

Value = str | int | float | bool
Fact = str | int | float | bool | None
"""What a suite tells of a store beside its times; None where it is not known."""
