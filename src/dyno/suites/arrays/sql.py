"""The table in SQL: statements and reads that SQL engines share. Each engine has its own names of types."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, COLUMNS, KEY, NAMES, Arrays, Change, Chunk

if TYPE_CHECKING:
    from pandas import DataFrame

TABLE = "stock"
Types = Mapping[str, str]
"""An engine's type for each kind in `port.Column.sql`. The type of texts may contain {width}."""


def create(types: Types, suffix: str = "", key: bool = True) -> str:
    """Returns the statement that creates the table. `key`: make the row number the primary key."""
    definitions = ", ".join(
        f"{column.name} {types[column.sql].format(width=column.width if column.sql == 'text' else 0)}"
        f"{' PRIMARY KEY' if key and column.name == KEY else ''}"
        for column in COLUMNS
    )
    return f"CREATE TABLE IF NOT EXISTS {TABLE} ({definitions}){suffix}"


def insert(mark: str) -> str:
    return f"INSERT INTO {TABLE} ({', '.join(NAMES)}) VALUES ({', '.join([mark] * len(NAMES))})"


def update(names: Sequence[str], mark: str) -> str:
    """Returns the statement that updates one row. Parameters: the values of the columns, then the row number."""
    return f"UPDATE {TABLE} SET {', '.join(f'{name} = {mark}' for name in names)} WHERE {KEY} = {mark}"


def slice_of(mark: str, names: Sequence[str] = NAMES) -> str:
    """Returns the query for rows from one number to another, inclusive."""
    return f"SELECT {', '.join(names)} FROM {TABLE} WHERE {KEY} BETWEEN {mark} AND {mark} ORDER BY {KEY}"


def frame_of(names: Sequence[str]) -> str:
    """Returns the query for all rows, in any order."""
    return f"SELECT {', '.join(names)} FROM {TABLE}"


def numbers(rows: range) -> tuple[int, int]:
    """Returns the numbers of the first and the last row."""
    return rows.start + 1, rows.stop


def keys(change: Change) -> list[int]:
    """Returns the numbers of the changed rows."""
    return list(range(change.start + 1, change.stop + 1))


def whole(column: str, answer: Any) -> int | float:
    """Converts a sum of any type to int or float, depending on the column."""
    if BY_NAME[column].exact:
        return int(answer)
    return float(answer)


class SqlArrays(Arrays):
    """Base class that computes sums and statistics in SQL. Engines implement `row` and name their SQL functions."""

    mean, deviation = "AVG({})", "STDDEV_POP({})"

    def row(self, statement: str) -> Sequence[Any]:
        """Returns the only row of a statement's result."""
        raise NotImplementedError

    def sum(self, column: str) -> int | float:
        return whole(column, self.row(f"SELECT SUM({column}) FROM {TABLE}")[0])

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        expressions = ", ".join(f"{self.mean.format(name)}, {self.deviation.format(name)}" for name in names)
        values = list(map(float, self.row(f"SELECT {expressions} FROM {TABLE}")))
        return list(zip(values[::2], values[1::2], strict=True))


class CursorArrays(SqlArrays):
    """The table of a client with cursors. `execute` runs a statement with `mark` for values on the connection, and
    returns a cursor."""

    mark = "%s"

    def __init__(self, connection: Any, execute: Any) -> None:
        self._connection, self._execute = connection, execute
        self._slice = slice_of(self.mark)

    def row(self, statement: str) -> Sequence[Any]:
        return self._execute(statement).fetchone()  # type: ignore[no-any-return]

    def slice(self, rows: range) -> Chunk:
        return columns.of_rows(self._execute(self._slice, numbers(rows)).fetchall())

    def frame(self, names: Sequence[str]) -> "DataFrame":
        from pandas import DataFrame

        return DataFrame(list(self._execute(frame_of(names)).fetchall()), columns=list(names))

    def close(self) -> None:
        self._connection.close()
