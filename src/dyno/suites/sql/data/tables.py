"""Tables of the user: rows of a file, or generated ones.

A generated value is a pure function of the seed and the names of the table and column, which make a key, and of the
row's number, which is the counter of Philox4x32-10. So any row can be made without the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dyno.contracts.model import UsageError
from dyno.contracts.settings import closest_match, format_value, integer, literal, unknown_name_message
from dyno.suites.sql.data import generators, table_files
from dyno.suites.sql.data.generators import NAME, Generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dyno.suites.sql.data.random_values import Random

T = TypeVar("T")
BLOCK = 50_000
"""Rows of a block, except the last one."""
MOST_TABLES, MOST_COLUMNS = 1_000, 1_000
MOST_STEPS = 20
"""Maximum length of a chain of references, each to a column that refers to the next one."""
MOST_NULLS = 0.9
"""Maximum share of NULLs in a column that others refer to."""
_ROUNDS = 1_000
"""Maximum number of rows to draw in search of one that is not NULL. With MOST_NULLS, all are once in 10 ** 45."""
_NULLS = 2**32 - 1
"""Stream of random numbers that decide which values are NULL. References that hit a NULL use streams from 1 up."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table. `generator` is None for a column of a file."""

    name: str
    generator: Generator | None = None


@dataclass(frozen=True)
class SqlTable:
    """A table. `rows` is None for a table with a file, whose rows are counted when it is read."""

    name: str
    rows: int | None
    columns: tuple[SqlColumn, ...]
    file: Path | None = None

    def column(self, name: str) -> SqlColumn:
        """Raises ValueError."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            names = [column.name for column in self.columns]
            raise ValueError(f"table {self.name} has no column {format_value(name)}; {closest_match(name, names)}")
        return found


# -- declarations -------------------------------------------------------------------------------------------------


def read_tables(declared: Mapping[str, object], base: Path) -> dict[str, SqlTable]:
    """Returns the tables of a TOML table, by name. Tables that others refer to come first.

    A table is the name of a .csv or .parquet file, relative to `base`, or a table of `rows` and a generator for each
    column. A column may refer to another one of its own table. Raises UsageError.
    """
    if not isinstance(declared, Mapping):
        raise UsageError(f"sql.tables: expected a table of tables, got {literal(declared)}")
    if len(declared) > MOST_TABLES:
        raise UsageError(f"sql.tables: expected at most {MOST_TABLES:,} tables, got {len(declared):,}")
    _check_names("sql.tables", "table", list(declared))
    tables = {name: _read_table(name, value, base) for name, value in declared.items()}
    steps = {
        (table.name, column.name): {column.generator.reference} if column.generator.reference else set()
        for table in tables.values()
        for column in table.columns
        if column.generator
    }
    for (table_name, column_name), referred in steps.items():
        for reference in referred:
            try:
                _check_reference(reference, tables)
            except ValueError as error:
                raise UsageError(f"sql.tables.{table_name}.{column_name}: {error}") from None
    _check_chains(steps)
    before: dict[str, set[str]] = {name: set() for name in tables}
    for (name, _), referred in steps.items():
        before[name] |= {table for table, _ in referred} - {name}
    return {name: tables[name] for name in _sort_by_references(before, str)}


def _read_table(name: str, value: object, base: Path) -> SqlTable:
    where = f"sql.tables.{name}"
    if isinstance(value, str):
        path = base / value
        if path.suffix not in table_files.SUFFIXES:
            raise UsageError(f"{where}: expected a .csv or .parquet file, got {literal(value)}")
        names = table_files.names_of(path)
        if not names:
            raise UsageError(f"{where}: {format_value(path)} has no columns; expected their names in its first line")
        _check_names(where, f"{format_value(path)}: column", names)
        return SqlTable(name, None, tuple(map(SqlColumn, names)), path)
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{where}: expected the name of a .csv or .parquet file, or rows and columns such as"
            f' {{ rows = 1_000, id = "serial" }}, got {literal(value)}'
        )
    columns = {key: text for key, text in value.items() if key != "rows"}
    if not columns:
        raise UsageError(f"{where}: has no columns; expected a generator for each, such as id = 'serial'")
    _check_names(where, "column", list(columns))
    return SqlTable(name, _rows(where, value), tuple(_read_column(where, *each) for each in columns.items()))


def _rows(where: str, value: Mapping[str, object]) -> int:
    if "rows" not in value:
        raise UsageError(f"{where}: has no rows; expected their number, such as rows = 1_000")
    rows = value["rows"]
    try:
        # Booleans and other types become texts that are no numbers.
        return int(integer(0)(str(rows)))
    except (ValueError, RecursionError):
        raise UsageError(f"{where}.rows: expected a whole number from 0 to 10 ** 12, got {literal(rows)}") from None


def _read_column(where: str, name: str, text: object) -> SqlColumn:
    if not isinstance(text, str):
        raise UsageError(f"{where}.{name}: expected a generator as a text, such as 'serial', got {literal(text)}")
    try:
        return SqlColumn(name, generators.parse(text))
    except ValueError as error:
        raise UsageError(f"{where}.{name}: {literal(text)}: {error}") from None


def _check_names(where: str, what: str, names: Sequence[object]) -> None:
    """Raises UsageError unless the names are identifiers that differ for SQL, which ignores their case."""
    if len(names) > MOST_COLUMNS:
        raise UsageError(f"{where}: expected at most {MOST_COLUMNS:,} names, got {len(names):,}")
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            expected = "a name of 1 to 63 letters, digits and _, which does not start with a digit"
            raise UsageError(f"{where}: {what} {literal(name)}: expected {expected}")
        if other := seen.get(name.lower()):
            raise UsageError(f"{where}: {what} {name} is there twice, as {other} and {name}; expected other names")
        seen[name.lower()] = name


def _check_reference(reference: tuple[str, str], tables: Mapping[str, SqlTable]) -> None:
    """Raises ValueError unless the column exists and has values."""
    name, column_name = reference
    if name not in tables:
        raise ValueError(unknown_name_message("table", name, tables))
    table = tables[name]
    generator = table.column(column_name).generator
    if table.rows == 0:
        raise ValueError(f"table {name} has no rows to choose from; expected rows of at least 1")
    if generator and (generator.kind == "null" or generator.nulls > MOST_NULLS):
        share = f"over {MOST_NULLS:.0%} NULL"
        raise ValueError(f"column {name}.{column_name} is {share}; expected a column with more values")


def _sort_by_references(before: Mapping[T, set[T]], show: Callable[[T], str]) -> list[T]:
    """Sorts names so that each comes after those in its set. Raises UsageError for a circle."""
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError as error:
        # The error lists each name after the one that refers to it.
        circle = " -> ".join(map(show, reversed(error.args[1][:MOST_STEPS])))
        raise UsageError(f"sql.tables: references in a circle: {circle}; expected one of them without") from None


def _check_chains(referred: Mapping[tuple[str, str], set[tuple[str, str]]]) -> None:
    """Raises UsageError for columns that refer to each other in a circle, or in a chain that is too long."""
    lengths: dict[tuple[str, str], int] = {}
    for column in _sort_by_references(referred, ".".join):
        lengths[column] = max((lengths[other] + 1 for other in referred.get(column, ())), default=0)
        if lengths[column] > MOST_STEPS:
            name = ".".join(column)
            raise UsageError(f"sql.tables.{name}: a chain of over {MOST_STEPS} references; expected a shorter one")


# -- rows ---------------------------------------------------------------------------------------------------------


def count(table: SqlTable) -> int:
    """Returns the number of rows, for which a file is read. Raises UsageError."""
    if table.file:
        return table_files.count_of(table.file)
    return table.rows or 0


def blocks(table: SqlTable, tables: Mapping[str, SqlTable], seed: int) -> Iterator[dict[str, list[object]]]:
    """Yields all rows in blocks of BLOCK. Raises UsageError."""
    for number in range(-(-count(table) // BLOCK)):
        yield block(table, tables, seed, number)


def block(table: SqlTable, tables: Mapping[str, SqlTable], seed: int, number: int) -> dict[str, list[object]]:
    """Returns the values of a block of rows by column, as Python values: None, bool, int, float, Decimal, str, bytes,
    date, UUID, or datetime without time zone, in UTC. Raises UsageError."""
    start, stop = BLOCK * number, min(BLOCK * (number + 1), count(table))
    if table.file:
        return table_files.read_rows(table.file, start, stop)
    import numpy as np

    rows = np.arange(start, stop)
    return {column.name: _generate_values(table, column, tables, seed, rows) for column in table.columns}


def draw(
    reference: str, tables: Mapping[str, SqlTable], seed: int
) -> Callable[[np.random.Generator, int], list[object]]:
    """Returns a function that draws so many values for a query's parameter, by a generator or from `TABLE.COLUMN`.

    The latter draws the values of random rows, but none that are NULL. Rows that are frequent in the tables' own
    references, by the same seed, are also frequent here. Raises UsageError.
    """
    try:
        referred = generators.reference(reference)
        if referred:
            generator = Generator("uniform", (), referred)
        else:
            generator = generators.parse(reference)
        if generator.kind == "serial":
            raise ValueError("serial numbers the rows of a table; expected another generator or TABLE.COLUMN")
        if generator.reference:
            _check_reference(generator.reference, tables)
    except ValueError as error:
        raise UsageError(f"{literal(reference)}: {error}") from None

    def draw_values(rng: np.random.Generator, draws: int) -> list[object]:
        import numpy as np

        key = int(rng.integers(0, 2**64, dtype=np.uint64))
        return _values(generator, tables, seed, key, np.arange(draws))

    return draw_values


def _generate_values(
    table: SqlTable, column: SqlColumn, tables: Mapping[str, SqlTable], seed: int, rows: NDArray[np.int64]
) -> list[object]:
    """Returns the column's values in these rows, in any order."""
    from dyno.suites.sql.data.random_values import key_of

    assert column.generator, "a file has no generators"
    return _values(column.generator, tables, seed, key_of(seed, table.name, column.name), rows)


