"""Own SQL without --change: 2,000 hostile statements per dialect leave data, settings, files and users of a server as
they were; honest queries are answered; and the login that Dyno recommends may not write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import hostile
import pytest
from honest import HONEST
from needed import require
from shell import DISK

from dyno import registry
from dyno.contracts.model import Refused, Tier, UsageError
from dyno.contracts.suite import Job
from dyno.suites.sql.definition import parse_definition
from dyno.suites.sql.inlining import inline_definition
from dyno.suites.sql.language.operations import compile_script
from dyno.suites.sql.port import Session
from dyno.suites.sql.workload import SqlWorkload

pytestmark = pytest.mark.usefixtures("processes")

COUNT, SEED = 2_000, 52
SERVERS = ("postgresql", "mariadb", "clickhouse")
EMBEDDED = ("sqlite", "duckdb")
READING = Session(read_only=True, there=True)
SCHEMAS = {
    "postgresql": (
        "CREATE TABLE goods (id int PRIMARY KEY, price int)",
        "INSERT INTO goods VALUES (1, 10), (2, 20), (3, 30)",
        "CREATE SEQUENCE counter",
        "CREATE FUNCTION touch() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM goods; RETURN 1; END $$",
        """CREATE FUNCTION evil() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
            PERFORM set_config('default_transaction_read_only', 'off', false);
            PERFORM lo_create(0);
            BEGIN PERFORM set_config('transaction_read_only', 'off', false); EXCEPTION WHEN OTHERS THEN NULL; END;
            BEGIN DELETE FROM goods; EXCEPTION WHEN OTHERS THEN NULL; END;
            RETURN 1; END $$""",
        "CREATE PROCEDURE wipe() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM goods; END $$",
    ),
    "mariadb": (
        "CREATE TABLE goods (id int PRIMARY KEY, price int) ENGINE = InnoDB",
        "INSERT INTO goods VALUES (1, 10), (2, 20), (3, 30)",
        "CREATE TABLE other (id int) ENGINE = MyISAM",
        "INSERT INTO other VALUES (1), (2)",
        "CREATE SEQUENCE counter",
        "CREATE FUNCTION touch() RETURNS int BEGIN DELETE FROM goods; RETURN 1; END",
        "CREATE FUNCTION touch_other() RETURNS int BEGIN DELETE FROM other; RETURN 1; END",
        """CREATE FUNCTION evil() RETURNS int BEGIN
            SET SESSION tx_read_only = 0; DELETE FROM goods; DELETE FROM other; RETURN 1; END""",
        "CREATE FUNCTION disarm() RETURNS int BEGIN SET SESSION tx_read_only = 0; RETURN 1; END",
        "CREATE PROCEDURE wipe() BEGIN DELETE FROM goods; END",
    ),
    "clickhouse": (
        "CREATE TABLE goods (id Int32, price Int32) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO goods SELECT number + 1, number * 10 + 10 FROM numbers(3)",
    ),
}
STATES = {
    "postgresql": (
        "SELECT * FROM goods ORDER BY 1",
        "SELECT last_value, is_called FROM counter",
        "SELECT loid, pageno, data FROM pg_largeobject ORDER BY 1, 2",
        "SELECT oid FROM pg_largeobject_metadata ORDER BY 1",
        "SELECT relname, relkind, relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
        "SELECT attname FROM pg_attribute WHERE attrelid = 'goods'::regclass ORDER BY 1",
        "SELECT rolname, rolsuper, rolconfig FROM pg_roles ORDER BY 1",
        "SELECT setconfig FROM pg_db_role_setting ORDER BY 1",
        "SELECT name, setting FROM pg_settings ORDER BY 1",
        "SELECT slot_name FROM pg_replication_slots",
        "SELECT proname FROM pg_proc WHERE oid > 16383 ORDER BY 1",
        "SELECT description FROM pg_description WHERE objoid > 16383",
        "SELECT datname FROM pg_database ORDER BY 1",
        "SELECT pg_read_file('postgresql.auto.conf')",
    ),
    "mariadb": (
        "SELECT * FROM goods ORDER BY 1",
        "SELECT * FROM other ORDER BY 1",
        "SELECT next_not_cached_value FROM counter",
        "SHOW TABLES",
        "SHOW DATABASES",
        "SHOW CREATE TABLE goods",
        "SHOW INDEX FROM goods",
        "SELECT user, host FROM mysql.global_priv ORDER BY 1, 2",
        "SHOW GLOBAL VARIABLES WHERE variable_name NOT LIKE 'gtid%' AND variable_name NOT LIKE 'innodb_undo%'",
        "SHOW SESSION VARIABLES WHERE variable_name REGEXP 'read_only|isolation|sql_mode|autocommit|max_conn'",
    ),
    "clickhouse": (
        "SELECT * FROM goods ORDER BY id",
        "SHOW TABLES",
        "SHOW DATABASES",
        "DESCRIBE TABLE goods",
        "SELECT name, value FROM system.settings ORDER BY name",
    ),
    "sqlite": ("SELECT * FROM goods ORDER BY 1", "SELECT name, sql FROM sqlite_master", "PRAGMA user_version"),
    "duckdb": (
        "SELECT * FROM goods ORDER BY 1",
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL",
        "SELECT index_name FROM duckdb_indexes()",
        "SELECT function_name FROM duckdb_functions() WHERE NOT internal",
        "SELECT last_value FROM duckdb_sequences()",
    ),
}
EMBEDDED_SCHEMA = (
    "CREATE TABLE goods (id int PRIMARY KEY, price int); INSERT INTO goods VALUES (1, 10), (2, 20), (3, 30)"
)


FINAL = re.compile(r"DROP|RENAME|TRUNCATE|SHUTDOWN|DETACH|FLUSH|LOCK")


Execute = Callable[[str], list[Any]]


class Target(NamedTuple):
    """A database of the user's."""

    dialect: str
    place: Path
    """A directory in which the server may write."""
    job: Job
    """A trial on the database, by the login that may do everything."""
    session: Callable[[], Any]
    """Opens a session without protection. Its value executes a statement."""
    values: dict[str, object]

    def state(self) -> dict[str, object]:
        """Returns the content, the settings, and the files that attacks would plant."""
        found: dict[str, object] = {}
        with self.session() as execute:
            for query in STATES[self.dialect]:
                try:
                    found[query] = execute(query)
                except Exception as error:
                    found[query] = str(error)
        roots = [self.place, *([self.job.server.data] if hasattr(self.job.server, "data") else [])]  # type: ignore[union-attr]
        found["files"] = sorted(str(path) for root in roots for path in root.rglob("*planted*"))
        return found


