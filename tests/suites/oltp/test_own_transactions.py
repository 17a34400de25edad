"""Runs the suites oltp and sql on PostgreSQL and MariaDB as the user's own servers: everything that sysbench, pgbench
and Dyno created is removed however the run ends, tables of the user stay, and the password is in no process's
arguments.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from needed import require
from shell import DISK, Ended, Shell, wait_for

from dyno import registry
from dyno.contracts.model import Refused, Tier, Unavailable
from dyno.engines import sysbench
from dyno.engines.clickhouse import Click
from dyno.engines.mysql import client as mysqlclient
from dyno.engines.mysql import server_mariadb
from dyno.engines.postgresql.server import PostgreSQL
from dyno.servers.loopback import free_port
from dyno.suites.oltp import Load

pytestmark = pytest.mark.usefixtures("processes")

SECRET, PLAIN = "Tr1cky%2Fw%40rd%27", "Tr1cky/w@rd'"
ENGINES = ("postgresql", "mariadb")
SMALL = ("-p", "table_size=500", "--clients", 2, "--samples", 1, "--retries", 0, "--budget", 2)


class Own(NamedTuple):
    """A user's server: its address, and a function that executes statements as the user."""

    engine: str
    url: str
    execute: Callable[[str], list[tuple[Any, ...]]]

    @property
    def variable(self) -> str:
        """The environment variable that holds the address, so that Dyno's own arguments have no password."""
        return f"OWN_{self.engine.upper()}"

    @property
    def row(self) -> str:
        return f"{self.engine}:url=env:{self.variable}"

    def left(self) -> list[str]:
        """Schemas of Dyno's, and tables with the names of Dyno's and the tools' tables."""
        names = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE "
        found = self.execute(f"{names}'sbtest%' OR table_name LIKE 'pgbench%' OR table_name LIKE 'dyno%'")
        found += self.execute("SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'dyno%'")
        return [str(name) for (name,) in found]


def export_address(own: Own) -> Iterator[Own]:
    """Yields the server with its address in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(own.variable, own.url)
        yield own


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Own]:
    import psycopg
    from psycopg.conninfo import make_conninfo

    require(registry.engine("postgresql").reduce_to_port("transactions"))
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        port = str(free_port("127.0.0.1"))
        server = PostgreSQL(Path(place) / "own", {"fsync": "off"}, 1)
        server.command[server.command.index("listen_addresses=")] = "listen_addresses=127.0.0.1"
        server.command[server.command.index("-p") + 1] = port
        with closing(server):
            server.start()
            with psycopg.connect(make_conninfo(**{**server.address, "port": port}), autocommit=True) as connection:
                connection.execute(f"CREATE ROLE u LOGIN PASSWORD '{PLAIN.replace(chr(39), chr(39) * 2)}'")
                connection.execute("CREATE DATABASE own OWNER u")
            (server.data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
            os.kill(next(iter(server.pids())), signal.SIGHUP)
            url = f"postgresql://u:{SECRET}@127.0.0.1:{port}/own"

            def execute(statement: str) -> list[tuple[Any, ...]]:
                with psycopg.connect(url, autocommit=True) as own:
                    cursor = own.execute(statement)
                    return cursor.fetchall() if cursor.description else []

            yield from export_address(Own("postgresql", url, execute))


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Own]:
    """The user has rights on the database `own` only."""
    import pymysql

    require(registry.engine("mariadb").reduce_to_port("transactions"))
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        port = free_port("127.0.0.1")
        settings = {"skip-networking": "OFF", "bind-address": "127.0.0.1", "port": str(port)}
        server: Any = server_mariadb.MariaDB(server_mariadb.MARIADB, Path(place) / "own", settings, 1)
        with closing(server):
            server.start()
            with closing(mysqlclient.connect(server, mysqlclient.CLIENTS[0])) as connection:
                connection.execute("CREATE DATABASE own")
                connection.execute("CREATE USER u@'127.0.0.1' IDENTIFIED BY %s", (PLAIN,))
                connection.execute("GRANT ALL ON own.* TO u@'127.0.0.1'")

            def execute(statement: str) -> list[tuple[Any, ...]]:
                with (
                    closing(
                        pymysql.connect(host="127.0.0.1", port=port, user="u", password=PLAIN, database="own")
                    ) as own,
                    own.cursor() as cursor,
                ):
                    cursor.execute(statement)
                    own.commit()
                    return list(cursor.fetchall())

            yield from export_address(Own("mariadb", f"mysql://u:{SECRET}@127.0.0.1:{port}/own", execute))


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[Own]:
    spec = registry.engine("clickhouse").reduce_to_port("sql")
    require(spec)
    assert spec is not None and spec.server is not None
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        server: Any = spec.create_server(Path(place) / "server", Tier.PROCESS, spec.resolve({}), 1)
        with closing(server):
            server.start()
            at = server.address
            with closing(Click.open_client(server, {})) as client:
                client.execute("CREATE DATABASE own")

            def execute(statement: str) -> list[tuple[Any, ...]]:
                with closing(Click.open_client(server, {}, database="own")) as client:
                    return list(client.execute(statement))

            url = f"clickhouse://{quote(at.user, '')}:{quote(at.password, '')}@{at.host}:{at.port}/own"
            yield from export_address(Own("clickhouse", url, execute))


@pytest.fixture(params=ENGINES)
def own(request: pytest.FixtureRequest) -> Own:
    return request.getfixturevalue(request.param)


def command(shell: Shell, own: Own, phases: str, *more: object) -> list[object]:
    return ["run", "oltp", "-e", own.row, "--phases", phases, *SMALL, "-o", shell.file, *more]


def arguments(shell: Shell, ended: Event, seen: set[str]) -> None:
    """Collects the arguments of all of the shell's processes until the event."""
    while not ended.wait(0.02):
        for pid in shell.alive():
            with suppress(OSError):
                seen.add(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())


