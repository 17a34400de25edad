"""PostgreSQL by psycopg 3: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dyno.model import Caveat, EngineSpec, Refused, Server, Setting, Tier, Value, choice, integer
from dyno.passwords import concealed
from dyno.servers import foreign, namespace
from dyno.servers.foreign import URL, Foreign
from dyno.servers.postgresql import PostgreSQL, missing
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import FIELDS, SqlReader, Statements, record, transaction
from dyno.suites.records.table import opener

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A commit returns before its log is written, at most some 0.6 s later.
    Tier.VOLATILE: {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"},
    # The log is handed to the kernel at each commit. Pages torn by a loss of power are this tier's lot.
    Tier.PROCESS: {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"},
    Tier.POWER: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"},
}
SHOWN = (*TIERS[Tier.POWER], "wal_sync_method", "shared_buffers", "max_wal_size", "max_connections")
INDEXED = {name: f"reverse({name.removeprefix('rev_')})" for name in INDEXES}
STATEMENTS = Statements("%s")
INSERT = f"INSERT INTO records ({FIELDS})"
REPLACE = "ON CONFLICT (name, location) DO UPDATE SET stub = excluded.stub"
KEYS = "SELECT * FROM unnest(%s::text[], %s::text[])"
ROWS = "SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])"
RELATIONS = "FROM pg_class WHERE relnamespace = %s::regnamespace"


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return Foreign(str(options[URL]))
    settings = {name: str(value) for name, value in TIERS[tier].items()}
    return PostgreSQL(home, {**settings, "shared_buffers": f"{options['cache_mib']}MB"}, clients)


class Postgres:
    """One schema on the server; every client has a connection of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._tier, self._server, self.options = tier, server, options
        self._schema = namespace.of(home)
        self.connection = _connect(server)
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        execute = self.connection.execute
        if not self._server.own:
            _refuse(self._tier, {name: self.show(name) for name in TIERS[self._tier]})
            names = [name for (name,) in execute("SELECT nspname FROM pg_namespace").fetchall()]
            for name in namespace.abandoned(names):
                execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        self.connect(self.connection)

    def connect(self, connection: Any = None) -> Any:
        """A connection whose statements are about this store."""
        found = connection or _connect(self._server)
        found.execute(f"SET search_path = {self._schema}")
        if not self._server.own and self._tier is Tier.VOLATILE:
            found.execute("SET synchronous_commit = off")
        return found

    def show(self, name: str) -> str:
        (value,) = self.connection.execute(f"SHOW {name}").fetchone()
        return str(value)

    def close(self) -> None:
        self.connection.close()

    def version(self) -> str:
        from psycopg import pq

        server = self.show("server_version").split()[0]
        library = f"{pq.version() // 10_000}.{pq.version() % 10_000}"
        return f"PostgreSQL {server} (psycopg {version('psycopg')}, libpq {library})"

    def settings(self) -> Mapping[str, Value | None]:
        told: dict[str, Value | None] = {name: self.show(name) for name in SHOWN}
        return {**told, "client": self.options["client"], "transport": "socket" if self._server.own else "url"}

    def files(self) -> Iterable[Path]:
        """Of its tables and indexes: the log is beside them, and of a size that depends on other things."""
        if not self._server.own:
            return
        rows = self.connection.execute(f"SELECT pg_relation_filepath(oid) {RELATIONS}", (self._schema,)).fetchall()
        for path in (self._server.data / row[0] for row in rows if row[0]):
            yield path
            # Further segments of 1 GiB, the map of free space and the map of visibility.
            yield from (*path.parent.glob(f"{path.name}.*"), *path.parent.glob(f"{path.name}_*"))

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("columns", "keeps a record in columns of its own: the encoder parameter is not used")
        if self._server.own:
            yield Caveat("log-apart", "has its write-ahead log beside its tables and indexes, and not in its size")
        else:
            yield Caveat("declared", "is your own server: its tier is what its settings say, and is not proven")


def _connect(server: Any) -> Any:
    import psycopg

    try:
        if server.own:
            return psycopg.connect(**server.address, autocommit=True)
        return psycopg.connect(server.url, autocommit=True)
    except psycopg.OperationalError as error:
        where = "its server" if server.own else concealed(server.url)
        raise Refused(f"can't connect to {where}: {' '.join(str(error).split())}") from None


def _refuse(tier: Tier, found: Mapping[str, str]) -> None:
    """A user's own server is left as it is set: what it must at least give is looked at."""
    wanted = {Tier.VOLATILE: (), Tier.PROCESS: ("synchronous_commit",), Tier.POWER: tuple(found)}[tier]
    for name in wanted:
        if found[name] == "off":
            raise Refused(f"the server has {name}={found[name]}, so that it can't give tier {tier.value}")


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    connection = _connect(server)
    connection.execute(f"DROP SCHEMA IF EXISTS {namespace.of(home)} CASCADE")
    connection.close()


