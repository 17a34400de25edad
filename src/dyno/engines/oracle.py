"""Oracle Database through python-oracledb, on the user's own server. This engine has never been run.

The port `series` is the only one. Samples are in an index-organized table of variable and time. A batch is inserted
into a temporary table by `executemany`, which Oracle recommends for many rows, and from there by MERGE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.host.installation import version
from dyno.servers import loopback, user_server
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL
from dyno.suites.series import samples, sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries

if TYPE_CHECKING:
    import oracledb

    from dyno.servers.listen import StoreServer
    from dyno.servers.loopback import Address

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Oracle's default: a commit waits until the log is written.
    Tier.POWER: {"commit_logging": "IMMEDIATE", "commit_wait": "WAIT"},
}
EXISTS = 955
"""Number of the error ORA-00955: the name is used by an existing object."""
MISSING = 942
"""Number of the error ORA-00942: there is no such table."""
COLUMNS = (
    "pv NUMBER(10) NOT NULL, ts NUMBER(19) NOT NULL, val BINARY_DOUBLE NOT NULL, stat NUMBER(5) NOT NULL, "
    "sevr NUMBER(5) NOT NULL"
)
KINDS = ("samples", "variables", "batch")


class Oracle(ServerStore):
    """A store in tables of the URL's user. Their names begin with the store's name."""

    @classmethod
    def open_client(cls, server: StoreServer[Address], options: Mapping[str, Value]) -> oracledb.Connection:
        return connect(server)

    @classmethod
    def drop(cls, client: oracledb.Connection, name: str) -> None:
        # Only Oracle 23ai and later have IF EXISTS.
        for kind in KINDS:
            execute_unless(MISSING, client.cursor(), f"DROP TABLE {name}_{kind} PURGE")

    def create(self) -> None:
        self.tables = {kind: f"{self.name}_{kind}" for kind in KINDS}
        for name, value in TIERS[self.tier].items():
            self.client.cursor().execute(f"ALTER SESSION SET {name} = '{value}'")

    def version(self) -> str:
        return f"Oracle {self.client.version} (python-oracledb {version('oracledb')})"

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        return TIERS[self.tier]

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        changed = ", ".join(f"{name}={value}" for name, value in TIERS[self.tier].items())
        yield Caveat("session", f"sets {changed} for its own session: the server's settings have no effect")

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
        # Return SQL statements, because SQL*Plus accepts none on its command line.
        return "; ".join(f"DROP TABLE {name}_{kind} PURGE" for kind in KINDS)


def connect(server: StoreServer[Address]) -> oracledb.Connection:
    """Returns a connection to the server. Raises Refused."""
    at = server.address
    import oracledb

    try:
        return oracledb.connect(user=at.user, password=at.password, dsn=f"{at.host}:{at.port}{at.path}")
    except oracledb.Error as error:
        raise user_server.unreachable_error(server, error) from None


def execute_unless(number: int, cursor: oracledb.Cursor, statement: str) -> None:
    """Executes a statement, of which the error of this number is no failure."""
    import oracledb

    try:
        cursor.execute(statement)
    except oracledb.DatabaseError as error:
        if error.args[0].code != number:
            raise


class Series(SqlSeries):
    """See `dyno.suites.series.port.Series`."""

    begins = "ts - MOD(ts, {bucket})"

    def __init__(self, engine: Oracle, names: Sequence[str]) -> None:
        self._connection, self._tables = engine.client, engine.tables
        self._cursor = self._connection.cursor()
        self._cursor.arraysize = sql.ROWS
        self._create(f"{self._tables['samples']} ({COLUMNS}, PRIMARY KEY (pv, ts)) ORGANIZATION INDEX")
        self._create(f"{self._tables['variables']} (id NUMBER(10) NOT NULL, name VARCHAR2(60) NOT NULL)")
        self._create(f"{self._tables['batch']} ({COLUMNS}) ON COMMIT DELETE ROWS", "GLOBAL TEMPORARY ")
        known = dict(self._execute(sql.NAMES).fetchall())
        if new := sql.missing_names(names, known):
            self._cursor.executemany(self._fill_in_names(sql.add_name("?")), new)
            self._connection.commit()
        self._insert = self._fill_in_names("INSERT INTO batch VALUES (?, ?, ?, ?, ?)")
        values = ", ".join(f"s.{name} = b.{name}" for name in FIELDS[2:])
        self._merge = self._fill_in_names(
            f"MERGE INTO samples s USING batch b ON (s.pv = b.pv AND s.ts = b.ts) "
            f"WHEN MATCHED THEN UPDATE SET {values} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(FIELDS)}) VALUES ({', '.join(f'b.{name}' for name in FIELDS)})"
        )
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def _fill_in_names(self, statement: str) -> str:
        """Returns the statement with the names of the store's tables and with numbered parameters."""
        words = (self._tables.get(word, word) for word in statement.split(" "))
        number = count(1)
        return re.sub(r"\?", lambda _: f":{next(number)}", " ".join(words))

    def _create(self, table: str, kind: str = "") -> None:
        execute_unless(EXISTS, self._cursor, f"CREATE {kind}TABLE {table}")

    def _execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        self._cursor.execute(self._fill_in_names(statement), values)
        return self._cursor

    def insert(self, batch: SampleBatch) -> None:
        import oracledb

        # By default, floats are sent as decimal numbers.
        self._cursor.setinputsizes(None, None, oracledb.DB_TYPE_BINARY_DOUBLE, None, None)
        self._cursor.executemany(self._insert, list(samples.iterate_rows(self.with_store_ids(batch))))
        self._cursor.execute(self._merge)
        self._connection.commit()

    def close(self) -> None:
        self._cursor.close()


ENGINE = server_engine(
    Oracle,
    name="oracle",
    title="Oracle Database, a SQL server (python-oracledb)",
    schemes=("oracle",),
    address=partial(loopback.of_url, port=1_521, secure=()),
    installation=Installation(
        needs=lambda options: None if options[URL] else "needs an Oracle server of your own: name it with url=",
        modules=("oracledb",),
        requires=("oracledb>=2",),
    ),
    ports={"series": PortSpec(Series, clients="one")},
    tiers=TIERS,
    untested="no Oracle server could be had where Dyno is made: nobody has run a statement of it",
)