def url_of(dialect: str, address: Any) -> str:
    if dialect == "postgresql":
        return "postgresql:///own?" + urlencode({**{k: v for k, v in address.items() if k != "dbname"}})
    if dialect == "mariadb":
        return f"mariadb://{address['user']}@localhost/own?unix_socket={quote(address['unix_socket'])}"
    return f"clickhouse://{quote(address.user, '')}:{quote(address.password, '')}@{address.host}:{address.port}/own"


def session_on(dialect: str, url: str) -> Callable[[], Any]:
    """Returns a context manager of a new session, whose value is a function that executes a statement."""

    @contextmanager
    def postgresql() -> Iterator[Execute]:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:

            def execute(statement: str) -> list[Any]:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []

            yield execute

    @contextmanager
    def mariadb() -> Iterator[Execute]:
        import pymysql

        from dyno.engines.mysql.client import parse_address

        with (
            closing(pymysql.connect(**parse_address(url), autocommit=True, read_timeout=5)) as connection,
            connection.cursor() as cursor,
        ):

            def execute(statement: str) -> list[Any]:
                cursor.execute(statement)
                return list(cursor.fetchall())

            yield execute

    @contextmanager
    def clickhouse() -> Iterator[Execute]:
        from clickhouse_driver import Client

        client = Client.from_url(url)
        try:
            # For INSERT ... VALUES the driver would wait for rows.
            yield lambda statement: [] if " VALUES" in statement else list(client.execute(statement))
        finally:
            client.disconnect()

    return {"postgresql": postgresql, "mariadb": mariadb, "clickhouse": clickhouse}[dialect]


