"""Guards the specifics of a Galera cluster of MariaDB servers: all nodes have the data that one has acknowledged, a
lost node catches up, and all nodes keep their data after a stop and after SIGKILL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from needed import require, unavailable
from serving import job, record, served
from shell import DISK

from dyno import registry
from dyno.contracts.engine import Nodes
from dyno.contracts.model import Tier, UsageError
from dyno.engines.mysql import server_galera
from dyno.engines.mysql.server_mariadb import MARIADB, PROGRAMS
from dyno.engines.mysql.tables import Transactions
from dyno.suites.oltp import Load, SysbenchTables

pytestmark = pytest.mark.usefixtures("processes")

SPEC = registry.engine("mariadb")
RESTLESS = """#!/bin/sh
# MariaDB, whose search for its position in the group never ends, as happens to 10.11, and whose next start fails once
# where there is a file "fail".
case " $* " in
    *" --wsrep-recover "*) {program} "$@"; exec sleep 1000 ;;
esac
rm "$(dirname "$0")/fail" 2> /dev/null && exit 1
exec {program} "$@"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, Any]]:
    """A store on three nodes, shared by all tests here because the nodes start slowly."""
    require(SPEC)
    if lacking := server_galera.explain_missing_library():
        unavailable(f"mariadb:nodes=3 {lacking}")
    with TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o755)
        asked = job(Path(place) / "store", "mariadb", Tier.PROCESS, nodes="3", program=str(restless(Path(place))))
        with served(asked) as server:
            insert(asked, range(20), each=True)
            yield asked, server


def restless(home: Path) -> Path:
    """Writes the program RESTLESS into `home`, beside the files that the real server needs."""
    found = PROGRAMS[MARIADB].executable()
    program = home / "bin" / "mariadbd"
    program.parent.mkdir()
    program.write_text(RESTLESS.format(program=found))
    program.chmod(0o755)
    (home / "share").symlink_to(Path(found).resolve().parents[1] / "share")
    return program


def insert(asked: Any, numbers: range, each: bool = False) -> None:
    """Inserts the records in one transaction, or each in its own."""
    with (
        closing(asked.open(asked.home)) as engine,
        closing(asked.spec.ports["records"].open(engine, True)) as port,
    ):
        for part in [range(number, number + 1) for number in numbers] if each else [numbers]:
            port.insert([record(number) for number in part])


def records_of(node: Any) -> int:
    """Number of records on the node once it has applied everything that was acknowledged before the query."""
    import pymysql

    with closing(pymysql.connect(**node.address)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION wsrep_sync_wait = 1")
        cursor.execute("SELECT table_schema FROM information_schema.tables WHERE table_name = 'records'")
        ((where,),) = cursor.fetchall()
        cursor.execute(f"SELECT count(*) FROM {where}.records")
        ((count,),) = cursor.fetchall()
        return int(count)


def test_every_node_has_all_acknowledged_records(cluster: tuple[Any, Any]) -> None:
    asked, server = cluster
    assert isinstance(asked.server, Nodes)
    assert server.count == server.copies == 3
    assert server.survives and not server.halts
    assert len(set(server.pids())) == 3
    before = records_of(server.nodes[0])
    insert(asked, range(before, before + 20), each=True)
    assert [records_of(node) for node in server.nodes] == [before + 20] * 3
    with closing(asked.open(asked.home)) as engine:
        assert engine.settings()["nodes"] == 3
        assert [caveat.text for caveat in engine.caveats() if caveat.code == "node"] != []
        assert len(list(engine.files())) % 3 == 0, "of all nodes"
    assert {node.status("wsrep_cluster_size") for node in server.nodes} == {"3"}


@pytest.mark.parametrize("number", [2, 0], ids=["last", "first"])
def test_a_node_that_was_lost_catches_up(cluster: tuple[Any, Any], number: int) -> None:
    asked, server = cluster
    before = records_of(server.nodes[1])
    insert(asked, range(before, before + 3))
    server.lose(number)
    assert len(set(server.pids())) == 2
    if number:
        insert(asked, range(before + 3, before + 5_000))
    survivors = [node for at, node in enumerate(server.nodes) if at != number]
    there = records_of(server.nodes[1])
    assert there == before + (5_000 if number else 3)
    assert {records_of(node) for node in survivors} == {there}
    # Galera ends a node that could not join, which is then started again.
    failure = asked.home.parent / "bin" / "fail"
    failure.touch()
    failure.parent.chmod(0o777)
    server.nodes[number].start()
    assert not failure.exists()
    assert {records_of(node) for node in server.nodes} == {there}
    assert {node.status("wsrep_cluster_size") for node in server.nodes} == {"3"}, "the group is still one"


def test_sysbench_writes_keep_the_number_of_rows(cluster: tuple[Any, Any]) -> None:
    asked, _ = cluster
    tables = SysbenchTables(1, 100, "uniform")
    with closing(asked.open(asked.home)) as engine, closing(Transactions(engine)) as port:
        port.fill(tables)
        port.run("oltp_write_only", tables, Load(clients=2, limit_ns=0, seed=1, events=10))
        assert port.rows(tables) == [100]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_all_nodes_keep_records_after_stop_or_kill(cluster: tuple[Any, Any], how: str) -> None:
    asked, server = cluster
    before = records_of(server.nodes[0])
    insert(asked, range(before, before + 10), each=True)
    getattr(server, how)()
    assert list(server.pids()) == []
    server.start()
    assert [records_of(node) for node in server.nodes] == [before + 10] * 3
    words = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    recovering = [each for each in words if "--wsrep-recover" in each and str(asked.home) in " ".join(each)]
    assert recovering == [], "one that has told its position is ended"


def test_group_secret_is_hidden_from_argv_and_public_files(cluster: tuple[Any, Any]) -> None:
    _, server = cluster
    secret = server.addresses[0].password
    assert secret and not any(secret in word for pid in server.pids() for word in psutil.Process(pid).cmdline())
    for node in server.nodes:
        assert (node.data.parent / server_galera.GROUP).stat().st_mode & 0o77 == 0
        assert node.status("wsrep_provider_version") != ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nodes": "3", "url": "mariadb://me@db.example/"}, "nodes are of a cluster of Dyno's own"),
        ({"nodes": "10"}, "nodes"),
        ({"nodes": "3", "set": "wsrep_on=OFF"}, "wsrep_on is not to be set here"),
    ],
)
def test_invalid_cluster_options_are_refused(options: dict[str, str], said: str) -> None:
    try:
        found = SPEC.refuse(Tier.PROCESS, SPEC.resolve(options)) or ""
    except UsageError as error:
        found = str(error)
    assert said in found


def test_two_node_cluster_says_a_loss_halts_it(tmp_path: Path) -> None:
    if lacking := server_galera.explain_missing_library():
        unavailable(f"mariadb:nodes=2 {lacking}")
    assert "nodes=3" in job(tmp_path / "store", "mariadb", Tier.PROCESS, nodes="2").server.halts  # type: ignore[union-attr]
