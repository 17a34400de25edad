"""Guards the specifics of MariaDB and MySQL. The installed server is identified as one or the other. A scan reads no
more of the table than it returns. Both clients give the same answers, whatever the characters and the size. A user's
own server is checked, used and left unchanged. `test_records` and `test_durability` test the behaviour that all
engines share.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from needed import require, unavailable
from serving import key
from shell import DISK

from dyno import registry
from dyno.contracts.model import Refused, Tier, UsageError
from dyno.contracts.suite import Job
from dyno.engines.mysql import server_mariadb
from dyno.engines.mysql.client import CLIENTS, connect, parse_address
from dyno.engines.mysql.engines import InnoDB
from dyno.engines.mysql.tables import SCAN
from dyno.servers import namespace
from dyno.servers.user_server import UserServer
from dyno.suites.records.port import Key, Record

pytestmark = pytest.mark.usefixtures("processes")

SPEC = registry.engine("mariadb")
SECRET, PLAIN = "Tr1cky%2Fw%40rd%27", "Tr1cky/w@rd'"
PACKET = 1 << 16
every_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A server for all tests here, which also listens on a port and has a user with a password."""
    require(SPEC)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listening = {"skip-networking": "OFF", "bind-address": "127.0.0.1", "port": str(port)}
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        made = server_mariadb.MariaDB(server_mariadb.MARIADB, Path(place) / "server", listening, 1)
        with closing(made):
            made.start()
            with asked(made) as execute:
                execute("CREATE USER u@'127.0.0.1' IDENTIFIED BY %s", (PLAIN,))
                execute("GRANT ALL ON *.* TO u@'127.0.0.1'")
                execute("CREATE DATABASE own")
            yield made, f"mysql://u:{SECRET}@127.0.0.1:{port}/own"


@contextmanager
def asked(server: Any) -> Iterator[Any]:
    """Yields a function that executes statements on the server."""
    with closing(connect(server, CLIENTS[0])) as connection:
        yield connection.execute


@contextmanager
def changed(server: Any, name: str, value: int | str) -> Iterator[None]:
    """Sets a variable of the server for the duration of the block."""
    with asked(server) as execute:
        (before,) = execute(f"SELECT @@GLOBAL.{name}").fetchone()
        execute(f"SET GLOBAL {name} = %s", (value,))
        yield
        execute(f"SET GLOBAL {name} = %s", (before,))


def job(home: Path, server: Any, tier: Tier = Tier.PROCESS, engine: str = "mariadb", **given: str) -> Job:
    spec = registry.engine(engine)
    if lacking := spec.installation.needs(spec.resolve(given)):
        unavailable(f"engine {engine} {lacking}")
    home.mkdir(exist_ok=True)
    return Job(spec, home, tier, spec.resolve(given), {}, seed=1, clients=1, server=server)


@contextmanager
def opened(asked: Job) -> Iterator[Any]:
    """The port on a store, which is removed from the server at the end."""
    with closing(asked.open(asked.home)) as engine, closing(asked.spec.ports["records"].open(engine, True)) as port:
        yield port
    asked.remove(asked.home)


def databases(server: Any) -> set[str]:
    with asked(server) as execute:
        return {name for (name,) in execute("SHOW DATABASES").fetchall()}


def record(name: str, location: str = "l", stub: str = "x") -> Record:
    return {"name": name, "location": location, "stub": stub}


# -- which server it is ------------------------------------------------------------------------------------------


