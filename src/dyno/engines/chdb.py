"""chDB: ClickHouse inside the process, with a table of its MergeTree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, Gap, PortSpec
from dyno.model import Caveat, Tier, Value
from dyno.settings import Setting, integer
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import BY_NAME, KEY, NAMES, Change, Chunk

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A part is written under another name, and gets its own when it is whole.
    Tier.PROCESS: {"fsync_after_insert": 0, "fsync_part_directory": 0},
}
TYPES = {"id": "UInt64", "double": "Float64", "flag": "Int8", "time": "DateTime('UTC')", "text": "String"}
DATABASE = "arrays"


class ChDB:
    """One session, which has the process's engine: there can be no other at the time."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from chdb import session

        self._path, self._tier = home / "chdb", TIERS[tier]
        opened: Any = session.Session
        self.session = opened(str(self._path))
        self.ask(f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Atomic")
        self.ask(f"USE {DATABASE}")
        if options["threads"]:
            self.ask(f"SET max_threads = {options['threads']}")
        # An update returns when it is done.
        self.ask("SET mutations_sync = 1")
        settings = ", ".join(f"{name} = {value}" for name, value in self._tier.items())
        self.ask(sql.create(TYPES, f" ENGINE = MergeTree ORDER BY {KEY} SETTINGS {settings}", key=False))

    def ask(self, statement: str, form: str = "CSV") -> Any:
        return self.session.query(statement, form)

    def close(self) -> None:
        self.session.close()

    def version(self) -> str:
        return f"ClickHouse {self._one('SELECT version()')} (chdb {version('chdb')})"

    def _one(self, statement: str) -> str:
        return str(self.ask(statement, "TSVRaw").data()).strip()

    def settings(self) -> Mapping[str, Value | None]:
        threads = self._one("SELECT value FROM system.settings WHERE name = 'max_threads'")
        return {**self._tier, "max_threads": threads}

    def files(self) -> Iterable[Path]:
        """Of the table: what the server logs and knows of itself is beside it."""
        return [path for path in (self._path / "store").rglob("*") if path.is_file()]

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Arrays:
    """The `arrays` port."""

    def __init__(self, engine: ChDB) -> None:
        self._ask = engine.ask
        self._insert = f"INSERT INTO {sql.TABLE} SELECT {', '.join(NAMES)} FROM Python(chunk)"

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        yield self._write

    def _write(self, given: Chunk) -> None:
        # It looks for the name that the statement has among the variables here.
        chunk = columns.table(given)  # noqa: F841
        self._ask(self._insert)

    def _table(self, statement: str) -> Any:
        return self._ask(statement, "ArrowTable")

    def sum(self, column: str) -> int | float:
        found = self._table(f"SELECT sum({column}) FROM {sql.TABLE}").column(0)[0].as_py()
        return int(found) if BY_NAME[column].exact else float(found)

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        # The stable one: the other subtracts what is nearly the same.
        wanted = ", ".join(f"avg({name}) AS m{n}, stddevPopStable({name}) AS d{n}" for n, name in enumerate(names))
        found = [column[0].as_py() for column in self._table(f"SELECT {wanted} FROM {sql.TABLE}").columns]
        return list(zip(found[::2], found[1::2], strict=True))

    def slice(self, rows: range) -> Chunk:
        first, last = sql.numbers(rows)
        return columns.of_table(self._table(sql.slice_of("{}").format(first, last)))

    def frame(self, names: Sequence[str]) -> Any:
        return self._ask(sql.frame_of(names), "DataFrame")

    def update(self, change: Change) -> None:
        """By a mutation, which writes the columns of the part anew: rows that follow each other have their values in
        a list."""
        changed = ", ".join(
            f"{name} = arrayElement({values.tolist()}, {KEY} - {change.start})"
            for name, values in change.values.items()
        )
        self._ask(
            f"ALTER TABLE {sql.TABLE} UPDATE {changed} WHERE {KEY} BETWEEN {change.start + 1} AND {change.stop}"
        )

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="chdb",
    title="chDB, ClickHouse in the process",
    opener=ChDB,
    ports={
        "arrays": PortSpec(
            Arrays,
            gaps=(
                Gap("atomicity", "unsupported", "each chunk is an insert of its own, and there are no transactions"),
            ),
        )
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("chdb", "pandas", "pyarrow"),
    requires=("chdb>=3", "pandas>=2.0", "pyarrow>=15"),
    options=(Setting("threads", integer(0, 1024), 0, "threads of a query; 0 for ClickHouse's default"),),
)
