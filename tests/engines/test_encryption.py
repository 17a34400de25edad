"""Guards that every client connects to a user's own server as securely as its address requires, or refuses it in one
line, and that each row records whether the connection was encrypted.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from certificates import Authority
from needed import require
from serving import free_port
from shell import DISK, Shell, small

from dyno import registry
from dyno.contracts.model import Refused, Tier
from dyno.contracts.native_load import NATIVE_CLIENT
from dyno.contracts.suite import Job
from dyno.engines import sysbench
from dyno.engines.mysql import client as mysqlclient
from dyno.engines.mysql import server_mariadb
from dyno.engines.postgresql.server import PostgreSQL
from dyno.engines.redis import resp
from dyno.servers.process import Process

pytestmark = pytest.mark.usefixtures("processes")

TLS = ("redis-py", "single")
"""Clients of Redis that support encryption."""


def server_at(engine: str, url: str, home: Path = Path()) -> Any:
    """Returns the user's server of that URL."""
    spec = registry.engine(engine)
    assert spec.server is not None
    return spec.create_server(home, Tier.VOLATILE, spec.resolve({"url": url}), 1)


def job(home: Path, engine: str, url: str, **given: str) -> Job:
    """A store on the user's own server at the address."""
    spec = registry.engine(engine)
    home.mkdir()
    options = spec.resolve({"url": url, **given})
    return Job(spec, home, Tier.VOLATILE, options, {}, seed=1, clients=1, server=server_at(engine, url, home))


def connect(engine: str, url: str) -> Any:
    """Connects to the user's server of that URL."""
    return registry.engine(engine).opener.open_client(server_at(engine, url), {})  # type: ignore[attr-defined]


def encrypted(engine: Any) -> tuple[Any, set[str]]:
    """A row's setting `tls`, and the codes of its caveats about encryption."""
    codes = {caveat.code for caveat in engine.caveats()} & {"tls", "no-tls"}
    return engine.settings()["tls"], codes


def refusal(home: Path, engine: str, url: str, **given: str) -> str:
    """The reason for refusing the address, which must be one line."""
    asked = job(home, engine, url, **given)
    with pytest.raises(Refused) as refused:
        asked.open(asked.home)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.fixture(scope="module")
def authorities() -> Iterator[tuple[Authority, Authority]]:
    """The authority that signed the servers' certificate, and another authority."""
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        yield Authority(Path(place) / "ours"), Authority(Path(place) / "other")


