"""The ports `arrays` and `series` on MariaDB and MySQL, whose statements are alike. Rows are loaded by LOAD DATA."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.mysql.client import load
from dyno.suites.arrays import columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk
from dyno.suites.series import samples
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries

# The types are those of the published table.
ARRAY_TYPES = {
    "id": "BIGINT UNSIGNED NOT NULL",
    "double": "DOUBLE NOT NULL",
    "flag": "TINYINT(1) NOT NULL",
    "time": "DATETIME NOT NULL",
    "text": "VARCHAR(255) NOT NULL",
}
ARRAY_SUFFIX = " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_unicode_ci"
LOAD_ARRAYS = (
    f"LOAD DATA LOCAL INFILE '{{path}}' INTO TABLE {array_sql.TABLE} CHARACTER SET utf8 FIELDS TERMINATED BY ',' "
    f"OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n' ({', '.join(NAMES)})"
)


class Arrays(array_sql.CursorArrays):
    """See `dyno.suites.arrays.port.Arrays`."""

    # Cast to double, because the mean of integers would be a decimal with four digits.
    mean, deviation = "AVG(CAST({} AS DOUBLE))", "STDDEV_POP(CAST({} AS DOUBLE))"

    def __init__(self, engine: Any) -> None:
        connection = engine.connect(loading=True)
        super().__init__(connection, connection.execute)
        self._execute(array_sql.create(ARRAY_TYPES, ARRAY_SUFFIX))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with transaction(self._execute):
            yield self._load

    def _load(self, chunk: Chunk) -> None:
        count = len(next(iter(chunk.values())))
        loaded = load(self._connection, LOAD_ARRAYS, columns.csv(chunk))
        if loaded != count:
            # The server skips rows that it can't load, with only a warning.
            raise ValueError(f"{loaded} of {count} rows were loaded")

    def update(self, change: Change) -> None:
        """Updates rows by joining the table with the new values as JSON: one round trip instead of one for each
        row."""
        lists = [array_sql.keys(change), *(values.tolist() for values in change.values.values())]
        kinds = ", ".join(f"{name} DOUBLE PATH '$[{at}]'" for at, name in enumerate(change.values, 1))
        changed = ", ".join(f"{array_sql.TABLE}.{name} = chunk.{name}" for name in change.values)
        self._execute(
            f"UPDATE {array_sql.TABLE} JOIN JSON_TABLE(%s, '$[*]' COLUMNS ({KEY} BIGINT PATH '$[0]', {kinds})) "
            f"AS chunk ON {array_sql.TABLE}.{KEY} = chunk.{KEY} SET {changed}",
            (json.dumps(list(zip(*lists, strict=True))),),
        )


SERIES_TYPES = series_sql.Types(name="VARCHAR(60)", id="INT", ts="BIGINT", val="DOUBLE", small="SMALLINT")
SERIES_SUFFIX = "ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin"
LOAD_SAMPLES = (
    f"LOAD DATA LOCAL INFILE '{{path}}' REPLACE INTO TABLE {series_sql.TABLE} CHARACTER SET latin1 "
    f"FIELDS TERMINATED BY ',' LINES TERMINATED BY '\\n' ({', '.join(FIELDS)})"
)


class Series(SqlSeries):
    """A table that is clustered on variable and time. See `dyno.suites.series.port.Series`."""

    mark, begins, last = "%s", "ts DIV {bucket} * {bucket}", series_sql.LATEST_BY_SKIPS

    def __init__(self, engine: Any, names: Sequence[str]) -> None:
        self._connection = engine.connect(loading=True)
        self._execute = self._connection.execute
        self._execute(series_sql.create_names(SERIES_TYPES, SERIES_SUFFIX))
        self._execute(series_sql.create(SERIES_TYPES, SERIES_SUFFIX))
        super().__init__(self.add_names(names))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute):
            loaded = load(self._connection, LOAD_SAMPLES, samples.to_csv(self.stored(batch)))
        if loaded < len(batch.ts):
            # The server skips rows that it can't load, with only a warning, and counts rows that replace others
            # twice.
            raise ValueError(f"{loaded} of {len(batch.ts)} samples were loaded")

    def all(self) -> Iterator[SampleBatch]:
        for rows in self._connection.streamed(series_sql.ALL, series_sql.ROWS):
            yield self.batch(samples.columns_of(rows))
