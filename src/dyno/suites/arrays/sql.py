"""The table in SQL: the statements that engines share, with their own names of types. No engine may be named here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dyno.suites.arrays.port import BY_NAME, COLUMNS, KEY, NAMES, Change

TABLE = "stock"
Types = Mapping[str, str]
"""What an engine calls the kinds of `port.Column.sql`; that of text may say {width}."""


def create(types: Types, suffix: str = "", key: bool = True) -> str:
    """The table; clustered on, or with an index of, the number of the row, where there is to be a key."""
    columns = ", ".join(
        f"{column.name} {types[column.sql].format(width=column.width if column.sql == 'text' else 0)}"
        f"{' PRIMARY KEY' if key and column.name == KEY else ''}"
        for column in COLUMNS
    )
    return f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}){suffix}"


def insert(mark: str) -> str:
    return f"INSERT INTO {TABLE} ({', '.join(NAMES)}) VALUES ({', '.join([mark] * len(NAMES))})"


def update(names: Sequence[str], mark: str) -> str:
    """Of one row: the values of the columns, and then its number."""
    return f"UPDATE {TABLE} SET {', '.join(f'{name} = {mark}' for name in names)} WHERE {KEY} = {mark}"


def slice_of(mark: str, names: Sequence[str] = NAMES) -> str:
    """Rows from one number to another, which both belong to it."""
    return f"SELECT {', '.join(names)} FROM {TABLE} WHERE {KEY} BETWEEN {mark} AND {mark} ORDER BY {KEY}"


def frame_of(names: Sequence[str]) -> str:
    """All rows, in whatever order they come."""
    return f"SELECT {', '.join(names)} FROM {TABLE}"


def numbers(rows: range) -> tuple[int, int]:
    """Of the first and the last."""
    return rows.start + 1, rows.stop


def keys(change: Change) -> list[int]:
    """The numbers of the rows that are changed."""
    return list(range(change.start + 1, change.stop + 1))


def whole(column: str, answer: Any) -> int | float:
    """A sum as Python has it, of what a server calls a decimal, or a double."""
    return int(answer) if BY_NAME[column].exact else float(answer)