class Thin:
    """Statements by libpq's own prepared ones, without what psycopg does for each: adapting, a cursor, its state."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._names: dict[str, bytes] = {}

    def execute(self, statement: str, values: Iterable[str | int] = ()) -> Result:
        pgconn = self._connection.pgconn
        name = self._names.get(statement)
        if name is None:
            name = self._names[statement] = b"dyno%d" % len(self._names)
            numbered = statement
            for number in range(1, statement.count("%s") + 1):
                numbered = numbered.replace("%s", f"${number}", 1)
            _checked(pgconn.prepare(name, numbered.encode()), pgconn)
        return Result(_checked(pgconn.exec_prepared(name, [str(value).encode() for value in values]), pgconn))


class Result:
    """As much of a cursor as a reader needs, over libpq's result."""

    __slots__ = ("_found",)

    def __init__(self, found: Any) -> None:
        self._found = found

    @property
    def rowcount(self) -> int:
        return int(self._found.command_tuples or 0)

    def fetchone(self) -> tuple[str, ...] | None:
        return self._row(0) if self._found.ntuples else None

    def fetchall(self) -> list[tuple[str, ...]]:
        return [self._row(number) for number in range(self._found.ntuples)]

    def _row(self, number: int) -> tuple[str, ...]:
        value = self._found.get_value
        return tuple([value(number, column).decode() for column in range(self._found.nfields)])


def _checked(result: Any, pgconn: Any) -> Any:
    if result.status not in (1, 2):
        raise RuntimeError(pgconn.error_message.decode(errors="replace").strip())
    return result


class Table:
    """See `dyno.suites.records.table.Table`: many records go in by COPY, and are found and replaced by arrays."""

    batch = 1_000

    def __init__(self, engine: Postgres, indexed: bool) -> None:
        self._connection = connection = engine.connect()
        self._cursor = connection.cursor()
        if engine.options["client"] == "pq":
            self._execute = Thin(connection).execute
        else:
            self._execute = self._prepared
        self.reader = SqlReader(self._execute, STATEMENTS, INDEXED)
        # By bytes, as the port wants it, whatever the order that the database was made with.
        columns = ", ".join(f'{name} text COLLATE "C" NOT NULL' for name in FIELDS.split(", "))
        connection.execute(f"CREATE TABLE IF NOT EXISTS records ({columns}, PRIMARY KEY (name, location))")
        for name, what in INDEXED.items() if indexed else ():
            connection.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({what})")

    def _prepared(self, statement: str, values: Any = ()) -> Any:
        return self._cursor.execute(statement, values, prepare=True)

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self._execute)

    def insert_one(self, record: Record) -> None:
        self._execute(f"{INSERT} VALUES (%s, %s, %s)", _values(record))

    def insert_many(self, records: Iterable[Record]) -> None:
        with self._cursor.copy(f"COPY records ({FIELDS}) FROM STDIN") as copy:
            write = copy.write_row
            for one in records:
                write(_values(one))

    def store(self, records: list[Record]) -> None:
        if len(records) == 1:
            self._execute(f"{INSERT} VALUES (%s, %s, %s) {REPLACE}", _values(records[0]))
        else:
            columns = [list(column) for column in zip(*map(_values, records), strict=True)]
            self._prepared(f"{INSERT} {ROWS} {REPLACE}", columns)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._prepared(f"SELECT {FIELDS} FROM records WHERE (name, location) IN ({KEYS})", _columns(keys))
        return {(row[0], row[1]): record(row) for row in rows.fetchall()}

    def delete_one(self, key: Key) -> bool:
        return bool(self._execute(STATEMENTS.delete, key).rowcount == 1)

    def delete_many(self, keys: list[Key]) -> None:
        self._prepared(f"DELETE FROM records WHERE (name, location) IN ({KEYS})", _columns(keys))

    def close(self) -> None:
        self._connection.close()


def _values(record: Record) -> tuple[str, str, str]:
    return record["name"], record["location"], record["stub"]


def _columns(keys: list[Key]) -> list[list[str]]:
    return [[name for name, _ in keys], [location for _, location in keys]]


ENGINE = EngineSpec(
    name="postgresql",
    title="PostgreSQL, a SQL server (psycopg)",
    opener=Postgres,
    ports={"records": opener(Table)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("psycopg",),
    install="pip install 'psycopg[binary]'",
    options=(
        foreign.setting("postgresql", "postgres"),
        Setting("client", choice("psycopg", "pq"), "psycopg", "pq: single statements by libpq's own calls"),
        Setting("cache_mib", integer(1), 64, "shared buffers of a server of Dyno's own, in MiB"),
    ),
    server=serve,
    remove=remove,
    needs=lambda options: None if options[URL] else missing(),
    clients="processes",
    by_default=False,
)
