"""The port `series` on MariaDB and MySQL, whose statements are alike: a table that is clustered on variable and time,
and filled by LOAD DATA with REPLACE."""

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.mysql.client import load
from dyno.suites.series import samples, sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries

TYPES = sql.Types(name="VARCHAR(60)", id="INT", ts="BIGINT", val="DOUBLE", small="SMALLINT")
SUFFIX = "ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin"
LOAD = (
    f"LOAD DATA LOCAL INFILE '{{path}}' REPLACE INTO TABLE {sql.TABLE} CHARACTER SET latin1 FIELDS TERMINATED BY ',' "
    f"LINES TERMINATED BY '\\n' ({', '.join(FIELDS)})"
)


class Series(SqlSeries):
    """See `dyno.suites.series.port.Series`."""

    mark, begins, last = "%s", "ts DIV {bucket} * {bucket}", sql.LATEST_BY_SKIPS

    def __init__(self, engine: Any, names: Sequence[str]) -> None:
        self._connection = engine.connect(loading=True)
        self._execute = self._connection.execute
        self._execute(sql.create_names(TYPES, SUFFIX))
        self._execute(sql.create(TYPES, SUFFIX))
        known = dict(self._execute(sql.NAMES).fetchall())
        new = sql.missing_names(names, known)
        with transaction(self._execute):
            for pair in new:
                self._execute(sql.add_name("%s"), pair)
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute):
            loaded = load(self._connection, LOAD, samples.to_csv(self.stored(batch)))
        if loaded < len(batch.ts):
            # The server skips rows that it can't load, with only a warning, and counts rows that replace others
            # twice.
            raise ValueError(f"{loaded} of {len(batch.ts)} samples were loaded")

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return samples.columns_of(self._execute(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        for rows in self._connection.streamed(sql.ALL, sql.ROWS):
            yield self.batch(samples.columns_of(rows))

    def close(self) -> None:
        self._connection.close()
