"""Generators of the values of a column, which a user writes as texts: `zipf:customer.id:0.9`, `words:2?5%`.

USAGE lists them. `?5%` at the end of any generator replaces 5 % of its values with NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from dyno.contracts.settings import unknown_name_message

THETA = 0.99
"""Default exponent of `zipf` and `latest`, which is YCSB's."""
MOST_THETA = 100.0
MOST_WORDS, MOST_LENGTH = 1_000, 10_000
N = TypeVar("N", int, float)
EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)

USAGE = {
    # Counts from START (default 1).
    "serial": "serial or serial:START",
    # Ints, or floats if LOW or HIGH has a decimal point; or the values of rows of another table.
    "uniform": "uniform:LOW..HIGH or uniform:TABLE.COLUMN",
    # Frequent values are spread over the range or table.
    "zipf": "zipf:LOW..HIGH or zipf:TABLE.COLUMN, with :THETA after it for an exponent other than 0.99",
    # The first percentage of the rows gets the second percentage of the references.
    "hot": "hot:TABLE.COLUMN:ROWS%:REFERENCES%, such as hot:customer.id:20%:80%",
    # The last row is the most frequent one.
    "latest": "latest:TABLE.COLUMN or latest:TABLE.COLUMN:THETA",
    # Floats, or ints with 0 digits after the decimal point.
    "normal": "normal:MEAN:DEVIATION or normal:MEAN:DEVIATION:DIGITS, with 0 to 15 digits after the point",
    # Texts, or ints if all values are whole numbers. A weight without `*` is 1.
    "choose": "choose:VALUE,VALUE,..., or with weights over 0: choose:DE*5,FR*3,PL",
    "words": f"words:N or words:A..B, from 1 to {MOST_WORDS:,} words",
    # Lower-case letters and digits, which all collations sort alike.
    "text": f"text:N or text:A..B, from 0 to {MOST_LENGTH:,} characters",
    "uuid": "uuid",
    # Microseconds of UTC, both ends included. A date is its first microsecond.
    "time": "time:FROM..TO, such as time:2026-01-01..2026-06-30T12:00:00Z",
    "date": "date:FROM..TO, such as date:2026-01-01..2026-06-30",
    "decimal": "decimal:LOW..HIGH:DIGITS, with 0 to 18 digits after the point",
    "bool": "bool, or bool:SHARE% for the share of true",
    "bytes": f"bytes:N or bytes:A..B, from 0 to {MOST_LENGTH:,} bytes",
    "null": "null",
}


class Generator(NamedTuple):
    kind: str
    """A key of USAGE."""
    arguments: tuple[Any, ...] = ()
    """Arguments after the reference, with defaults. Times are microseconds and dates are days since 1970; decimals
    are multiples of their last digit."""
    reference: tuple[str, str] | None = None
    """Table and column whose values the generator chooses from."""
    nulls: float = 0.0
    """Share of values that are NULL, from 0 to 1."""


