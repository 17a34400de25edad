"""chDB: ClickHouse inside the process, with MergeTree tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.counters import CounterSpec
from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.clickhouse.counters import EVENTS, NONE_YET, QUERY, SOURCE
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.suites.arrays import columns as array_columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk
from dyno.suites.series import port, samples
from dyno.suites.series.port import FIELDS, Buckets, SampleBatch, Samples

if TYPE_CHECKING:
    import pandas
    import pyarrow

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A part is written under a temporary name, and renamed when it is complete.
    Tier.PROCESS: {"fsync_after_insert": 0, "fsync_part_directory": 0},
}
DATABASE = "dyno"


class ChDB(Engine):
    """chDB's session. A process can have only one at a time."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from chdb import session

        self._path, self._tier = home / "chdb", TIERS[tier]
        opened: Any = session.Session
        self.session = opened(str(self._path))
        self.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Atomic")
        self.query(f"USE {DATABASE}")
        if options["threads"]:
            self.query(f"SET max_threads = {options['threads']}")
        # Make an update return only when it is complete.
        self.query("SET mutations_sync = 1")

    @property
    def durable(self) -> str:
        """Table settings that give the tier, as SQL."""
        return ", ".join(f"{name} = {value}" for name, value in self._tier.items())

    def query(self, statement: str, form: str = "CSV") -> Any:
        return self.session.query(statement, form)

    def merge(self) -> None:
        """Merges all parts of each table, as ClickHouse eventually does in the background."""
        for name in self._value("SHOW TABLES").splitlines():
            self.query(f"OPTIMIZE TABLE {name} FINAL")

    def close(self) -> None:
        self.session.close()

    def version(self) -> str:
        return f"ClickHouse {self._value('SELECT version()')} (chdb {version('chdb')})"

    def _value(self, statement: str) -> str:
        return str(self.query(statement, "TSVRaw").data()).strip()

    def events(self) -> Mapping[str, int]:
        """Returns how often each event has happened in this process."""
        rows = (line.split("\t") for line in self._value(QUERY).splitlines())
        return {**NONE_YET, **{name: int(count) for name, count in rows}}

    def settings(self) -> Mapping[str, Value | None]:
        threads = self._value("SELECT value FROM system.settings WHERE name = 'max_threads'")
        return {**self._tier, "max_threads": threads}

    def files(self) -> Iterable[Path]:
        """Returns the files of active parts only. Merged parts stay on disk for some minutes."""
        parts = self._value(f"SELECT path FROM system.parts WHERE active AND database = '{DATABASE}'")
        return filesystem.files(*map(Path, parts.splitlines()))


ARRAY_TYPES = {"id": "UInt64", "double": "Float64", "flag": "Int8", "time": "DateTime('UTC')", "text": "String"}


class Arrays(array_sql.SqlArrays):
    """The port `arrays` on a MergeTree table that is ordered by row number."""

    mean = "avg({})"
    # stddevPop is imprecise, because it subtracts nearly equal numbers.
    deviation = "stddevPopStable({})"

    def __init__(self, engine: ChDB) -> None:
        self._query = engine.query
        self._query(
            array_sql.create(ARRAY_TYPES, f" ENGINE = MergeTree ORDER BY {KEY} SETTINGS {engine.durable}", key=False)
        )
        self._insert = f"INSERT INTO {array_sql.TABLE} SELECT {', '.join(NAMES)} FROM Python(chunk)"

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        def write(rows: Chunk) -> None:
            # The statement names this local variable, which chDB looks up.
            chunk = array_columns.table(rows)  # noqa: F841
            self._query(self._insert)

        yield write

    def row(self, statement: str) -> list[object]:
        return [column[0].as_py() for column in self._query(statement, "ArrowTable").columns]

    def slice(self, rows: range) -> Chunk:
        first, last = array_sql.numbers(rows)
        return array_columns.of_table(self._query(array_sql.slice_of("{}").format(first, last), "ArrowTable"))

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        return self._query(array_sql.frame_of(names), "DataFrame")

    def update(self, change: Change) -> None:
        """Runs a mutation, which rewrites whole columns of a part. Values are array literals."""
        values = ", ".join(
            f"{name} = arrayElement({array.tolist()}, {KEY} - {change.start})"
            for name, array in change.values.items()
        )
        self._query(
            f"ALTER TABLE {array_sql.TABLE} UPDATE {values} WHERE {KEY} BETWEEN {change.start + 1} AND {change.stop}"
        )