@every_client
def test_version_names_actual_server_and_caveat_flags_mismatch(server: Any, tmp_path: Path, client: str) -> None:
    own, _ = server
    for engine in ("mariadb", "mysql"):
        with closing(job(tmp_path, own, engine=engine, client=client).open(tmp_path)) as found:
            assert found.version().startswith("MariaDB 1"), "and not the 5.5.5 that it greets old programs with"
            codes = [caveat.code for caveat in found.caveats()]
            assert ("not-mysql" in codes) == (engine == "mysql")
            assert "not-mariadb" not in codes


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)", server_mariadb.MYSQL),
        ("mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", server_mariadb.MARIADB),
    ],
)
def test_program_is_identified_by_its_version_output(
    said: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(SPEC)
    program = tmp_path / "mysqld"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    there = {
        wanted: server_mariadb.PROGRAMS[wanted].find() for wanted in (server_mariadb.MARIADB, server_mariadb.MYSQL)
    }
    assert {wanted: server_mariadb.product_of(path) for wanted, path in there.items() if path} == {
        server_mariadb.MARIADB: server_mariadb.MARIADB,
        server_mariadb.MYSQL: kind,
    }


# -- its directory -----------------------------------------------------------------------------------------------


def test_server_uses_only_its_directory_and_restarts_cold(server: Any) -> None:
    own, _ = server
    (pid,) = own.pids()
    paths = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    ours = own.data.parent
    assert [path for path in paths if path.startswith(f"{ours}/")]
    assert [p for p in paths if p.startswith("/") and not p.startswith((f"{ours}/", "/dev/"))] == []
    with asked(own) as execute:
        kept = execute("SHOW GLOBAL VARIABLES LIKE %s", ("innodb_buffer_pool_%_at_%",)).fetchall()
    assert len(kept) == 2
    assert {value for _, value in kept} == {"OFF"}, "else a phase after a start would not be cold"


# -- the table ---------------------------------------------------------------------------------------------------


def test_scan_reads_only_the_rows_it_returns(server: Any, tmp_path: Path) -> None:
    own, _ = server
    asked_for = job(tmp_path, own)
    with opened(asked_for) as port:
        port.insert(record(f"n{number:04}", f"l{place}") for number in range(500) for place in range(4))
        with closing(connect(own, CLIENTS[0])) as connection:
            connection.execute(f"USE {namespace.store_name(tmp_path)}")
            for name, place in (("n0000", "l0"), ("n0250", "l2"), ("n0498", "l3")):
                connection.execute("FLUSH STATUS")
                rows = connection.execute(SCAN, (name, place, name, 5)).fetchall()
                assert [row[:2] for row in rows][:2] == [(name, place), following(name, place)]
                told = connection.execute("SHOW SESSION STATUS LIKE %s", ("Handler_read%",)).fetchall()
                assert sum(int(count) for _, count in told) <= len(rows) + 2
                (plan,) = connection.execute(f"EXPLAIN {SCAN}", (name, place, name, 5)).fetchall()
                assert "range" in plan
                assert "PRIMARY" in plan
                assert "filesort" not in str(plan)


def following(name: str, place: str) -> Key:
    return (name, f"l{int(place[1:]) + 1}") if place != "l3" else (f"n{int(name[1:]) + 1:04}", "l0")


STRANGE = ["a", "a ", "a\x01", "a\0", "A", "é", "e\u0301", "\U0001f40c", "'", '"', "\\", "\\'", "%", "%s", "a\nb", ""]


@every_client
def test_keys_with_special_characters_stay_distinct(server: Any, tmp_path: Path, client: str) -> None:
    own, _ = server
    wanted = sorted(
        (record(n, m, n + m) for n in STRANGE for m in STRANGE), key=lambda one: [p.encode() for p in key(one)]
    )
    with opened(job(tmp_path, own, client=client)) as port:
        assert port.replace(wanted[::2]) == [None] * len(wanted[::2])
        for one in wanted[1::2]:
            port.insert([one])
        reader = port.reader()
        assert reader.scanner(1_000)(("", "")) == wanted
        assert [reader.get(key(one)) for one in wanted] == wanted
        found = reader.finder("rev_name")
        assert {found(name[::-1])["name"] for name in STRANGE} == set(STRANGE)
        assert port.delete([key(one) for one in wanted]) == [True] * len(wanted)


@every_client
def test_transaction_may_exceed_max_allowed_packet(server: Any, tmp_path: Path, client: str) -> None:
    own, _ = server
    large = [record(f"n{number:03}", stub="'" * (PACKET // 20)) for number in range(60)]
    # Opened inside of `changed`, because a session takes the variable's value when it begins.
    with changed(own, "max_allowed_packet", PACKET), opened(job(tmp_path, own, client=client)) as port:
        port.insert(large)
        newer = [{**one, "stub": one["stub"].upper() + "!"} for one in large]
        assert port.replace(newer) == large
        assert port.reader().scanner(1_000)(("", "")) == newer


@every_client
def test_original_error_is_raised_when_rollback_fails(server: Any, tmp_path: Path, client: str) -> None:
    """The server closes the connection after a statement that exceeds its limit."""
    own, _ = server
    large = [record("small"), record("large", stub="x" * 2 * PACKET)]
    with changed(own, "max_allowed_packet", PACKET):
        asked_for = job(tmp_path, own, client=client)
        with closing(asked_for.open(tmp_path)) as engine, pytest.raises(Exception, match="max_allowed_packet"):
            asked_for.spec.ports["records"].open(engine, True).insert(large)
        asked_for.remove(tmp_path)


# -- a user's own server -----------------------------------------------------------------------------------------


@every_client
def test_users_server_is_used_and_left_unchanged(server: Any, tmp_path: Path, client: str) -> None:
    own, url = server
    before = databases(own)
    mine = namespace.store_name(job(tmp_path / "left", own).home)
    # Imitates the database of a dead process: this number exceeds the highest process number.
    left = mine.replace(f"_{os.getpid()}_", "_4194999_")
    assert left != mine
    with asked(own) as execute:
        execute(f"CREATE DATABASE {left}")
    one = record("n")
    with opened(job(tmp_path / "store", UserServer(url, parse_address), url=url, client=client)) as port:
        assert left not in databases(own)
        assert len(databases(own) - before) == 1
        assert port.replace([one]) == [None]
        assert port.reader().get(key(one)) == one
    assert databases(own) == before


@pytest.mark.parametrize(
    ("tier", "name", "value"),
    [
        (Tier.PROCESS, "innodb_flush_log_at_trx_commit", 0),
        (Tier.POWER, "innodb_flush_log_at_trx_commit", 0),
        (Tier.POWER, "innodb_flush_log_at_trx_commit", 2),
    ],
)
def test_tier_beyond_the_users_server_settings_is_refused(
    server: Any, tmp_path: Path, tier: Tier, name: str, value: int
) -> None:
    own, url = server
    before = databases(own)
    with changed(own, name, value), pytest.raises(Refused) as refused:
        job(tmp_path, UserServer(url, parse_address), tier, url=url).open(tmp_path)
    assert str(refused.value) == f"the server has {name}={value}, so that it can't give tier {tier.value}"
    assert databases(own) == before
    with changed(own, name, value), opened(job(tmp_path, UserServer(url, parse_address), Tier.VOLATILE, url=url)):
        pass


@pytest.mark.parametrize(("value", "tier"), [(0, Tier.VOLATILE), (2, Tier.PROCESS), (1, Tier.POWER)])
def test_users_server_tier_follows_from_its_settings(server: Any, tmp_path: Path, value: int, tier: Tier) -> None:
    own, url = server
    asked_for = job(tmp_path, UserServer(url, parse_address), Tier.VOLATILE, url=url)
    declared = asked_for.spec.server
    assert declared is not None and declared.gives is not None
    with changed(own, "innodb_flush_log_at_trx_commit", value), closing(asked_for.open(tmp_path)) as engine:
        assert declared.gives(engine) is tier
        (text,) = [caveat.text for caveat in engine.caveats() if caveat.code == "declared"]
        assert f"give tier {tier.value}" in text
        assert f"innodb_flush_log_at_trx_commit={value}" in text
    asked_for.remove(tmp_path)


SOUND = {
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "innodb_flush_method": "O_DIRECT",
    "log_bin": "ON",
    "sync_binlog": "1",
}


@pytest.mark.parametrize(
    ("changes", "gives"),
    [
        ({}, set(Tier)),
        ({"sync_binlog": "0"}, {Tier.VOLATILE, Tier.PROCESS}),
        ({"sync_binlog": "0", "log_bin": "OFF"}, set(Tier)),
        ({"innodb_flush_method": "nosync"}, {Tier.VOLATILE, Tier.PROCESS}),
        ({"innodb_flush_log_at_trx_commit": "2"}, {Tier.VOLATILE, Tier.PROCESS}),
        ({"innodb_flush_log_at_trx_commit": "0"}, {Tier.VOLATILE}),
        ({"innodb_doublewrite": "OFF"}, {Tier.VOLATILE}),
        ({"innodb_doublewrite": "DETECT_ONLY"}, {Tier.VOLATILE}),
        ({"innodb_doublewrite": "DETECT_AND_RECOVER"}, set(Tier)),
    ],
)
def test_innodb_settings_determine_possible_tiers(changes: dict[str, str], gives: set[Tier]) -> None:
    assert {tier for tier in Tier if InnoDB.weaker(tier, {**SOUND, **changes}) is None} == gives


@every_client
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((SECRET, "wr0ng-Secret"), "Access denied for user 'u'"),
        (("/own", "/nowhere"), "Unknown database 'nowhere'"),
        (("/own", "/own?wanted=1"), "wanted is not known; there are: unix_socket, ssl_ca"),
        # This directory does not exist.
        (("/own", "/own?unix_socket=/nowhere/s"), "can't connect to mysql://u:***@127.0.0.1:"),
    ],
)
def test_address_error_is_one_line_without_password(
    server: Any, tmp_path: Path, client: str, change: tuple[str, str], said: str
) -> None:
    _, url = server
    wrong = url.replace(*change)
    with pytest.raises(Refused) as refused:
        job(tmp_path, UserServer(wrong, parse_address), url=wrong, client=client).open(tmp_path)
    told = str(refused.value)
    assert said in told
    assert "\n" not in told
    assert [secret for secret in (SECRET, PLAIN, "wr0ng-Secret") if secret in told] == []


def test_address_is_parsed_into_its_parts() -> None:
    assert parse_address("mysql://u:p%2F@h:33/d") == {
        "host": "h",
        "port": 33,
        "user": "u",
        "password": "p/",
        "database": "d",
    }
    assert parse_address("mariadb://h") == {"host": "h", "port": 3306}
    assert parse_address("mysql://root@localhost/?unix_socket=/run/s") == {"unix_socket": "/run/s", "user": "root"}
    with pytest.raises(UsageError, match="expected an address that begins with mysql://"):
        registry.engine("mysql").resolve({"url": "postgresql://u:p@h"})


def test_scan_without_index_raises_reads_of_next_row(server: Any, tmp_path: Path) -> None:
    counters = SPEC.counters
    assert counters is not None
    made, _ = server
    store = job(tmp_path / "store", made)
    engine: Any = store.open(store.home)
    with closing(engine), closing(store.spec.ports["records"].open(engine, True)) as port:
        port.insert({"name": f"n{number}", "location": "l", "stub": "x"} for number in range(1_000))
        before = counters.read(engine)
        port.reader().get(("n1", "l"))
        found = counters.read(engine)
        with closing(engine.connect()) as connection:
            connection.execute("SELECT count(*) FROM records WHERE stub = 'y'").fetchall()
        scanned = counters.read(engine)
    # The reading itself reads some rows of the status.
    assert found["Handler_read_rnd_next"] - before["Handler_read_rnd_next"] < 900
    scan = {name: scanned[name] - found[name] for name in ("Handler_read_rnd_next", "Handler_read_next")}
    assert sum(scan.values()) >= 1_000
    assert scanned["Innodb_buffer_pool_read_requests"] > found["Innodb_buffer_pool_read_requests"]
