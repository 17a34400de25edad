"""The port `arrays` on MariaDB and MySQL, whose statements are alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk

# The types of the published table.
TYPES = {
    "id": "BIGINT UNSIGNED NOT NULL",
    "double": "DOUBLE NOT NULL",
    "flag": "TINYINT(1) NOT NULL",
    "time": "DATETIME NOT NULL",
    "text": "VARCHAR(255) NOT NULL",
}
SUFFIX = " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_unicode_ci"
LOAD = (
    "LOAD DATA LOCAL INFILE '{path}' INTO TABLE {table} CHARACTER SET utf8 FIELDS TERMINATED BY ',' "
    "OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n' ({names})"
)


class Arrays:
    """See `dyno.suites.arrays.port.Arrays`."""

    def __init__(self, engine: Any) -> None:
        self._connection = engine.connect(loading=True)
        self._execute = self._connection.execute
        self._execute(sql.create(TYPES, SUFFIX))
        self._slice = sql.slice_of("%s")

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with transaction(self._execute):
            yield self._load

    def _load(self, chunk: Chunk) -> None:
        """Loads a file in memory by LOAD DATA, which both vendors recommend for many rows."""
        count = len(next(iter(chunk.values())))
        with os.fdopen(os.memfd_create("chunk"), "wb") as file:
            file.write(memoryview(columns.csv(chunk)))
            file.flush()
            path = f"/proc/self/fd/{file.fileno()}"
            loaded = self._execute(LOAD.format(path=path, table=sql.TABLE, names=", ".join(NAMES))).rowcount
        if loaded != count:
            # Rows that can't be loaded are skipped with a warning.
            raise ValueError(f"{loaded} of {count} rows were loaded")

    def sum(self, column: str) -> Any:
        return sql.whole(column, self._execute(f"SELECT SUM({column}) FROM {sql.TABLE}").fetchone()[0])

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        # As doubles: the mean of integers would be a decimal with four digits.
        expressions = ", ".join(f"AVG(CAST({name} AS DOUBLE)), STDDEV_POP(CAST({name} AS DOUBLE))" for name in names)
        row = self._execute(f"SELECT {expressions} FROM {sql.TABLE}").fetchone()
        return list(zip(map(float, row[::2]), map(float, row[1::2]), strict=True))

    def slice(self, rows: range) -> Chunk:
        return columns.of_rows(self._execute(self._slice, sql.numbers(rows)).fetchall())

    def frame(self, names: Sequence[str]) -> Any:
        from pandas import DataFrame

        return DataFrame(list(self._execute(sql.frame_of(names)).fetchall()), columns=list(names))

    def update(self, change: Change) -> None:
        """Joins the table with the rows as JSON: one round trip, instead of one for each row."""
        lists = [sql.keys(change), *(values.tolist() for values in change.values.values())]
        kinds = ", ".join(f"{name} DOUBLE PATH '$[{at}]'" for at, name in enumerate(change.values, 1))
        changed = ", ".join(f"{sql.TABLE}.{name} = chunk.{name}" for name in change.values)
        self._execute(
            f"UPDATE {sql.TABLE} JOIN JSON_TABLE(%s, '$[*]' COLUMNS ({KEY} BIGINT PATH '$[0]', {kinds})) AS chunk "
            f"ON {sql.TABLE}.{KEY} = chunk.{KEY} SET {changed}",
            (json.dumps(list(zip(*lists, strict=True))),),
        )

    def close(self) -> None:
        self._connection.close()