SAMPLES, WHOLE = "samples", "samples FINAL"
# ClickHouse's documentation advises these codecs for time series.
CREATE_SAMPLES = (
    f"CREATE TABLE IF NOT EXISTS {SAMPLES} (pv LowCardinality(String), ts Int64 CODEC(DoubleDelta, LZ4), "
    "val Float64 CODEC(Gorilla, LZ4), stat Int16, sevr Int16) "
    "ENGINE = ReplacingMergeTree ORDER BY (pv, ts) SETTINGS {settings}"
)
OF_ONE = "ts, val, stat, sevr"
LATEST = f"SELECT pv, max(ts), argMax(val, ts), argMax(stat, ts), argMax(sevr, ts) FROM {WHOLE} GROUP BY pv"
PIECE = 65_536
"""Number of rows in a batch that `all` yields."""


class Series(port.Series):
    """The port `series` on a ReplacingMergeTree table. Its merges keep the last row of a key; until a merge, FINAL
    selects that row. Names are a dictionary-encoded column."""

    def __init__(self, engine: ChDB, names: Sequence[str]) -> None:
        import pyarrow

        self._query, self._stream = engine.query, engine.session.send_query
        # Return names as indices into a dictionary.
        self._query("SET output_format_arrow_low_cardinality_as_dictionary = 1")
        self._query("SET output_format_arrow_string_as_string = 1")
        self._query(CREATE_SAMPLES.format(settings=engine.durable))
        self._names, self._texts = names, pyarrow.array(names)
        self._at = {name: number for number, name in enumerate(names)}
        self._insert = f"INSERT INTO {SAMPLES} SELECT {', '.join(FIELDS)} FROM Python(chunk)"

    def insert(self, batch: SampleBatch) -> None:
        import pyarrow

        # The statement names this local variable, which chDB looks up.
        chunk = pyarrow.table({**batch._asdict(), "pv": self._texts.take(pyarrow.array(batch.pv))})  # noqa: F841
        self._query(self._insert)

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._columns(f"SELECT 1 FROM {SAMPLES} WHERE {self._name_condition(pv)} AND ts = {ts} LIMIT 1"))

    def _name_condition(self, pv: int) -> str:
        return "pv = '{}'".format(self._names[pv].replace("\\", "\\\\").replace("'", "\\'"))

    def _columns(self, statement: str) -> Sequence[Any]:
        """Returns the columns of the result; an empty list if there are no rows."""
        table = self._query(statement, "ArrowTable")
        if table.num_rows:
            return [column.to_numpy() for column in table.columns]
        return []

    def _samples(self, condition: str) -> Samples:
        columns = self._columns(f"SELECT {OF_ONE} FROM {WHOLE} WHERE {condition} ORDER BY ts")
        return samples.samples(columns or [()] * 4)

    def one(self, pv: int) -> Samples:
        return self._samples(self._name_condition(pv))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._samples(f"{self._name_condition(pv)} AND ts >= {start} AND ts < {end}")

    def all(self) -> Iterator[SampleBatch]:
        with self._stream(f"SELECT {', '.join(FIELDS)} FROM {WHOLE}", "Arrow") as result:
            for piece in result.record_batch(PIECE):
                yield self._batch(piece)

    def _batch(self, piece: pyarrow.Table | pyarrow.RecordBatch) -> SampleBatch:
        names, *rest = piece.schema.names
        return samples.batch_of_table(piece, names, rest, self._at)

    def latest(self) -> SampleBatch:
        table = self._query(LATEST, "ArrowTable")
        if table.num_rows:
            return self._batch(table)
        return samples.batch([()] * 5)

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        columns = self._columns(
            f"SELECT intDiv(ts, {bucket}) * {bucket} AS begins, avg(val), min(val), max(val) FROM {WHOLE} "
            f"WHERE {self._name_condition(pv)} AND ts >= {start} AND ts < {end} GROUP BY begins ORDER BY begins"
        )
        return samples.buckets(columns or [()] * 4)


ENGINE = EngineSpec(
    name="chdb",
    title="chDB, ClickHouse in the process",
    opener=ChDB,
    ports={
        "arrays": PortSpec(
            "dyno.engines.chdb:Arrays",
            gaps=(
                Gap("atomicity", "unsupported", "each chunk is an insert of its own, and there are no transactions"),
            ),
        ),
        "series": PortSpec("dyno.engines.chdb:Series"),
    },
    tiers=TIERS,
    installation=Installation(
        modules=("chdb", "pandas", "pyarrow"), requires=("chdb>=3", "pandas>=2.0", "pyarrow>=15")
    ),
    versions=Versions((Wheel("chdb"),)),
    options=(Setting("threads", integer(0, 1024), 0, "threads of a query; 0 for ClickHouse's default"),),
    counters=CounterSpec(SOURCE, EVENTS, ChDB.events),
    crashes=CrashSpec(Maintenance("merge of all parts", ChDB.merge)),
)
