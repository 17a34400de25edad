"""The port `arrays` on MariaDB and MySQL, whose statements are alike."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.mysql.client import load
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk

# The types are those of the published table.
TYPES = {
    "id": "BIGINT UNSIGNED NOT NULL",
    "double": "DOUBLE NOT NULL",
    "flag": "TINYINT(1) NOT NULL",
    "time": "DATETIME NOT NULL",
    "text": "VARCHAR(255) NOT NULL",
}
SUFFIX = " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_unicode_ci"
LOAD = (
    f"LOAD DATA LOCAL INFILE '{{path}}' INTO TABLE {sql.TABLE} CHARACTER SET utf8 FIELDS TERMINATED BY ',' "
    f"OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n' ({', '.join(NAMES)})"
)


class Arrays(sql.CursorArrays):
    """See `dyno.suites.arrays.port.Arrays`."""

    # Cast to double, because the mean of integers would be a decimal with four digits.
    mean, deviation = "AVG(CAST({} AS DOUBLE))", "STDDEV_POP(CAST({} AS DOUBLE))"

    def __init__(self, engine: Any) -> None:
        connection = engine.connect(loading=True)
        super().__init__(connection, connection.execute)
        self._execute(sql.create(TYPES, SUFFIX))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with transaction(self._execute):
            yield self._load

    def _load(self, chunk: Chunk) -> None:
        count = len(next(iter(chunk.values())))
        loaded = load(self._connection, LOAD, columns.csv(chunk))
        if loaded != count:
            # The server skips rows that it can't load, with only a warning.
            raise ValueError(f"{loaded} of {count} rows were loaded")

    def update(self, change: Change) -> None:
        """Updates rows by joining the table with the new values as JSON: one round trip instead of one for each
        row."""
        lists = [sql.keys(change), *(values.tolist() for values in change.values.values())]
        kinds = ", ".join(f"{name} DOUBLE PATH '$[{at}]'" for at, name in enumerate(change.values, 1))
        changed = ", ".join(f"{sql.TABLE}.{name} = chunk.{name}" for name in change.values)
        self._execute(
            f"UPDATE {sql.TABLE} JOIN JSON_TABLE(%s, '$[*]' COLUMNS ({KEY} BIGINT PATH '$[0]', {kinds})) AS chunk "
            f"ON {sql.TABLE}.{KEY} = chunk.{KEY} SET {changed}",
            (json.dumps(list(zip(*lists, strict=True))),),
        )