def serve(dialect: str, place: Path) -> Iterator[Target]:
    """Starts a server with tables of the user's."""
    spec = registry.engine(dialect).reduce_to_port("sql")
    require(spec)
    assert spec is not None and spec.server is not None
    with ExitStack() as stack:
        server: Any = spec.create_server(place / "server", Tier.PROCESS, spec.resolve({}), 4)
        stack.enter_context(closing(server)).start()
        own = url_of(dialect, server.address)
        with session_on(dialect, own.replace("/own", {"postgresql": "/postgres"}.get(dialect, "/")))() as execute:
            execute("CREATE DATABASE own")
        session = session_on(dialect, own)
        drop = place / "drop"
        drop.mkdir()
        drop.chmod(0o777)
        values: dict[str, object] = {"place": drop}
        with session() as execute:
            for statement in SCHEMAS[dialect]:
                execute(statement)
            if dialect == "postgresql":
                ((values["object"],),) = execute("SELECT lo_from_bytea(0, 'precious')")
        options = spec.resolve({"url": own})
        there = spec.create_server(place / "there", Tier.PROCESS, options, 1)
        home = place / "home"
        home.mkdir()
        job = Job(spec, home, Tier.PROCESS, options, {}, seed=1, clients=1, server=there)
        yield Target(dialect, drop, job, session, values)


def embed(dialect: str, place: Path) -> Iterator[Target]:
    """Makes a store of Dyno's, as phases that only read find it."""
    spec = registry.engine(dialect).reduce_to_port("sql")
    require(spec)
    assert spec is not None
    home, drop = place / "home", place / "drop"
    home.mkdir()
    drop.mkdir()
    job = Job(spec, home, Tier.PROCESS, spec.resolve({}), {}, seed=1, clients=1)
    with closing(job.open(home)) as engine, closing(job.port(engine)) as port:
        port.define(EMBEDDED_SCHEMA)
        if dialect == "duckdb":
            port.define("CREATE SEQUENCE counter")

        @contextmanager
        def session() -> Iterator[Execute]:
            with closing(job.port(engine)) as own:

                def execute(statement: str) -> list[Any]:
                    rows = own.statement((statement,))(())
                    return rows if type(rows) is list else []

                yield execute

        yield Target(dialect, drop, job, session, {"place": drop})


@pytest.fixture(scope="module", params=[*SERVERS, *EMBEDDED])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as name:
        place = Path(name)
        place.chmod(0o755)
        yield from (serve if request.param in SERVERS else embed)(request.param, place)


def definition(text: str, dialect: str) -> Any:
    there = {"data": "there"} if dialect in SERVERS else {}
    return parse_definition(inline_definition({**there, "transactions": {"query": {"script": text}}}, Path()))


