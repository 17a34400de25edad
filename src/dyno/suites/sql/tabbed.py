"""Rows as text with tabs, the format in which PostgreSQL's COPY and MariaDB's LOAD DATA read rows by default."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

NULL = "\\N"
ROWS = 10_000
"""Number of rows in a block."""
_SPECIAL = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_TEXT: Mapping[type, Callable[[Any], str]] = {
    type(None): lambda value: NULL,
    bool: lambda value: "1" if value else "0",
    int: str,
    float: repr,
    Decimal: str,
    str: lambda value: value.translate(_SPECIAL),
    bytes: bytes.hex,
    date: str,
    datetime: str,
    UUID: str,
}


def blocks(columns: Mapping[str, Sequence[object]], binary: str = "") -> Iterator[bytes]:
    """Yields the rows of columns of the same length, as UTF-8. Bytes are hexadecimal digits after `binary`."""
    texts: dict[type, Callable[[Any], str]] = {**_TEXT, bytes: lambda value: binary + value.hex()}
    fields = [(texts[type(value)](value) for value in values) for values in columns.values()]
    lines = map("\t".join, zip(*fields, strict=True))
    while block := list(islice(lines, ROWS)):
        yield "\n".join([*block, ""]).encode()
