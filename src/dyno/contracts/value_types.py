"""Types of values and their limits, for declarations. This module doesn't import msgspec, which takes long.

`decoded_types` has the same types for the run file's decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""Range of whole numbers: 64 bits, as in Parquet."""
MOST_REAL = 1e300
"""Largest floating-point number, so that the sum of two stays finite."""
MOST_TEXT = 50_000
"""Maximum length of a text, in characters."""
MOST_HISTOGRAM = 1 << 20
"""Maximum length of a histogram, in characters of base64."""
MOST_POINTS = 10_000
"""Maximum number of points of a series."""

Value = str | int | float | bool
Fact = str | int | float | bool | None
"""A value that a suite reports about a store or a trial besides times; None if unknown."""

JsonObject: TypeAlias = dict[str, Any]
"""A new JSON object, or a table of a TOML file."""
JsonMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""
