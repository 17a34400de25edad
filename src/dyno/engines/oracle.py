"""Oracle Database by python-oracledb: a user's own server. Nobody has run it here.

It has the port `series` alone: an index-organized table of variable and time. A batch goes into a temporary table by
`executemany`, which its makers recommend for many rows, and from there where it belongs by MERGE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.host.installation import version
from dyno.servers import namespace, user_server
from dyno.servers.user_server import URL, UserServer
from dyno.suites.series import samples, sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries
from dyno.text.passwords import mask_password

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Its default: a commit waits until the log is written.
    Tier.POWER: {"commit_logging": "IMMEDIATE", "commit_wait": "WAIT"},
}
EXISTS = 955
"""ORA-00955: the name is used by an object that is there."""
COLUMNS = (
    "pv NUMBER(10) NOT NULL, ts NUMBER(19) NOT NULL, val BINARY_DOUBLE NOT NULL, stat NUMBER(5) NOT NULL, "
    "sevr NUMBER(5) NOT NULL"
)
KINDS = ("samples", "variables", "batch")


class Oracle:
    """Tables of the address's user, whose names tell the store."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._url, self.tables = server.url, tables(home)
        self.connection = connect(server.url)
        self._settings = {name.lower(): value for name, value in TIERS[tier].items()}
        for name, value in TIERS[tier].items():
            self.connection.cursor().execute(f"ALTER SESSION SET {name} = '{value}'")

    def close(self) -> None:
        self.connection.close()

    def version(self) -> str:
        return f"Oracle {self.connection.version} (python-oracledb {version('oracledb')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {**self._settings, "transport": "url", "tls": False}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield from user_server.caveats(False)
        changed = ", ".join(f"{name}={value}" for name, value in self._settings.items())
        yield Caveat("session", f"sets {changed} for its own session: the server's settings have no effect")


def connect(url: str) -> Any:
    """Raises Refused."""
    import oracledb

    parts = urlsplit(url)
    if not (parts.username and parts.hostname):
        raise Refused("wants the address of a server: -e oracle:url=oracle://user:password@host/service")
    if parts.query:
        raise Refused(f"{mask_password(url)}: unknown argument {parts.query.partition('=')[0]!r}; none is known")
    dsn = f"{parts.hostname}:{parts.port or 1521}{parts.path}"
    try:
        return oracledb.connect(user=unquote(parts.username), password=unquote(parts.password or ""), dsn=dsn)
    except oracledb.Error as error:
        raise Refused(f"can't connect to {mask_password(url)}: {' '.join(str(error).split())}") from None


def tables(home: Path) -> Mapping[str, str]:
    """What the tables of a store are called."""
    return {kind: f"{namespace.of(home)}_{kind}" for kind in KINDS}


def removal(name: str, options: Mapping[str, Value]) -> str:
    """By statements: SQL*Plus takes none on its command line."""
    return "; ".join(f"DROP TABLE {name}_{kind} PURGE" for kind in KINDS)


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    connection = connect(server.url)
    with connection.cursor() as cursor:
        for table in tables(home).values():
            cursor.execute(f"DROP TABLE IF EXISTS {table} PURGE")
    connection.close()


class Series(SqlSeries):
    """See `dyno.suites.series.port.Series`."""

    begins = "ts - MOD(ts, {bucket})"

    def __init__(self, engine: Oracle, names: Sequence[str]) -> None:
        self._connection, self._tables = engine.connection, engine.tables
        self._cursor = self._connection.cursor()
        self._cursor.arraysize = sql.ROWS
        self._make(f"{self._tables['samples']} ({COLUMNS}, PRIMARY KEY (pv, ts)) ORGANIZATION INDEX")
        self._make(f"{self._tables['variables']} (id NUMBER(10) NOT NULL, name VARCHAR2(60) NOT NULL)")
        self._make(f"{self._tables['batch']} ({COLUMNS}) ON COMMIT DELETE ROWS", "GLOBAL TEMPORARY ")
        known = dict(self._run(sql.NAMES).fetchall())
        if new := sql.missing_names(names, known):
            self._cursor.executemany(self._named(sql.add_name("?")), new)
            self._connection.commit()
        self._insert = self._named("INSERT INTO batch VALUES (?, ?, ?, ?, ?)")
        values = ", ".join(f"s.{name} = b.{name}" for name in FIELDS[2:])
        self._merge = self._named(
            f"MERGE INTO samples s USING batch b ON (s.pv = b.pv AND s.ts = b.ts) "
            f"WHEN MATCHED THEN UPDATE SET {values} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(FIELDS)}) VALUES ({', '.join(f'b.{name}' for name in FIELDS)})"
        )
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def _named(self, statement: str) -> str:
        """With the store's own names of tables, for those that the suite has, and values by their numbers."""
        words = (self._tables.get(word, word) for word in statement.split(" "))
        number = count(1)
        return re.sub(r"\?", lambda _: f":{next(number)}", " ".join(words))

    def _make(self, table: str, kind: str = "") -> None:
        import oracledb

        try:
            self._cursor.execute(f"CREATE {kind}TABLE {table}")
        except oracledb.DatabaseError as error:
            if error.args[0].code != EXISTS:
                raise

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        self._cursor.execute(self._named(statement), values)
        return self._cursor

    def insert(self, batch: SampleBatch) -> None:
        import oracledb

        # A float goes as a decimal number otherwise.
        self._cursor.setinputsizes(None, None, oracledb.DB_TYPE_BINARY_DOUBLE, None, None)
        self._cursor.executemany(self._insert, list(samples.rows_of(self.stored(batch))))
        self._cursor.execute(self._merge)
        self._connection.commit()

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return samples.columns_of(self._run(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        found = self._run(sql.ALL)
        while rows := found.fetchmany(sql.ROWS):
            yield self.batch(samples.columns_of(rows))

    def close(self) -> None:
        self._cursor.close()


ENGINE = EngineSpec(
    name="oracle",
    title="Oracle Database, a SQL server (python-oracledb)",
    opener=Oracle,
    ports={"series": PortSpec(Series, clients="one")},
    tiers=TIERS,
    default_tier=Tier.POWER,
    modules=("oracledb",),
    requires=("oracledb>=2",),
    options=(user_server.setting("oracle"),),
    server=lambda home, tier, options, clients: UserServer(str(options[URL])),
    remove=remove,
    removal=removal,
    needs=lambda options: None if options[URL] else "needs an Oracle server of your own: name it with url=",
    by_default=False,
    untested="no Oracle server could be had where Dyno is made: nobody has run a statement of it",
)
