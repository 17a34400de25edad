"""chDB through the port `series`: a ReplacingMergeTree, whose merges keep the last row of a key.

Until a merge, FINAL selects it. Names of variables are a dictionary-encoded column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.engines.chdb import ChDB
from dyno.suites.series import port, samples
from dyno.suites.series.port import FIELDS, Buckets, SampleBatch, Samples

TABLE, WHOLE = "samples", "samples FINAL"
# Codecs as ClickHouse's documentation advises for time series.
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (pv LowCardinality(String), ts Int64 CODEC(DoubleDelta, LZ4), "
    "val Float64 CODEC(Gorilla, LZ4), stat Int16, sevr Int16) "
    "ENGINE = ReplacingMergeTree ORDER BY (pv, ts) SETTINGS {settings}"
)
OF_ONE = "ts, val, stat, sevr"
LATEST = f"SELECT pv, max(ts), argMax(val, ts), argMax(stat, ts), argMax(sevr, ts) FROM {WHOLE} GROUP BY pv"
PIECE = 65_536
"""Rows of a piece of `all`."""


class Series(port.Series):
    def __init__(self, engine: ChDB, names: Sequence[str]) -> None:
        import pyarrow

        self._query, self._stream = engine.query, engine.session.send_query
        # Names come as indices with a dictionary.
        self._query("SET output_format_arrow_low_cardinality_as_dictionary = 1")
        self._query("SET output_format_arrow_string_as_string = 1")
        self._query(CREATE.format(settings=engine.durable))
        self._names, self._texts = names, pyarrow.array(names)
        self._at = {name: number for number, name in enumerate(names)}
        self._insert = f"INSERT INTO {TABLE} SELECT {', '.join(FIELDS)} FROM Python(chunk)"

    def insert(self, batch: SampleBatch) -> None:
        import pyarrow

        # chDB finds the local variable by the name in the statement.
        chunk = pyarrow.table({**batch._asdict(), "pv": self._texts.take(pyarrow.array(batch.pv))})  # noqa: F841
        self._query(self._insert)

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._columns(f"SELECT 1 FROM {TABLE} WHERE {self._of(pv)} AND ts = {ts} LIMIT 1"))

    def _of(self, pv: int) -> str:
        return "pv = '{}'".format(self._names[pv].replace("\\", "\\\\").replace("'", "\\'"))

    def _columns(self, statement: str) -> Sequence[Any]:
        """Columns of the result; none without rows."""
        table = self._query(statement, "ArrowTable")
        return [column.to_numpy() for column in table.columns] if table.num_rows else []

    def _samples(self, condition: str) -> Samples:
        columns = self._columns(f"SELECT {OF_ONE} FROM {WHOLE} WHERE {condition} ORDER BY ts")
        return samples.samples(columns or [()] * 4)

    def one(self, pv: int) -> Samples:
        return self._samples(self._of(pv))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._samples(f"{self._of(pv)} AND ts >= {start} AND ts < {end}")

    def all(self) -> Iterator[SampleBatch]:
        with self._stream(f"SELECT {', '.join(FIELDS)} FROM {WHOLE}", "Arrow") as result:
            for piece in result.record_batch(PIECE):
                yield self._batch(piece)

    def _batch(self, piece: Any) -> SampleBatch:
        names, *rest = piece.schema.names
        return samples.batch_of_table(piece, names, rest, self._at)

    def latest(self) -> SampleBatch:
        table = self._query(LATEST, "ArrowTable")
        return self._batch(table) if table.num_rows else samples.batch([()] * 5)

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        columns = self._columns(
            f"SELECT intDiv(ts, {bucket}) * {bucket} AS begins, avg(val), min(val), max(val) FROM {WHOLE} "
            f"WHERE {self._of(pv)} AND ts >= {start} AND ts < {end} GROUP BY begins ORDER BY begins"
        )
        return samples.buckets(columns or [()] * 4)