class Reader:
    """A client of a phase that only reads, as a trial has it."""

    def __init__(self, target: Target, engine: Any, native: bool = False) -> None:
        self._target = target
        self._engine = engine
        self._native = native
        self._port: Any = None

    def port(self) -> Any:
        if self._port is None:
            session = READING._replace(there=self._target.dialect in SERVERS)
            self._port = SqlWorkload(self._target.job).port(self._engine, session)
        return self._port

    def run(self, text: str) -> Any:
        """Executes a script as `dyno run -q` does. Raises UsageError or Refused if it is refused for what it says,
        and the error of the database otherwise."""
        script = definition(text, self._target.dialect).transactions["query"].script("")
        port = self.port()
        try:
            return compile_script(script, port, False, True)(tuple(0 for _ in script.inputs))
        finally:
            with suppress(Exception):
                port.rollback()

    def close(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None


@pytest.fixture
def reader(target: Target) -> Iterator[Reader]:
    with closing(target.job.open(target.job.home)) as engine, closing(Reader(target, engine)) as reader:
        yield reader


def outcome(reader: Reader, text: str) -> str:
    try:
        reader.run(text)
    except (UsageError, Refused):
        return "refused"
    except Exception:
        return "refused by the database"
    return "ran without effect"


@pytest.mark.claim("Own SQL without --change changes nothing on a user's server")
def test_hostile_statements_change_nothing(target: Target, reader: Reader) -> None:
    before, counts = target.state(), Counter[str]()
    for number, text in enumerate(hostile.statements(target.dialect, COUNT, SEED, **target.values)):
        counts[outcome(reader, text)] += 1
        if number < len(hostile.ATTACKS[target.dialect]):
            assert target.state() == before, text
    reader.close()
    print(f"\n{target.dialect}: {dict(counts)}")
    assert target.state() == before
    assert sum(counts.values()) == COUNT


def test_honest_queries_are_answered(target: Target, reader: Reader) -> None:
    for text in HONEST[target.dialect]:
        assert type(reader.run(text)) in (list, tuple), text


def test_recommended_login_may_not_write(target: Target) -> None:
    if target.dialect not in SERVERS:
        pytest.skip("an embedded store has no logins")
    session = READING
    with closing(target.job.open(target.job.home)) as engine, closing(target.job.port(engine, session)) as port:
        rights = port.protection.rights()
    assert rights.may and 1 <= len(rights.remedy) <= 4
    if target.dialect == "clickhouse":
        return  # Debian's version has no users by SQL.
    with target.session() as execute:
        for statement in rights.remedy:
            execute(statement)
    url = reader_url(target)
    options = target.job.spec.resolve({"url": url})
    assert target.job.spec.server is not None
    server = target.job.spec.create_server(target.place, Tier.PROCESS, options, 1)
    job = replace(target.job, options=options, server=server)
    with closing(job.open(job.home)) as engine, closing(SqlWorkload(job).port(engine, session)) as port:
        assert port.protection.rights().may == ""
        assert port.statement(("SELECT count(*) FROM goods",))(()) == [(3,)]


def reader_url(target: Target) -> str:
    """Returns the address with the recommended login."""
    url = str(target.job.options["url"])
    if target.dialect == "postgresql":
        return re.sub(r"user=[^&]*", "user=dyno_reader", url)
    return re.sub(r"//[^@]*@", "//dyno_reader:choose%20one@", url)


def test_failed_operations_leave_the_next_ones_protected(target: Target, reader: Reader) -> None:
    if target.dialect != "postgresql":
        pytest.skip("only there a failed statement ends a transaction")
    before = target.state()
    with pytest.raises(Exception, match="division by zero"):
        reader.run("SELECT 1 / 0")
    assert reader.run("SELECT evil()") == [(1,)]
    reader.close()
    assert target.state() == before


def test_attacks_have_effects_without_protection(target: Target) -> None:
    """The grammar bites: a fair part of its attacks change the database if nobody stops them. This test is the last,
    because they do."""
    effective, state = [], target.state()
    # After these, the others would find nothing to change.
    texts = [text for text in hostile.plain(target.dialect, **target.values) if not FINAL.search(text)]
    for text in texts:
        with suppress(Exception), target.session() as execute:
            for part in [text] if target.dialect == "postgresql" else text.split("; "):
                execute(part)
        now = target.state()
        if now != state:
            effective.append(text)
            state = now
    print(f"\n{target.dialect}: {len(effective)} of {len(texts)} attacks have effects")
    assert len(effective) >= len(texts) / 5
