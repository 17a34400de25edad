"""chDB through the port `series`: a table of ClickHouse's ReplacingMergeTree, which keeps the last of those with one
key when it merges parts; until then FINAL finds the last. Names are a column of their own, with a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.engines.chdb.opener import ChDB
from dyno.suites.series import samples
from dyno.suites.series.port import FIELDS, Buckets, SampleBatch, Samples

TABLE, WHOLE = "samples", "samples FINAL"
# "Codecs for time series" of its documentation: differences of differences of times, and XOR of values.
CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (pv LowCardinality(String), ts Int64 CODEC(DoubleDelta, LZ4), "
    "val Float64 CODEC(Gorilla, LZ4), stat Int16, sevr Int16) "
    "ENGINE = ReplacingMergeTree ORDER BY (pv, ts) SETTINGS {settings}"
)
OF_ONE = "ts, val, stat, sevr"
LATEST = f"SELECT pv, max(ts), argMax(val, ts), argMax(stat, ts), argMax(sevr, ts) FROM {WHOLE} GROUP BY pv"
PIECE = 65_536
"""Rows of all that are looked at together."""


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: ChDB, names: Sequence[str]) -> None:
        import pyarrow

        self._ask, self._streamed = engine.ask, engine.session.send_query
        # Of names their numbers and a dictionary come back, and not each name.
        self._ask("SET output_format_arrow_low_cardinality_as_dictionary = 1")
        self._ask("SET output_format_arrow_string_as_string = 1")
        self._ask(CREATE.format(settings=engine.durable))
        self._names, self._texts = names, pyarrow.array(names)
        self._at = {name: number for number, name in enumerate(names)}
        self._insert = f"INSERT INTO {TABLE} SELECT {', '.join(FIELDS)} FROM Python(chunk)"

    def insert(self, batch: SampleBatch) -> None:
        import pyarrow

        # It looks for the name that the statement has among the variables here.
        chunk = pyarrow.table({**batch._asdict(), "pv": self._texts.take(pyarrow.array(batch.pv))})  # noqa: F841
        self._ask(self._insert)

    def settle(self) -> None:
        """A part can be read when its insert returns."""

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._found(f"SELECT 1 FROM {TABLE} WHERE {self._of(pv)} AND ts = {ts} LIMIT 1", 1))

    def _of(self, pv: int) -> str:
        return "pv = '{}'".format(self._names[pv].replace("\\", "\\\\").replace("'", "\\'"))

    def _found(self, statement: str, count: int) -> Sequence[Any]:
        """Columns; none where there are no rows."""
        table = self._ask(statement, "ArrowTable")
        return [column.to_numpy() for column in table.columns] if table.num_rows else []

    def _samples(self, condition: str) -> Samples:
        found = self._found(f"SELECT {OF_ONE} FROM {WHOLE} WHERE {condition} ORDER BY ts", 4)
        return samples.samples(found or [()] * 4)

    def one(self, pv: int) -> Samples:
        return self._samples(self._of(pv))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._samples(f"{self._of(pv)} AND ts >= {start} AND ts < {end}")

    def all(self) -> Iterator[SampleBatch]:
        with self._streamed(f"SELECT {', '.join(FIELDS)} FROM {WHOLE}", "Arrow") as found:
            for piece in found.record_batch(PIECE):
                yield self._batch(piece)

    def _batch(self, piece: Any) -> SampleBatch:
        names, *rest = piece.schema.names
        return samples.batch_of_table(piece, names, rest, self._at)

    def latest(self) -> SampleBatch:
        table = self._ask(LATEST, "ArrowTable")
        return self._batch(table) if table.num_rows else samples.batch([()] * 5)

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        found = self._found(
            f"SELECT intDiv(ts, {bucket}) * {bucket} AS begins, avg(val), min(val), max(val) FROM {WHOLE} "
            f"WHERE {self._of(pv)} AND ts >= {start} AND ts < {end} GROUP BY begins ORDER BY begins",
            4,
        )
        return samples.buckets(found or [()] * 4)

    def close(self) -> None:
        pass