@pytest.mark.claim("A user's server is left as it was and is not stopped")
@pytest.mark.claim("A secret in an address is in no run file, report or error")
def test_tools_run_in_named_database_and_leave_nothing(own: Own, shell: Shell) -> None:
    postgresql = own.engine == "postgresql"
    if postgresql:
        own.execute("CREATE TABLE public.pgbench_accounts (aid int)")
        own.execute("INSERT INTO public.pgbench_accounts VALUES (7)")
    own.execute("CREATE TABLE mine (number int)")
    before, seen, ended = own.left(), set[str](), Event()
    watcher = Thread(target=arguments, args=(shell, ended, seen))
    watcher.start()
    tools = "write-only,point-select-cold" + (",tpcb-like" if postgresql else "")
    run = shell.dyno(*command(shell, own, tools, "--budget", 3))
    ended.set()
    watcher.join()
    assert run.status == 0, run
    (attempt,) = shell.attempts()
    assert "which is your own" in attempt["absent"]["point-select-cold"]
    for sample in attempt["samples"]:
        by_sysbench = sample["reported_by"].startswith("sysbench")
        assert sample["void"] is None and sample["histogram"] and len(sample["series"]) >= 2, sample
        total = sum(point["operations"] for point in sample["series"])
        # sysbench sometimes ends before it reports its last second.
        assert (0.4 if by_sysbench else 0.9) * sample["items"] < total < 1.1 * sample["items"]
        for point in sample["series"]:
            assert point["p99_ns"] > 0 and (point["p50_ns"] is None) == by_sysbench
    assert len(attempt["samples"]) == (2 if postgresql else 1)
    (cell, *_) = shell.shown()["cells"]
    assert 0 < cell["latency_ns"]["p50"] <= cell["latency_ns"]["p90"]
    assert own.left() == before
    if postgresql:
        assert own.execute("SELECT aid FROM public.pgbench_accounts") == [(7,)]
        own.execute("DROP TABLE public.pgbench_accounts")
    own.execute("DROP TABLE mine")
    tools_seen = {words.split()[0].rpartition("/")[2] for words in seen if words.split()}
    assert {"sysbench"} | ({"pgbench"} if postgresql else set()) <= tools_seen
    written = "".join(path.read_text(errors="replace") for path in shell.home.rglob("*") if path.is_file())
    for secret in (SECRET, PLAIN):
        assert secret not in "\n".join(seen)
        assert secret not in written + run.out + run.err


@pytest.mark.claim("A user's server is left as it was and is not stopped")
@pytest.mark.parametrize("to", ["worker", "run", "tool"])
def test_tool_tables_are_removed_after_kill_or_interrupt(own: Own, shell: Shell, to: str) -> None:
    words = command(shell, own, "write-only", "--budget", 60)
    with shell.started(*words) as run:
        assert wait_for(lambda: own.left() and running(shell, "--time=60")), run
        if to == "run":
            os.kill(run.pid, signal.SIGINT)
        else:
            for pid in shell.workers() if to == "worker" else running(shell, "--time=60"):
                os.kill(pid, signal.SIGKILL)
        out, err = run.communicate()
    assert own.left() == []
    assert "stays on" not in out + err


@pytest.mark.claim("A user's server is left as it was and is not stopped")
def test_next_run_removes_leftovers_of_a_killed_run(own: Own, shell: Shell) -> None:
    with shell.started(*command(shell, own, "write-only", "--budget", 60)) as run:
        assert wait_for(lambda: own.left() and running(shell, "--time=60"))
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert shell.strays() == []
    assert own.left() != []
    assert shell.dyno(*command(shell, own, "write-only", "-o", shell.home / "again.json")).status == 0
    assert own.left() == []


