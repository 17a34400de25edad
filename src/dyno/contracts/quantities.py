"""Parses numbers, times and sizes: 1M, 2k, 64MiB, 5m, 300ms.

Unit letters without an i are powers of 1,000, those with an i powers of 1,024 (IEC 80000-13). Case does not matter:
nobody needs m for thousandths.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

GIB = 1 << 30
_NUMBER = re.compile(
    r"([+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,2})?)\s*([a-zµ]*)", re.ASCII | re.IGNORECASE
)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MICROSECONDS = {
    "": 1_000_000,
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_LONGEST = 100
"""Maximum length of a number, in characters."""


def number(text: str) -> Fraction:
    """Parses '20000', '20_000', '20k', '1.5M', '2e6', '64Ki', '64MiB'. Raises ValueError."""
    amount, unit = _split_unit(text)
    letter = unit.lower().removesuffix("b")
    factor = 1000
    if letter.endswith("i"):
        factor = 1024
    power = _POWERS.get(letter.removesuffix("i"))
    if power is None or letter == "i":
        raise ValueError(f"{unit} is no unit of numbers: k, M, G, T, or Ki, Mi, Gi, Ti")
    return amount * int(factor**power)


def whole(text: str) -> int:
    """Parses a whole number. Raises ValueError."""
    if text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return int(text)
    value = number(text)
    if value.denominator != 1:
        raise ValueError("is not whole")
    return value.numerator


def seconds(text: str) -> float:
    """Parses a time: '90', '1.5s', '300ms', '5m', '2h', '1d'. Raises ValueError."""
    amount, unit = _split_unit(text)
    factor = _MICROSECONDS.get(unit.lower())
    if factor is None:
        raise ValueError("expected seconds, or a time such as 300ms, 90s, 5m or 2h")
    return float(amount * factor / 1_000_000)


def gib(text: str) -> float:
    """Parses a size, in GiB: '2', '2GiB', '512MiB', '4GB'. Raises ValueError."""
    amount, unit = _split_unit(text)
    try:
        return float(amount if not unit else number(text) / GIB)
    except (ValueError, OverflowError):
        raise ValueError("expected GiB, or a size such as 512MiB or 4GB") from None


def _split_unit(text: str) -> tuple[Fraction, str]:
    match = None
    if len(text) <= _LONGEST:
        match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError("is no number")
    # Imported here because it would make `dyno list` 2 % slower.
    from fractions import Fraction

    return Fraction(match[1].replace("_", "")), match[2]
