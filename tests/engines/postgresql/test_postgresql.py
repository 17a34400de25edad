"""Guards the specifics of PostgreSQL: both of its clients give the same answers, also with pipelines of any size, and
its planner has statistics of a store before it is read. `test_records` and `test_durability` test the behaviour that
all engines share, and `test_real_server` a real server's life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needed import require
from serving import job, record, served
from shell import Shell, small, wait_for
from stores import Store, shared

from dyno import registry
from dyno.contracts.engine import Nodes
from dyno.contracts.model import Tier
from dyno.engines.postgresql import Postgres
from dyno.suites.records.conformance import CHECKS
from dyno.suites.records.port import Records

pytestmark = pytest.mark.usefixtures("processes")

SPEC = registry.engine("postgresql")
CLIENTS = ("psycopg", "pq")
DEFAULT = Store(SPEC, Tier.PROCESS)
LARGE = 1 << 16
"""Characters of a record: a few hundred such records far exceed a socket's buffers."""


@pytest.fixture(autouse=True)
def needed() -> None:
    require(SPEC)


def checked(check: str, place: Path, **given: str) -> None:
    """Runs a check with these options on the shared server."""
    store = Store(SPEC, Tier.PROCESS, given)

    def opened(name: str, indexed: bool) -> AbstractContextManager[Records]:
        return store.open(place / name, indexed, shared(DEFAULT))

    CHECKS[check](opened, Tier.PROCESS)


@contextmanager
def opened(place: Path, **given: str) -> Iterator[tuple[Any, Any]]:
    """The engine and its port, on the shared server."""
    asked = replace(job(place / "store", "postgresql", Tier.PROCESS, **given), server=shared(DEFAULT))
    with (
        closing(asked.open(asked.home)) as engine,
        closing(asked.spec.ports["records"].open(engine, True)) as port,
    ):
        yield engine, port


@pytest.mark.parametrize("check", CHECKS)
def test_store_passes_the_check_with_client_pq(check: str, place: Path) -> None:
    checked(check, place, client="pq")


@pytest.mark.parametrize("client", CLIENTS)
def test_pipelined_get_many_passes_its_check(client: str, place: Path) -> None:
    checked("many", place, client=client, many="pipeline")


@pytest.mark.parametrize("client", CLIENTS)
def test_pipeline_larger_than_socket_buffers_completes(client: str, place: Path) -> None:
    """Neither side may wait until the other reads."""
    records, absent = [record(number, "x" * LARGE) for number in range(400)], 9_600
    keys = [(one["name"], one["location"]) for one in map(record, range(400 + absent))]
    with opened(place, client=client, many="pipeline") as (_, port):
        port.insert(records)
        reader = port.reader()
        assert reader.get_many(keys) == [*records, *[None] * absent]
        assert reader.get(keys[0]) == records[0], "and the connection is as it was"


@pytest.mark.parametrize("client", CLIENTS)
def test_failed_pipeline_raises_and_the_next_succeeds(client: str, place: Path) -> None:
    keys = [("n000001", "l1"), ("n000002", "l2")]
    with opened(place, client=client, many="pipeline") as (engine, port):
        port.insert([record(1), record(2)])
        reader = port.reader()
        assert reader.get_many(keys) == [record(1), record(2)]
        other = engine.connect()
        other.execute("ALTER TABLE records RENAME TO elsewhere")
        with pytest.raises(Exception, match='relation "records" does not exist'):
            reader.get_many(keys)
        other.execute("ALTER TABLE elsewhere RENAME TO records")
        other.close()
        assert reader.get_many(keys) == [record(1), record(2)]


@pytest.mark.claim("A query planner has statistics of a store before the store is read")
def test_upkeep_gives_the_planner_statistics(place: Path) -> None:
    assert SPEC.upkeep is not None
    with opened(place) as (engine, port):
        port.insert(record(number) for number in range(5_000))
        SPEC.upkeep(engine)
        told = "SELECT reltuples, relallvisible > 0 FROM pg_class WHERE relname = 'records' AND reltuples > 0"
        with closing(engine.connect()) as other:
            assert other.execute(told).fetchall() == [(5_000, True)]


