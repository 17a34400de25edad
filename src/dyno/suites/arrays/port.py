"""The port `arrays`: what an engine implements to take part, and the columns of the table that it keeps.

Nothing here imports NumPy: engines' files are read by the parent, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

PORT = "arrays"
Chunk = Mapping[str, Any]
"""Rows that follow each other: a NumPy array of each column, of the column's type, by the column's name."""


class Column(NamedTuple):
    """A column of the table."""

    name: str
    dtype: str
    """Of its array, in NumPy's words: 'u8', 'f8', 'i1', 'M8[s]', 'S16'."""
    sql: str
    """What it is in SQL: 'id', 'double', 'flag', 'time' or 'text'. Engines have names of their own for these."""

    @property
    def numeric(self) -> bool:
        """Whether it can be summed up."""
        return self.sql in ("id", "double", "flag")

    @property
    def exact(self) -> bool:
        """Whether a sum is right to the last digit, or else wrong."""
        return self.sql != "double"

    @property
    def width(self) -> int:
        """Bytes of a text, at most."""
        return int(self.dtype.removeprefix("S"))


IDS = (
    *("uid", "order_id", "explanation_uid", "node_uid", "section_uid", "payment_uid", "function_uid", "project_uid"),
    *("funding_uid", "payment_request_uid", "mirror_section_uid", "mirror_node_uid", "resource_uid"),
)
COLUMNS = (
    *(Column(name, "u8", "id") for name in IDS),
    Column("quantity", "f8", "double"),
    Column("is_cancellation", "i1", "flag"),
    Column("is_accountable", "i1", "flag"),
    Column("date", "M8[s]", "time"),
    Column("mirror_date", "M8[s]", "time"),
    Column("total_price", "f8", "double"),
    Column("portal_type", "S16", "text"),
    Column("simulation_state", "S9", "text"),
    Column("variation_text", "S8", "text"),
    Column("sub_variation_text", "S4", "text"),
)
"""Those of the published table `stock`, in its order. It has no NULL: arrays have none."""
NAMES = tuple(column.name for column in COLUMNS)
BY_NAME = {column.name: column for column in COLUMNS}
NUMERIC = tuple(column.name for column in COLUMNS if column.numeric)
KEY = "uid"
"""The number of the row, from 1 up, without a gap: by it an engine that has no places finds rows."""
CHUNK_ROWS = 65_536
"""Rows that are handed over at once: some 11 MB."""
MODULES, REQUIRES = ("pandas", "pyarrow"), ("pandas>=2.0", "pyarrow>=15")
"""What an engine wants through this port that is handed tables of Arrow's; one that is not wants the first only."""


class Change(NamedTuple):
    """New values of some columns, in rows that follow each other."""

    start: int
    values: Chunk

    @property
    def stop(self) -> int:
        return self.start + len(next(iter(self.values.values())))


class Arrays(Protocol):
    """Engines implement it as a class called with `(engine,)`. A row's place is `uid - 1`.

    What an engine returns of a column is an array of the column's own type. Nobody else is at the table.
    """

    def writing(self, rows: int) -> AbstractContextManager[Callable[[Chunk], object]]:
        """A transaction that adds rows at the end, so many at most: yields what takes one chunk after the other.

        What was taken is there, with the tier's durability, once it is left; nothing is where the block raised,
        unless the engine has no transactions.
        """

    def sum(self, column: str) -> Any:
        """Of all rows, by the engine's own means where it has any, and else chunk by chunk: never all in memory that
        is not there already. A whole number of a column of whole numbers, exactly."""

    def stats(self, columns: Sequence[str]) -> Sequence[tuple[float, float]]:
        """Of each column its mean and the standard deviation of the whole (not of a sample)."""

    def slice(self, rows: range) -> Chunk:
        """All columns of rows that follow each other, in order."""

    def frame(self, columns: Sequence[str]) -> Any:
        """All rows of these columns as a DataFrame of pandas's, in whatever order is the shortest way."""

    def update(self, change: Change) -> object:
        """A transaction of its own. Rows that are there."""

    def close(self) -> None: ...
