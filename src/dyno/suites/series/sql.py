"""Archives in SQL: the statements that engines share, and the reading half of the port. Depends on no engine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dyno.contracts.cleanup import transaction
from dyno.suites.series import samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples
from dyno.suites.series.samples import VariableIds

TABLE, DIRECTORY = "samples", "variables"
FIELDS = "ts, val, stat, sevr"
ROWS = 65_536
"""Number of rows fetched at a time when all samples are read."""


class Types(NamedTuple):
    """The engine's names for the types of the columns."""

    name: str
    id: str
    ts: str
    val: str
    small: str


def create_names(types: Types, suffix: str = "") -> str:
    """Returns the statement that creates the table of variables: their names, and ids from 0 up."""
    columns = f"id {types.id} NOT NULL, name {types.name} NOT NULL"
    return f"CREATE TABLE IF NOT EXISTS {DIRECTORY} ({columns}) {suffix}".rstrip()


def create(types: Types, suffix: str = "", key: str = "PRIMARY KEY (pv, ts)") -> str:
    """Returns the statement that creates the table of samples, by default with variable and time as its key."""
    columns = (
        f"pv {types.id} NOT NULL, ts {types.ts} NOT NULL, val {types.val} NOT NULL, "
        f"stat {types.small} NOT NULL, sevr {types.small} NOT NULL"
    )
    return f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}{', ' if key else ''}{key}) {suffix}".rstrip()


NAMES = f"SELECT id, name FROM {DIRECTORY}"


def add_name(mark: str) -> str:
    return f"INSERT INTO {DIRECTORY} VALUES ({mark}, {mark})"


def missing_names(names: Sequence[str], known: Mapping[int, str]) -> list[tuple[int, str]]:
    """Returns the names to add to the table of variables, with the next ids."""
    present = set(known.values())
    return list(enumerate((name for name in names if name not in present), len(known)))


ALL = f"SELECT pv, {FIELDS} FROM {TABLE}"
LATEST_BY_GROUPS = (
    f"SELECT pv, MAX(ts), ARG_MAX(val, ts), ARG_MAX(stat, ts), ARG_MAX(sevr, ts) FROM {TABLE} GROUP BY pv"
)
"""Query for the last samples, for column stores, which read a whole column."""
LATEST_BY_SEEKS = (
    f"SELECT s.pv, s.ts, s.val, s.stat, s.sevr FROM {DIRECTORY} v JOIN {TABLE} s "
    f"ON s.pv = v.id AND s.ts = (SELECT MAX(ts) FROM {TABLE} WHERE pv = v.id)"
)
"""Query for the last samples, for engines with an index on variable and time: one seek per variable."""
LATEST_BY_SKIPS = (
    f"SELECT s.pv, s.ts, s.val, s.stat, s.sevr FROM (SELECT pv, MAX(ts) AS ts FROM {TABLE} GROUP BY pv) v "
    f"JOIN {TABLE} s ON s.pv = v.pv AND s.ts = v.ts"
)
"""Query for the last samples, for engines that skip from variable to variable in such an index when they group."""


class SqlSeries:
    """The reading half of `dyno.suites.series.port.Series`. Subclasses set `_connection` and `_execute`, create the
    tables, and add `insert`."""

    _connection: Any
    _execute: Callable[..., Any]

    mark = "?"
    begins = "ts / {bucket} * {bucket}"
    last = LATEST_BY_SEEKS
    """Placeholder for a value, expression for the start of a time's bucket (by integer division), and query for the
    last sample of each variable."""
    table = TABLE
    """Table of the queries, with what the engine adds to its name."""

    def __init__(self, numbers: VariableIds) -> None:
        self.numbers = numbers
        mark = self.mark
        self._seen = f"SELECT 1 FROM {TABLE} WHERE pv = {mark} AND ts = {mark}"
        self._one = f"SELECT {FIELDS} FROM {self.table} WHERE pv = {mark} ORDER BY ts"
        self._within = f"FROM {self.table} WHERE pv = {mark} AND ts >= {mark} AND ts < {mark}"

    def add_names(self, names: Sequence[str], begin: str = "BEGIN") -> VariableIds:
        """Adds those names to the table of variables that it doesn't have yet, and returns the ids of all."""
        with transaction(self._execute, begin):
            known = dict(self._execute(NAMES).fetchall())
            new = missing_names(names, known)
            for pair in new:
                self._execute(add_name(self.mark), pair)
        return VariableIds(names, [*known.items(), *new])

    def columns(self, statement: str, values: Sequence[object], count: int) -> Sequence[Sequence[Any]]:
        """Returns the statement's result as `count` columns."""
        return samples.columns_of(self._execute(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        cursor = self._execute(ALL)
        while rows := cursor.fetchmany(ROWS):
            yield self.batch(samples.columns_of(rows))

    def close(self) -> None:
        self._connection.close()

    def settle(self) -> None:
        """Does nothing, since committed samples are readable at once."""

    def seen(self, pv: int, ts: int) -> bool:
        return len(self.columns(self._seen, (self.numbers.one(pv), ts), 1)[0]) > 0

    def one(self, pv: int) -> Samples:
        return samples.samples(self.columns(self._one, (self.numbers.one(pv),), 4))

    def window(self, pv: int, start: int, end: int) -> Samples:
        statement = f"SELECT {FIELDS} {self._within} ORDER BY ts"
        return samples.samples(self.columns(statement, (self.numbers.one(pv), start, end), 4))

    def latest(self) -> SampleBatch:
        return self.batch(self.columns(self.last, (), 5))

    def batch(self, columns: Sequence[object]) -> SampleBatch:
        """Returns a batch from columns with the store's ids."""
        return samples.batch([self.numbers.from_store(columns[0]), *columns[1:]])

    def with_store_ids(self, given: SampleBatch) -> SampleBatch:
        """Returns the batch with the store's ids in place of the port's numbers."""
        return given._replace(pv=self.numbers.to_store(given.pv))

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        begin = self.begins.format(bucket=bucket)
        statement = f"SELECT {begin}, AVG(val), MIN(val), MAX(val) {self._within} GROUP BY {begin} ORDER BY {begin}"
        return samples.buckets(self.columns(statement, (self.numbers.one(pv), start, end), 4))