ON = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


@pytest.mark.parametrize(
    ("changes", "gives"),
    [
        ({}, set(Tier)),
        ({"synchronous_commit": "remote_apply"}, set(Tier)),
        ({"synchronous_commit": "off"}, {Tier.VOLATILE}),
        ({"fsync": "off"}, {Tier.VOLATILE, Tier.PROCESS}),
        ({"full_page_writes": "off"}, {Tier.VOLATILE, Tier.PROCESS}),
        ({"fsync": "off", "synchronous_commit": "off"}, {Tier.VOLATILE}),
    ],
)
def test_users_server_settings_determine_possible_tiers(changes: dict[str, str], gives: set[Tier]) -> None:
    assert {tier for tier in Tier if Postgres.weaker(tier, {**ON, **changes}) is None} == gives


# -- standbys -------------------------------------------------------------------------------------------------


def asked_of(node: Any, query: str) -> Any:
    """First row of the answer of this node."""
    import psycopg

    with psycopg.connect(**node.address, autocommit=True) as connection:
        return connection.execute(query).fetchone()


def records_of(node: Any) -> int:
    """Number of records on the node; 0 as long as it has not replicated the table itself."""
    found = asked_of(node, "SELECT schemaname FROM pg_tables WHERE tablename = 'records'")
    return int(asked_of(node, f"SELECT count(*) FROM {found[0]}.records")[0]) if found else 0


def test_standby_has_acknowledged_commits_and_recovers_from_loss(place: Path) -> None:
    asked = job(place / "store", "postgresql", Tier.VOLATILE, replicas="2", acknowledged="apply")
    server: Any
    engine: Any
    with served(asked) as server, closing(asked.open(asked.home)) as engine:
        settings = {
            name: engine.settings()[name] for name in ("synchronous_commit", "synchronous_standby_names", "nodes")
        }
        assert settings == {
            "synchronous_commit": "remote_apply",
            "nodes": 3,
            "synchronous_standby_names": "ANY 1 (standby_1, standby_2)",
        }
        assert [caveat.text for caveat in engine.caveats() if caveat.code == "node"] != []
        assert isinstance(asked.server, Nodes)
        assert server.count == server.copies == 3
        assert server.survives and not server.halts
        primary, *standbys = server.nodes
        with closing(asked.spec.ports["records"].open(engine, True)) as port:
            for number in range(20):
                port.insert([record(number)])
                assert max(map(records_of, standbys)) == number + 1, "by one of them at least, without a wait"
            before = set(server.pids())
            assert len(before) == 3
            server.lose(2)
            assert set(server.pids()) == {*primary.pids(), *standbys[0].pids()}
            port.insert(record(number) for number in range(20, 5_000))
            assert records_of(standbys[0]) == 5_000
            server.nodes[2].start()
            assert wait_for(lambda: records_of(standbys[1]) == 5_000)
    assert list(server.pids()) == []


def test_all_nodes_keep_records_after_stop_and_kill(place: Path) -> None:
    asked = job(place / "store", "postgresql", Tier.PROCESS, replicas="1", acknowledged="flush")
    with served(asked) as server:
        with (
            closing(asked.open(asked.home)) as engine,
            closing(asked.spec.ports["records"].open(engine, True)) as port,
        ):
            port.insert([record(1)])
        server.stop()
        assert list(server.pids()) == []
        server.start()
        # A commit that is on the standby's disk may not be visible in its tables yet.
        assert wait_for(lambda: [records_of(node) for node in server.nodes] == [1, 1])
        server.kill()
        server.start()
        assert wait_for(lambda: [records_of(node) for node in server.nodes] == [1, 1])
        assert "replicas=2" in server.halts