def test_the_printed_command_removes_the_marked_tables(mariadb: Own) -> None:
    import pymysql

    name = "dyno_00000000_1_00000000"
    spec = registry.engine("mariadb").reduce_to_port("transactions")
    assert spec.server is not None and spec.server.removal is not None
    *_, statements = shlex.split(spec.server.removal(name, spec.resolve({"url": mariadb.url})))
    for table in (name, "sbtest1", "sbtest12", "sbtest_mine"):
        mariadb.execute(f"CREATE TABLE {table} (number int)")
    port = int(mariadb.url.rpartition(":")[2].partition("/")[0])
    with (
        closing(pymysql.connect(host="127.0.0.1", port=port, user="u", password=PLAIN)) as own,
        own.cursor() as cursor,
    ):
        for statement in statements.split("; "):
            cursor.execute(statement)
    assert mariadb.left() == ["sbtest_mine"]
    mariadb.execute("DROP TABLE sbtest_mine")


def running(shell: Shell, word: str) -> list[int]:
    """The shell's processes of sysbench with this argument."""
    found = []
    for pid in shell.alive():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if words[0] == "sysbench" and word in words:
                found.append(pid)
    return found


def test_users_sbtest_table_is_refused_and_kept(mariadb: Own, shell: Shell) -> None:
    mariadb.execute("CREATE TABLE sbtest3 (number int)")
    mariadb.execute("INSERT INTO sbtest3 VALUES (7)")
    ended = shell.dyno(*command(shell, mariadb, "write-only"))
    assert ended.status == 3, ended
    (attempt,) = shell.attempts()
    assert attempt["outcome"] == "refused"
    assert "table sbtest3, which your database own has" in attempt["why"]
    assert mariadb.execute("SELECT number FROM sbtest3") == [(7,)]
    assert mariadb.left() == ["sbtest3"]
    mariadb.execute("DROP TABLE sbtest3")