# -- MariaDB -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mariadbs(authorities: tuple[Authority, Authority]) -> Iterator[tuple[str, str]]:
    """The addresses of a server with TLS and of one without. The user `safe` of the first server must use TLS."""
    require(registry.engine("mariadb"))
    ours, _ = authorities
    addresses = []
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        started = []
        for name in ("secure", "plain"):
            port = free_port()
            settings = {"skip-networking": "OFF", "bind-address": "127.0.0.1", "port": str(port)}
            if name == "secure":
                settings |= {"ssl-cert": str(ours.certificate), "ssl-key": str(ours.key)}
            server: Any = server_mariadb.MariaDB(server_mariadb.MARIADB, Path(place) / name, settings, 1)
            if server.user is not None:
                ours.owned_by(server.user.pw_uid)
            started.append(server)
            server.start()
            with closing(mysqlclient.connect(server, mysqlclient.CLIENTS[0])) as connection:
                for user, how in (("u", ""), ("safe", "REQUIRE SSL" if name == "secure" else "")):
                    connection.execute(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'secret' {how}")
                    connection.execute(f"GRANT ALL ON *.* TO {user}@'127.0.0.1'")
            addresses.append(f"mysql://safe:secret@127.0.0.1:{port}/")
        yield addresses[0], addresses[1]
        for server in started:
            server.close()


def test_sysbench_is_refused_with_ssl_ca(
    mariadbs: tuple[str, str], authorities: tuple[Authority, Authority], tmp_path: Path
) -> None:
    asked = job(tmp_path / "store", "mariadb", f"{mariadbs[0]}mysql?ssl_ca={authorities[0].authority}")
    with closing(asked.open(asked.home)) as engine, pytest.raises(Refused, match="leave ssl_ca out"):
        asked.spec.ports["transactions"].open(engine)


@pytest.mark.parametrize("client", [each for each in mysqlclient.CLIENTS if each != NATIVE_CLIENT])
def test_mariadb_with_ssl_ca_requires_verified_tls(
    mariadbs: tuple[str, str], authorities: tuple[Authority, Authority], tmp_path: Path, client: str
) -> None:
    ours, other = authorities
    secure, plain = mariadbs
    asked = job(tmp_path / "store", "mariadb", f"{secure}?ssl_ca={ours.authority}", client=client)
    with closing(asked.open(asked.home)) as engine:
        assert encrypted(engine) == (True, {"tls"})
        with closing(engine.connect()) as connection:  # type: ignore[attr-defined]
            (_, cipher) = connection.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'").fetchone()
            assert cipher, "the server says so"
    asked.remove(asked.home)
    said = refusal(tmp_path / "wrong", "mariadb", f"{secure}?ssl_ca={other.authority}", client=client)
    assert "certificate verify failed" in said and "secret" not in said
    said = refusal(tmp_path / "plain", "mariadb", f"{plain}?ssl_ca={ours.authority}", client=client)
    assert "ssl_ca asks for" in said or "SSL is required" in said


@pytest.mark.parametrize("client", [each for each in mysqlclient.CLIENTS if each != NATIVE_CLIENT])
def test_mariadb_clients_use_tls_by_default_if_offered(
    mariadbs: tuple[str, str], tmp_path: Path, client: str
) -> None:
    secure, plain = mariadbs
    for number, (url, expected) in enumerate(((secure, (True, {"tls"})), (plain, (False, {"no-tls"})))):
        asked = job(tmp_path / f"store{number}", "mariadb", url, client=client)
        with closing(asked.open(asked.home)) as engine:
            assert encrypted(engine) == expected
        asked.remove(asked.home)


# -- PostgreSQL ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgresqls(authorities: tuple[Authority, Authority]) -> Iterator[tuple[str, str]]:
    """The addresses of a server with TLS and of one without, each with databases `own` and `qdb`."""
    require(registry.engine("postgresql"))
    import psycopg
    from psycopg.conninfo import make_conninfo

    ours, _ = authorities
    addresses, started = [], []
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        for name in ("secure", "plain"):
            settings = {"fsync": "off"}
            if name == "secure":
                settings |= {"ssl": "on", "ssl_cert_file": str(ours.certificate), "ssl_key_file": str(ours.key)}
            server, port = PostgreSQL(Path(place) / name, settings, 1), str(free_port())
            command = server.command
            command[command.index("listen_addresses=")] = "listen_addresses=127.0.0.1"
            command[command.index("-p") + 1] = port
            if server.user is not None:
                ours.owned_by(server.user.pw_uid)
            started.append(server)
            server.start()
            with psycopg.connect(make_conninfo(**{**server.address, "port": port}), autocommit=True) as connection:
                connection.execute("CREATE ROLE u LOGIN PASSWORD 'secret'")
                connection.execute("CREATE DATABASE own OWNER u")
                connection.execute("CREATE DATABASE qdb OWNER u")
            addresses.append(f"postgresql://u:secret@127.0.0.1:{port}/own")
        yield addresses[0], addresses[1]
        for server in started:
            server.close()


@pytest.mark.parametrize("client", ["psycopg", "pq"])
def test_postgresql_connects_by_tls_as_sslmode_requires(
    postgresqls: tuple[str, str], authorities: tuple[Authority, Authority], tmp_path: Path, client: str
) -> None:
    ours, other = authorities
    secure, plain = postgresqls
    verified = "sslmode=verify-full&sslrootcert="
    asked = job(tmp_path / "store", "postgresql", f"{secure}?{verified}{ours.authority}", client=client)
    with closing(asked.open(asked.home)) as engine:
        assert encrypted(engine) == (True, {"tls"})
        with closing(engine.connect()) as connection:  # type: ignore[attr-defined]
            told = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
            assert told == (True,), "the server says so"
        address, environment = engine.for_tools()  # type: ignore[attr-defined]
        query = "SELECT ssl, current_schema() FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert sysbench.run_tool(["psql", address, "-Atc", query], environment).startswith("t|dyno_")
    asked.remove(asked.home)
    said = refusal(tmp_path / "wrong", "postgresql", f"{secure}?{verified}{other.authority}", client=client)
    assert "certificate verify failed" in said and "secret" not in said
    assert "does not support SSL" in refusal(tmp_path / "plain", "postgresql", f"{plain}?sslmode=require")


def test_sslrootcert_without_verifying_sslmode_is_refused(
    postgresqls: tuple[str, str], authorities: tuple[Authority, Authority], tmp_path: Path
) -> None:
    secure, _ = postgresqls
    url = f"{secure}?sslrootcert={authorities[0].authority}"
    assert "add sslmode=verify-full" in refusal(tmp_path / "store", "postgresql", url)


def test_secret_that_would_appear_in_argv_is_refused(postgresqls: tuple[str, str], tmp_path: Path) -> None:
    asked = job(tmp_path / "store", "postgresql", f"{postgresqls[1]}?sslpassword=hush")
    with closing(asked.open(asked.home)) as engine, pytest.raises(Refused, match="sslpassword in url") as refused:
        asked.spec.ports["transactions"].open(engine)
    assert "hush" not in str(refused.value)
    asked.remove(asked.home)


def test_unknown_libpq_argument_is_refused_in_one_line(postgresqls: tuple[str, str], tmp_path: Path) -> None:
    assert "sslmod" in refusal(tmp_path / "store", "postgresql", f"{postgresqls[1]}?sslmod=require")


def test_questdb_with_https_refuses_reads_without_tls(postgresqls: tuple[str, str]) -> None:
    """A PostgreSQL server without TLS stands in for QuestDB, which is read by the same protocol."""
    port = postgresqls[1].rpartition(":")[2].partition("/")[0]
    with closing(connect("questdb", f"http://u:secret@127.0.0.1:1/?pg={port}")):
        pass
    with pytest.raises(Refused, match="does not support SSL"):
        connect("questdb", f"https://u:secret@127.0.0.1:1/?pg={port}")


def test_run_file_and_tables_show_encryption(postgresqls: tuple[str, str], shell: Shell) -> None:
    """One row with TLS and one without."""
    engines = ",".join(f"postgresql:url={postgresqls[0]}?sslmode={mode}" for mode in ("require", "disable"))
    asked = small(samples=1, phases="rand-key", tier="volatile")
    ended = shell.dyno("run", "records", "-e", engines, *asked, "-o", shell.file, "--all")
    assert ended.status == 0, ended
    told = [attempt["settings"]["tls"] for attempt in sorted(shell.attempts("postgresql"), key=lambda a: a["cell"])]
    assert told == [True, False]
    shown = shell.dyno("show", shell.file, "--all").out
    assert "by TLS" in shown and "without encryption" in shown


# -- Redis ---------------------------------------------------------------------------------------------------


@pytest.fixture
def redis_port(authorities: tuple[Authority, Authority], place: Path) -> Iterator[int]:
    """The port of a server that accepts only TLS."""
    require(registry.engine("redis"))
    ours, _ = authorities
    # The server runs as the user who runs the tests.
    ours.owned_by(os.getuid())
    port = free_port()
    words = ["--port", "0", "--bind", "127.0.0.1", "--tls-port", str(port), "--tls-auth-clients", "no", "--save", ""]
    files = {"cert": ours.certificate, "key": ours.key, "ca-cert": ours.authority}
    words += [word for name, file in files.items() for word in (f"--tls-{name}-file", str(file))]

    def answers() -> bool:
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", port)) == 0

    process = Process(["redis-server", *words], place / "redis", answers)
    (place / "redis").mkdir()
    process.start()
    yield port
    process.close()


@pytest.mark.parametrize("engine", ["redis", "valkey"])
@pytest.mark.parametrize("client", resp.CLIENTS)
def test_redis_with_rediss_scheme_requires_verified_tls(
    redis_port: int, authorities: tuple[Authority, Authority], tmp_path: Path, client: str, engine: str
) -> None:
    ours, other = authorities
    url = f"rediss://127.0.0.1:{redis_port}/0?ssl_ca_certs="
    spec = registry.engine(engine)
    why = spec.refuse(Tier.VOLATILE, spec.resolve({"url": f"{url}{ours.authority}", "client": client}))
    assert (why is None) == (client in TLS)
    if why is not None:
        return
    asked = job(tmp_path / "store", engine, f"{url}{ours.authority}", client=client)
    with closing(asked.open(asked.home)) as opened:
        assert encrypted(opened) == (True, {"tls"})
    asked.remove(asked.home)
    said = refusal(tmp_path / "wrong", engine, f"{url}{other.authority}", client=client)
    assert "certificate verify failed" in said.lower()


# -- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "scheme"),
    [("clickhouse", "clickhouse"), ("questdb", "http"), ("oracle", "oracle"), ("mongodb", "mongodb")],
)
def test_unknown_address_argument_is_refused(engine: str, scheme: str) -> None:
    """The unknown argument might ask for TLS."""
    with pytest.raises(Refused, match=r"(?i)unknown (argument|option).*secure") as refused:
        connect(engine, f"{scheme}://u:s3cret@127.0.0.1:9/x?secure=yes")
    assert "s3cret" not in str(refused.value)