def test_asynchronous_standby_replicates_records(place: Path) -> None:
    asked = job(place / "store", "postgresql", Tier.PROCESS, replicas="1")
    with served(asked) as server, closing(asked.open(asked.home)) as store:
        engine: Any = store
        assert not server.survives and not server.halts
        assert engine.settings()["synchronous_standby_names"] == ""
        with closing(asked.spec.ports["records"].open(engine, True)) as port:
            port.insert([record(1)])
            assert wait_for(lambda: records_of(server.nodes[1]) == 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acknowledged": "apply"}, "acknowledged=apply needs a standby that does it: use replicas=1"),
        ({"replicas": "1", "url": "postgresql://me@db.example/test"}, "replicas are of a server of Dyno's own"),
    ],
)
def test_invalid_standby_options_are_refused(options: dict[str, str], said: str) -> None:
    assert said in (SPEC.refuse(Tier.PROCESS, SPEC.resolve(options)) or "")


# -- counters -------------------------------------------------------------------------------------------------

COUNTERS = SPEC.counters


def growth(engine: Any, work: Callable[[], object]) -> dict[str, int]:
    """By how much each counter grows while the work is done and published."""
    assert COUNTERS is not None and COUNTERS.publish is not None
    before = COUNTERS.read(engine)
    work()
    COUNTERS.publish(engine)
    after = COUNTERS.read(engine)
    return {each.name: after[each.name] - before[each.name] for each in COUNTERS.counters if each.name in before}


def test_scan_without_index_raises_rows_returned(place: Path) -> None:
    with opened(place) as (engine, port):
        port.insert(record(number) for number in range(5_000))
        session = engine.connect()
        scan = growth(engine, lambda: session.execute("SELECT count(*) FROM records WHERE stub = 'y'"))
        find = growth(engine, lambda: port.reader().get(("n000001", "l1")))
        session.close()
    assert scan["tup_returned"] >= 5_000
    assert find["tup_returned"] < 1_000


def test_flushed_commits_raise_flushes_of_the_log(place: Path) -> None:
    with served(job(place / "own", "postgresql", Tier.POWER)) as server:
        asked = replace(job(place / "store", "postgresql", Tier.POWER), server=server)
        with (
            closing(asked.open(asked.home)) as engine,
            closing(asked.spec.ports["records"].open(engine, True)) as port,
        ):
            grown = growth(engine, lambda: [port.insert([record(number)]) for number in range(20)])
    assert grown["wal_sync"] >= 20
    assert grown["wal_bytes"] > 1_000


@pytest.mark.claim(
    "PostgreSQL's own counters of a phase leave out the warm-up, although the server publishes them late"
)
@pytest.mark.parametrize("clients", [1, 3])
def test_rows_fetched_are_those_of_the_phase_alone(clients: int, shell: Shell) -> None:
    words = small(samples=1, param_records=1_000, clients=clients)
    ended = shell.dyno("run", "records", "-e", "postgresql", *words, "-o", shell.file)
    assert ended.status == 0, ended
    (trial,) = shell.attempts("postgresql")
    (sample,) = trial["samples"]
    # With the warm-up it would be about twice as many. The server's own work in the background may add a few.
    assert sample["operations"] <= sample["counters"]["tup_fetched"] < 1.2 * sample["operations"]


def test_user_without_a_right_gets_no_counters_and_a_remark(shell: Shell, place: Path) -> None:
    with served(job(place / "users", "postgresql", Tier.PROCESS)) as server:
        host = server.address["host"]
        port = server.address["port"]
        grants = (
            "REVOKE SELECT ON pg_stat_wal FROM PUBLIC",
            "CREATE ROLE guest LOGIN",
            "GRANT CREATE ON DATABASE postgres TO guest",
        )
        for statement in grants:
            execute_as_owner(server, statement)
        url = f"postgresql://guest@/postgres?host={host}&port={port}"
        words = small(samples=1, param_records=50)
        ended = shell.dyno("run", "records", "-e", f"postgresql:url={url}", *words, "-o", shell.file)
    assert ended.status == 0, ended
    (trial,) = shell.attempts("postgresql")
    (sample,) = trial["samples"]
    assert sample["items"] > 0
    assert sample["counters"] == {}
    remarks = [caveat["text"] for caveat in trial["caveats"] if caveat["code"] == "no-counters"]
    assert len(remarks) == 1 and "permission denied for view pg_stat_wal" in remarks[0]


def execute_as_owner(server: Any, statement: str) -> None:
    import psycopg

    with psycopg.connect(**server.address, autocommit=True) as connection:
        connection.execute(statement.encode())