def test_an_address_without_a_database_measures_nothing(
    own: Own, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = own.url.removesuffix("own") + ("?dbname=" if own.engine == "postgresql" else "")
    # A variable of its own, because Dyno reads each only once in a process.
    monkeypatch.setenv("NOWHERE_" + own.variable, nowhere)
    row = own.row.replace(own.variable, "NOWHERE_" + own.variable)
    ended = shell.dyno(*(row if word == own.row else word for word in command(shell, own, "write-only")))
    assert ended.status == 3, ended
    (attempt,) = shell.attempts()
    # To PostgreSQL's client library, a database that doesn't exist is a failed connection.
    assert attempt["outcome"] == ("error" if own.engine == "postgresql" else "refused")
    assert own.left() == []


def test_failed_tool_raises_unavailable_with_its_cause() -> None:
    line = "pgbench: error: client {} script 0 aborted in command 7 query 0: FATAL:  terminating connection due to"
    cause = [f"{line.format(client)} administrator command" for client in range(2)]
    printed = "\n".join(["scaling factor: 1", *cause, *cause])
    with pytest.raises(Unavailable) as failed:
        sysbench.run_tool(["sh", "-c", f"printf %s {shlex.quote(printed)} >&2; exit 2"])
    assert str(failed.value) == f"sh ended with status 2: {'; '.join(' '.join(each.split()) for each in cause)}"


@pytest.mark.parametrize("password", ["with blank", "a#b,c", "it's", 'a"b', "a=b;d\\", 'it\'s"both"', "é"])
def test_sysbench_reads_the_users_password_from_its_file(mariadb: Own, password: str) -> None:
    import pymysql

    port = int(mariadb.url.rpartition(":")[2].partition("/")[0])
    words = [
        "oltp_point_select",
        "--mysql-host=127.0.0.1",
        f"--mysql-port={port}",
        "--mysql-user=u",
        "--mysql-db=own",
    ]
    with (
        closing(pymysql.connect(host="127.0.0.1", port=port, user="u", password=PLAIN)) as own,
        own.cursor() as cursor,
    ):
        cursor.execute("SET PASSWORD = PASSWORD(%s)", (password,))
        try:
            for step in ("prepare", "cleanup"):
                sysbench.run(
                    [*words, "--table-size=1", step], config=sysbench.config_line("mysql-password", password)
                )
        finally:
            cursor.execute("SET PASSWORD = PASSWORD(%s)", (PLAIN,))


@pytest.mark.parametrize("password", ['it\'s "both"', "two\nlines", "x" * 256, "#'\"", "'a\""])
def test_password_unreadable_for_sysbench_is_refused(password: str) -> None:
    with pytest.raises(Refused, match="mysql-password") as refused:
        sysbench.config_line("mysql-password", password)
    assert password not in str(refused.value)


def test_sampled_pgbench_log_yields_a_latency_per_transaction(
    postgresql: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysbench, "LOGGED_SECONDS", 1)
    sysbench.run_tool(["pgbench", "--initialize", "--quiet", postgresql.url])
    report = sysbench.run_pgbench("pgbench", postgresql.url, {}, "select-only", Load(2, 2 * 10**9, 1), tmp_path)
    postgresql.execute("DROP TABLE pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")
    assert report.facts["logged_share"] == 0.5
    assert sum(times for _, times in report.latencies) == report.items
    assert sum(point["operations"] or 0 for point in report.series) == pytest.approx(report.items, rel=0.1)
    assert list(tmp_path.iterdir()) == []


def test_own_sql_reads_tables_of_a_clickhouse_server(clickhouse: Own, shell: Shell) -> None:
    clickhouse.execute("CREATE TABLE goods (id Int32, price Int32) ENGINE = MergeTree ORDER BY id")
    clickhouse.execute("INSERT INTO goods SELECT number, number * 10 FROM numbers(4)")
    few = ("-p", "k=uniform:1..3", "-p", "operations=20", "--samples", 1, "-o", shell.file)
    query = "SELECT price FROM goods WHERE id = :k"
    ended = shell.dyno("run", "sql", "-e", clickhouse.row, "-q", query, *few)
    assert ended.status == 0, ended.out + ended.err
    assert not [name for (name,) in clickhouse.execute("SHOW DATABASES") if name.startswith("dyno")]


NATIVE_PLAN = """
suite = "sql"
samples = 1
[sql]
data = "there"
[sql.transactions.divide]
script = "SELECT CASE WHEN :k = 2 THEN (SELECT id FROM goods) ELSE price END FROM goods WHERE id = :k"
[sql.transactions.both]
script = "BEGIN; SELECT price FROM goods WHERE id = :k; SELECT count(*) FROM goods; COMMIT"
[sql.transactions.pair]
script = "SELECT price FROM goods WHERE id = :k; SELECT count(*) FROM goods"
"""
"""`divide` fails for one of three values, since its subquery has three rows."""


@pytest.mark.parametrize("load", ["library", "native"])
def test_own_tables_are_read_in_read_only_transactions(own: Own, load: str, shell: Shell) -> None:
    own.execute("CREATE TABLE goods (id int PRIMARY KEY, price int)")
    own.execute("INSERT INTO goods VALUES (1, 10), (2, 20), (3, 30)")
    (shell.home / "own.toml").write_text(NATIVE_PLAN)
    try:
        ended = shell.dyno(
            "run", "own.toml", "-e", own.row, "-p", "k=uniform:1..3", "-p", "operations=300",
            "--load", load, "--budget", 5, "-o", shell.file,
        )  # fmt: skip
        assert ended.status == 1, ended.out + ended.err
        samples = {each["phase"]: each for trial in shell.attempts(own.engine) for each in trial["samples"]}
        for phase, sample in samples.items():
            assert sample["load"] == load and sample["void"] is None and sample["operations"] == 300, sample
            assert 50 < sample["errors"] < 150 if phase == "divide" else sample["errors"] == 0, sample
        assert set(samples) == {"divide", "both", "pair"}
        assert ended.err.count("may write") == 1 and "dyno_reader" in ended.err
    finally:
        own.execute("DROP TABLE goods")


def test_own_sql_writes_tables_only_with_change(own: Own, shell: Shell) -> None:
    own.execute("CREATE TABLE goods (id int PRIMARY KEY, price int)")
    own.execute("INSERT INTO goods VALUES (1, 10), (2, 20), (3, 30)")
    few = ("-p", "k=uniform:1..3", "-p", "operations=50", "--samples", 1, "-o", shell.file, "--overwrite")

    def run(query: str, *words: object) -> Ended:
        return shell.dyno("run", "sql", "-e", own.row, "-q", query, *few, *words)

    try:
        change = "UPDATE goods SET price = price + 1 WHERE id = :k"
        ended = run(change)
        assert ended.status == 2 and "--change" in ended.err
        ended = run(change, "--change", "elsewhere")
        assert ended.status == 3 and "elsewhere" in ended.out
        assert own.execute("SELECT sum(price) FROM goods") == [(60,)]
        ended = run(change, "--change", "own")
        assert ended.status == 0, ended.out + ended.err
        ((total,),) = own.execute("SELECT sum(price) FROM goods")
        assert total == 110, "50 operations"
        assert own.left() == []
    finally:
        own.execute("DROP TABLE goods")