def _values(
    generator: Generator, tables: Mapping[str, SqlTable], seed: int, key: int, rows: NDArray[np.int64]
) -> list[object]:
    """Returns the generator's values for a key and these row numbers."""
    from dyno.suites.sql.data.random_values import PIECE, Random, values

    result: list[object] = []
    for start in range(0, len(rows), PIECE):
        random = Random(key, rows[start : start + PIECE])
        if generator.reference:
            drawn = _draw_referred(generator, generator.reference, random, tables, seed)
        else:
            drawn = values(generator, random, seed)
        if generator.nulls:
            nulls = (Random(key, random.rows, _NULLS).shares(0) < generator.nulls).tolist()
            drawn = [None if null else value for null, value in zip(nulls, drawn, strict=True)]
        result += drawn
    return result


def _draw_referred(
    generator: Generator, reference: tuple[str, str], random: Random, tables: Mapping[str, SqlTable], seed: int
) -> Sequence[object]:
    """Returns values of random rows of the other table. If one is NULL, a row that is drawn uniformly replaces it."""
    import numpy as np

    from dyno.suites.sql.data.random_values import key_of, positions

    table = tables[reference[0]]
    column = table.column(reference[1])
    order = key_of(seed, table.name)
    if table.file:
        present = table_files.values_of(table.file, column.name)
        if not present:
            raise UsageError(f"column {'.'.join(reference)} has no values to choose from")
        return [present[row] for row in positions(generator, random, len(present), order).tolist()]
    assert table.rows, "checked before"
    result = _generate_values(table, column, tables, seed, positions(generator, random, table.rows, order))
    # At most MOST_NULLS of the values are NULL, unless the table has few rows.
    for stream in range(1, _ROUNDS):
        missing = [at for at, value in enumerate(result) if value is None]
        if not missing:
            return result
        again = random.select_rows(np.array(missing), stream).draw_below(table.rows).astype(np.int64)
        for at, value in zip(missing, _generate_values(table, column, tables, seed, again), strict=True):
            result[at] = value
    raise UsageError(f"column {'.'.join(reference)} has no values to choose from, since all its rows are NULL")
