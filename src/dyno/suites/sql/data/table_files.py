"""Rows of a user's CSV or Parquet file. A file is read as a whole, once, and stays in memory.

CSV: UTF-8, with commas and a line of column names. An empty field is NULL, with or without quotes. The type of a
column is the first of int (64 bits), float, date, time and text that fits all its fields. Numbers with leading zeros
are text. Times are ISO 8601, in UTC if they have no offset.

Parquet: booleans, numbers, decimals, texts, bytes, dates, timestamps and UUIDs. Timestamps lose their time zone and
become UTC; nanoseconds are truncated to microseconds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts import safe_read
from dyno.contracts.model import NotInstalled, UsageError
from dyno.contracts.settings import format_value
from dyno.host import installation
from dyno.suites.sql.data.generators import moment

if TYPE_CHECKING:
    from datetime import date

    from pyarrow import ChunkedArray, DataType
    from pyarrow.parquet import ParquetFile

SUFFIXES = (".csv", ".parquet")
MOST_BYTES = 1 << 40
_INT = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def names_of(path: Path) -> list[str]:
    """Returns the names of the columns. Raises UsageError."""
    if path.suffix == ".csv":
        with _csv_rows(path) as rows:
            return next(rows, [])
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def count_of(path: Path) -> int:
    """Returns the number of rows. Raises UsageError."""
    return next((len(column) for column in columns_of(path).values()), 0)


def read_rows(path: Path, start: int, stop: int) -> dict[str, list[object]]:
    """Returns the values of consecutive rows by column. Raises UsageError."""
    return {name: _plain(path, column[start:stop]) for name, column in columns_of(path).items()}


def values_of(path: Path, column: str) -> list[object]:
    """Returns the column's values that are not NULL. Raises UsageError."""
    return _values(path, _version(path), column)


def columns_of(path: Path) -> Mapping[str, list[object] | ChunkedArray]:
    """Returns a list or an Arrow array for each column. Raises UsageError."""
    return _columns(path, _version(path))


def _version(path: Path) -> tuple[int, int]:
    """Returns the file's time of change and its size, so that a changed file is read again."""
    with safe_read.open_regular_file(path, MOST_BYTES):
        status = path.stat()
        return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _values(path: Path, version: tuple[int, int], column: str) -> list[object]:
    return [value for value in _plain(path, _columns(path, version)[column]) if value is not None]


@lru_cache(maxsize=16)
def _columns(path: Path, version: tuple[int, int]) -> Mapping[str, list[object] | ChunkedArray]:
    if path.suffix == ".csv":
        return _csv_columns(path)
    return _parquet_columns(path)


def _plain(path: Path, column: list[object] | ChunkedArray) -> list[object]:
    """Returns a column's Python values."""
    if isinstance(column, list):
        return column
    with _parquet_errors(path):
        plain: list[object] = column.to_pylist()
        return plain


# -- CSV ----------------------------------------------------------------------------------------------------------


@contextmanager
def _csv_rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """Opens a CSV file. Lines without a field are left out. Raises UsageError, also for errors while reading."""
    with safe_read.open_regular_file(path, MOST_BYTES) as file:
        reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), strict=True)
        try:
            yield (row for row in reader if row)
        except UnicodeDecodeError:
            raise UsageError(f"{path}: not UTF-8 after line {reader.line_num}") from None
        except csv.Error as error:
            raise UsageError(f"{path}: line {reader.line_num} is not CSV: {format_value(error)}") from None


def _csv_columns(path: Path) -> dict[str, list[object]]:
    with _csv_rows(path) as rows:
        names = next(rows, [])
        fields: list[list[str]] = [[] for _ in names]
        for number, row in enumerate(rows, 1):
            if len(row) != len(names):
                raise UsageError(f"{path}: row {number} has {len(row)} fields; expected {len(names)}, one per column")
            for column, field in zip(fields, row, strict=True):
                column.append(field)
    return {name: _convert_fields(column) for name, column in zip(names, fields, strict=True)}


def _convert_fields(fields: list[str]) -> list[object]:
    """Converts the fields of a column to the first type that fits all of them."""
    for convert in (_int, _float, _day, moment):
        try:
            return [convert(field) if field else None for field in fields]
        except ValueError:
            continue
    return [field or None for field in fields]


def _int(field: str) -> int:
    if not _INT.fullmatch(field) or not -(2**63) <= int(field) < 2**63:
        raise ValueError
    return int(field)


def _float(field: str) -> float:
    if not _FLOAT.fullmatch(field):
        raise ValueError
    return float(field)


def _day(field: str) -> date:
    if not _DATE.fullmatch(field):
        raise ValueError
    return moment(field).date()


# -- Parquet ------------------------------------------------------------------------------------------------------


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Raises UsageError for errors of pyarrow, and NotInstalled without it."""
    try:
        import pyarrow
    except ImportError:
        remedy = installation.extra_command("parquet")
        raise NotInstalled(f"{path}: Parquet files need pyarrow, which is not installed: {remedy}") from None
    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UsageError(f"{path}: can't read it as Parquet: {format_value(error)}") from None


def _parquet(path: Path) -> ParquetFile:
    """Opens a Parquet file whose columns have supported types."""
    with safe_read.open_regular_file(path, MOST_BYTES), _parquet_errors(path):
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(path)
        for field in file.schema_arrow:
            if not any(fits(field.type) for fits in _parquet_types()):
                shown, name = format_value(field.type), format_value(field.name)
                raise UsageError(
                    f"{path}: column {name} has the type {shown}; expected a type of numbers, texts, bytes or times"
                )
        return file


def _parquet_types() -> tuple[Callable[[DataType], bool], ...]:
    """Returns functions that recognise the supported types."""
    from pyarrow import types

    def text(of: DataType) -> bool:
        return any(named in str(of) for named in ("string", "binary")) and not types.is_nested(of)

    def uuid(of: DataType) -> bool:
        return getattr(of, "extension_name", "") == "arrow.uuid"

    numbers = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return (*numbers, types.is_date, types.is_timestamp, text, uuid)


def _parquet_columns(path: Path) -> dict[str, ChunkedArray]:
    with _parquet(path) as file, _parquet_errors(path):
        import pyarrow
        from pyarrow import types

        def convert_column(column: ChunkedArray) -> ChunkedArray:
            if types.is_timestamp(column.type):
                return column.cast(pyarrow.timestamp("us"), safe=False)
            if types.is_date64(column.type):
                return column.cast(pyarrow.date32())
            return column

        table = file.read()
        return {name: convert_column(table.column(name)) for name in table.column_names}
