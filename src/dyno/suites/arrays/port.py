"""The port `arrays`, and the columns of its table. Doesn't import NumPy, since the parent imports engines' files."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dyno.contracts.installation import Installation

if TYPE_CHECKING:
    from pandas import DataFrame

PORT = "arrays"
Chunk = Mapping[str, Any]
"""Consecutive rows: for each column by name, a NumPy array of its type."""


class Column(NamedTuple):
    name: str
    dtype: str
    """NumPy type of the column: 'u8', 'f8', 'i1', 'M8[s]', 'S16'."""
    sql: str
    """Kind of the SQL type, which each engine maps to its own: 'id', 'double', 'flag', 'time' or 'text'."""

    @property
    def exact(self) -> bool:
        """Whether a sum of the column must be exact."""
        return self.sql != "double"

    @property
    def width(self) -> int:
        """Maximum length of a text, in bytes."""
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
"""The columns of the published table `stock`, in its order. They have no NULLs, since arrays have none."""
NAMES = tuple(column.name for column in COLUMNS)
BY_NAME = {column.name: column for column in COLUMNS}
NUMERIC = tuple(column.name for column in COLUMNS if column.sql in ("id", "double", "flag"))
"""Columns that can be summed."""
KEY = "uid"
"""Column of the row number, from 1 up without gaps: the key for engines that can't find rows by position."""
CHUNK_ROWS = 65_536
"""Maximum number of rows in a chunk, about 11 MB."""
INSTALLATION = Installation(modules=("pandas", "pyarrow"), requires=("pandas>=2.0", "pyarrow>=15"))
"""Modules and packages for engines that take chunks as Arrow tables. Other engines need only pandas."""


class Change(NamedTuple):
    """New values of some columns in consecutive rows."""

    start: int
    values: Chunk

    @property
    def stop(self) -> int:
        return self.start + len(next(iter(self.values.values())))


class Arrays(Protocol):
    """A table. Engines implement this protocol as a class called with `(engine,)`. A row with the `uid` 1 has
    position 0. No other client uses the table. Subclasses inherit `close`."""

    def writing(self, rows: int) -> AbstractContextManager[Callable[[Chunk], object]]:
        """Begins a transaction that appends at most `rows` rows, and yields a function that takes chunks. At the end
        of the block, the rows are stored with the tier's durability. If the block raises, none of them are stored,
        unless the engine has no transactions."""

    def sum(self, column: str) -> Any:
        """Returns the sum of all rows, exact and as a whole number for whole numbers. The engine computes the sum
        itself or adds up chunks, so that the column is never loaded as a whole."""

    def stats(self, columns: Sequence[str]) -> Sequence[tuple[float, float]]:
        """Returns mean and population standard deviation of each column."""

    def slice(self, rows: range) -> Chunk:
        """Returns all columns of consecutive rows, in order, as arrays of the columns' types."""

    def frame(self, columns: Sequence[str]) -> "DataFrame":
        """Returns all rows of these columns as a pandas DataFrame, in the order that is fastest for the engine."""

    def update(self, change: Change) -> object:
        """Replaces values of existing rows in one transaction."""

    def close(self) -> None:
        return None