NAME = r"[^\W\d]\w{0,62}"
_REFERENCE = re.compile(rf"({NAME})\.({NAME})")
_WHOLE = re.compile(r"[+-]?[0-9](_?[0-9]){0,18}")
_NUMBER = re.compile(r"[+-]?[0-9](_?[0-9]){0,18}(\.[0-9]{1,18})?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def parse(text: str) -> Generator:
    """Parses a generator. Raises ValueError with a message of one line."""
    body, mark, share = text.strip().rpartition("?")
    nulls = 0.0
    if mark and share.endswith("%"):
        try:
            nulls = _share(share)
        except ValueError as error:
            raise ValueError(f"{error}; expected a share of NULLs after the ?, such as ?5%") from None
    else:
        body = text.strip()
    kind, colon, rest = body.partition(":")
    if kind == "from":
        raise ValueError("from: is not supported; choose from another table's column with uniform:TABLE.COLUMN")
    if kind not in _PARSERS:
        raise ValueError(unknown_name_message("generator", kind, _PARSERS))
    try:
        return _PARSERS[kind](rest if colon else None)._replace(nulls=nulls)
    except ValueError as error:
        raise ValueError(f"{error}; expected {USAGE[kind]}") from None


def reference(text: str) -> tuple[str, str] | None:
    """Returns the table and the column of `TABLE.COLUMN`, or None if the text is something else."""
    match = _REFERENCE.fullmatch(text)
    if match:
        return (match[1], match[2])
    return None


def moment(text: str) -> datetime:
    """Parses a date or a time of ISO 8601, which is UTC if it has no offset. Returns a time without time zone.
    Raises ValueError."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("not a date or time of ISO 8601")
    day, clock, fraction, offset = match.groups()
    # Python 3.10 accepts neither 'Z' nor 2 digits of a fraction.
    parsed = datetime.fromisoformat(f"{day}T{clock or '00:00'}{'+00:00' if offset in (None, 'Z') else offset}")
    try:
        utc = parsed.astimezone(timezone.utc).replace(tzinfo=None)
    except OverflowError:
        raise ValueError("not in the years 1 to 9999 of UTC") from None
    return utc.replace(microsecond=int((fraction or "0").ljust(6, "0")))


# -- parts of generators ------------------------------------------------------------------------------------------


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError("not a whole number of 64 bits")
    return int(text)


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number of at most 19 digits")
    return float(text)


def _share(text: str) -> float:
    """Parses a percentage from 0% to 100% as a share."""
    number = text.removesuffix("%")
    if number == text or not _NUMBER.fullmatch(number) or not 0 <= float(number) <= 100:
        raise ValueError("not a percentage from 0% to 100%")
    return float(number) / 100


def _theta(text: str) -> float:
    theta = _number(text)
    if not 0 < theta <= MOST_THETA:
        raise ValueError(f"theta is not over 0 and up to {MOST_THETA:g}")
    return theta


def _digits(text: str, most: int) -> int:
    if not 0 <= (digits := _whole(text)) <= most:
        raise ValueError(f"not 0 to {most} digits")
    return digits


def _range(text: str, bound: Callable[[str], N]) -> tuple[N, N]:
    """Parses LOW..HIGH. Both ends belong to the range."""
    low, dots, high = text.partition("..")
    if not dots:
        raise ValueError("no range")
    ends = bound(low), bound(high)
    if ends[0] > ends[1]:
        raise ValueError("the range ends before it starts")
    return ends


def _parts(text: str | None, least: int, most: int) -> list[str]:
    """Splits the arguments of a generator."""
    parts = []
    if text is not None:
        parts = text.split(":")
    if len(parts) < least:
        raise ValueError("too few arguments")
    if len(parts) > most:
        raise ValueError("too many arguments")
    return parts


def _parse_reference(text: str) -> tuple[str, str]:
    referred = reference(text)
    if referred is None:
        raise ValueError("no TABLE.COLUMN")
    return referred


# -- generators ---------------------------------------------------------------------------------------------------


def _serial(text: str | None) -> Generator:
    parts = _parts(text, 0, 1)
    start = _whole(parts[0]) if parts else 1
    if abs(start) > 2**62:
        raise ValueError("the start is beyond 2 ** 62")
    return Generator("serial", (start,))


def _uniform(text: str | None) -> Generator:
    (of,) = _parts(text, 1, 1)
    if ".." not in of:
        return Generator("uniform", (), _parse_reference(of))
    low, high = of.partition("..")[::2]
    return Generator("uniform", _range(of, _number if "." in low or "." in high else _whole))


def _zipf(text: str | None) -> Generator:
    of, *rest = _parts(text, 1, 2)
    theta = _theta(rest[0]) if rest else THETA
    if ".." not in of:
        return Generator("zipf", (theta,), _parse_reference(of))
    low, high = _range(of, _whole)
    if high - low >= 2**53:
        raise ValueError("the range has over 2 ** 53 numbers")
    return Generator("zipf", (theta, low, high))


def _hot(text: str | None) -> Generator:
    of, rows, references = _parts(text, 3, 3)
    if _share(rows) == 0:
        raise ValueError("0% of the rows")
    return Generator("hot", (_share(rows), _share(references)), _parse_reference(of))


def _parse_latest(text: str | None) -> Generator:
    of, *rest = _parts(text, 1, 2)
    return Generator("latest", (_theta(rest[0]) if rest else THETA,), _parse_reference(of))


def _normal(text: str | None) -> Generator:
    mean, deviation, *rest = _parts(text, 2, 3)
    if _number(deviation) < 0:
        raise ValueError("the deviation is negative")
    digits = _digits(rest[0], 15) if rest else None
    if digits == 0 and abs(_number(mean)) + 40 * _number(deviation) >= 2**63:
        raise ValueError("the numbers exceed 64 bits")
    return Generator("normal", (_number(mean), _number(deviation), digits))


def _choose(text: str | None) -> Generator:
    values, weights = list[Any](), list[float]()
    for part in (text or "").split(","):
        value, star, weight = part.rpartition("*")
        values.append((value if star else part).strip())
        weights.append(_number(weight.strip()) if star else 1.0)
    if not all(values):
        raise ValueError("a value is empty")
    if min(weights) <= 0:
        raise ValueError("a weight is not over 0")
    if all(map(_WHOLE.fullmatch, values)):
        values = list(map(_whole, values))
    return Generator("choose", (tuple(values), tuple(weights)))


def _sized_parser(kind: str, least: int, most: int) -> Callable[[str | None], Generator]:
    """Returns the parser of a generator whose values have N, or A to B, characters, bytes or words."""

    def parse_sized(text: str | None) -> Generator:
        (size,) = _parts(text, 1, 1)
        low, high = _range(size if ".." in size else f"{size}..{size}", _whole)
        if not least <= low <= high <= most:
            raise ValueError(f"not from {least} to {most:,}")
        return Generator(kind, (low, high))

    return parse_sized


def _bare_parser(kind: str) -> Callable[[str | None], Generator]:
    """Returns the parser of a generator without arguments."""

    def parse_bare(text: str | None) -> Generator:
        _parts(text, 0, 0)
        return Generator(kind)

    return parse_bare


def _time(text: str | None) -> Generator:
    return Generator("time", _range(text or "", lambda end: (moment(end) - EPOCH) // MICROSECOND))


def _date(text: str | None) -> Generator:
    def day(end: str) -> int:
        if len(end) != len("2026-01-01"):
            raise ValueError("not a date of ISO 8601")
        return moment(end).toordinal() - date(1970, 1, 1).toordinal()

    return Generator("date", _range(text or "", day))


def _decimal(text: str | None) -> Generator:
    of, places = _parts(text, 2, 2)
    digits = _digits(places, 18)

    def scale_end(end: str) -> int:
        _number(end)
        units = Fraction(end) * 10**digits
        if units.denominator != 1:
            raise ValueError(f"an end of the range has more than {digits} digits after the point")
        if not -(2**63) <= units < 2**63:
            raise ValueError("the numbers exceed 64 bits")
        return int(units)

    return Generator("decimal", (*_range(of, scale_end), digits))


def _bool(text: str | None) -> Generator:
    parts = _parts(text, 0, 1)
    return Generator("bool", (_share(parts[0]) if parts else 0.5,))


_PARSERS: dict[str, Callable[[str | None], Generator]] = {
    "serial": _serial,
    "uniform": _uniform,
    "zipf": _zipf,
    "hot": _hot,
    "latest": _parse_latest,
    "normal": _normal,
    "choose": _choose,
    "words": _sized_parser("words", 1, MOST_WORDS),
    "text": _sized_parser("text", 0, MOST_LENGTH),
    "uuid": _bare_parser("uuid"),
    "time": _time,
    "date": _date,
    "decimal": _decimal,
    "bool": _bool,
    "bytes": _sized_parser("bytes", 0, MOST_LENGTH),
    "null": _bare_parser("null"),
}
