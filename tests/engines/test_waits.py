"""What the sessions of real servers wait for, as the profiled trial samples it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread, Timer
from time import sleep
from typing import Any

import pytest
from needed import require
from shell import Shell, small
from stores import Store, shared

from dyno import registry, results
from dyno.contracts.counters import RUNNING
from dyno.contracts.model import Refused
from dyno.contracts.suite import Job
from dyno.engines.mysql.counters import UNRECORDED
from dyno.host import perf

pytestmark = pytest.mark.usefixtures("processes")

TROUBLE = perf.find_trouble()
needs_perf = pytest.mark.skipif(TROUBLE is not None, reason=str(TROUBLE))
RECORDED = {"set": "performance_schema=on"}
SECONDS = 0.5
"""Time that a session waits."""


@contextmanager
def opened(name: str, home: Path, given: dict[str, str]) -> Iterator[tuple[Any, Callable[[], list[str]]]]:
    """The engine, and a function that returns what its server's other sessions wait for."""
    spec = registry.engine(name)
    require(spec)
    store = Store(spec, spec.default_tier or next(iter(spec.tiers)), given)
    waits = store.spec.waits
    assert waits is not None
    home.mkdir()
    options = store.spec.resolve(given)
    job = Job(store.spec, home, store.tier, options, {}, seed=1, clients=1, server=shared(store))
    with closing(job.open(home)) as engine, closing(waits.connect(job.server, options)) as session:
        yield engine, lambda: list(waits.read(session))


def read_meanwhile(session: Any, statement: str, read: Callable[[], list[str]]) -> list[str]:
    """What is read at moments while the session executes the statement."""
    moments = []
    busy = Thread(target=session.execute, args=(statement,))
    busy.start()
    while busy.is_alive():
        moments.append(read())
        sleep(0.02)
    busy.join()
    # It begins and ends meanwhile.
    return [event for moment in moments[2:-2] for event in moment]


@pytest.mark.parametrize(("name", "given"), [("postgresql", {}), ("mariadb", RECORDED)])
def test_idle_sessions_are_not_counted(name: str, given: dict[str, str], place: Path) -> None:
    with opened(name, place / "store", given) as (engine, read), closing(engine.connect()) as idle:
        idle.execute("SELECT 1").fetchall()
        assert read() == []


def test_postgresqls_sessions_wait_for_a_timeout(place: Path) -> None:
    with opened("postgresql", place / "store", {}) as (engine, read), closing(engine.connect()) as session:
        events = read_meanwhile(session, f"SELECT pg_sleep({SECONDS})", read)
    assert len(events) >= 5
    assert set(events) == {"Timeout PgSleep"}


@pytest.mark.parametrize(
    ("name", "given", "lock", "unlock", "event"),
    [
        ("postgresql", {}, "BEGIN; LOCK TABLE locked", "COMMIT", "Lock relation"),
        ("mariadb", RECORDED, "LOCK TABLES locked WRITE", "UNLOCK TABLES", "lock/metadata/sql/mdl"),
    ],
)
def test_sessions_wait_for_a_lock(
    name: str, given: dict[str, str], lock: str, unlock: str, event: str, place: Path
) -> None:
    with (
        opened(name, place / "store", given) as (engine, read),
        closing(engine.connect()) as holder,
        closing(engine.connect()) as session,
    ):
        holder.execute("CREATE TABLE locked (number int)")
        holder.execute(lock)
        Timer(SECONDS, holder.execute, [unlock]).start()
        events = read_meanwhile(session, "INSERT INTO locked VALUES (1)", read)
    assert len(events) >= 5
    assert set(events) == {event}


@pytest.mark.parametrize(
    ("name", "given", "work", "state"),
    [
        ("postgresql", {}, "SELECT sum(n) FROM generate_series(1, 3000000) n", RUNNING),
        ("mariadb", RECORDED, "SELECT BENCHMARK(3000000, SHA1('x'))", UNRECORDED),
    ],
)
def test_computing_session_waits_for_nothing(
    name: str, given: dict[str, str], work: str, state: str, place: Path
) -> None:
    with opened(name, place / "store", given) as (engine, read), closing(engine.connect()) as session:
        events = read_meanwhile(session, work, read)
    assert len(events) >= 5
    assert events.count(state) > len(events) / 2


def test_waits_need_mariadbs_performance_schema(place: Path) -> None:
    with pytest.raises(Refused, match="performance_schema is off"), opened("mariadb", place / "store", {}):
        pass


@needs_perf
def test_profile_has_waits_of_the_clients_sessions(shell: Shell) -> None:
    # Inserts end when the records are in; updates go on for two seconds.
    options = small(samples=1, clients=2, param_records=300, param_txn=1, phases="update")
    engine = "postgresql:tier=power"
    status, _, err = shell.dyno("run", "records", "-e", engine, *options, "--profile", "-o", shell.file)
    assert status == 0, err
    (profiled, *_) = results.load(shell.file).profiled
    assert profiled.missing == []
    (profile,) = profiled.phases
    assert profile.wait_events is not None and profile.server is not None and profile.client is not None
    # Each commit flushes the log.
    assert {"IO WALSync", "LWLock WALWrite"} & profile.wait_events.keys()
    assert sum(profile.wait_events.values()) >= 5
    # Neither the sampling process nor its session is in the profile.
    assert "pg_stat_get_activity" not in str(profile.server.frames)
    printed = shell.dyno("why", shell.file).out
    assert ": waits of the server: " in printed
    (shown,) = json.loads(shell.dyno("why", shell.file, "--json").out)["profiles"]
    assert sum(shown["waits"].values()) == pytest.approx(1)


@needs_perf
def test_missing_waits_cost_one_line_and_no_profile(shell: Shell) -> None:
    options = small(samples=1, param_records=200, phases="insert,rand-key")
    status, _, err = shell.dyno("run", "records", "-e", "mariadb", *options, "--profile", "-o", shell.file)
    assert status == 0, err
    (profiled, *_) = results.load(shell.file).profiled
    assert profiled.outcome == "ok"
    assert [each.wait_events for each in profiled.phases] == [None, None]
    assert all(each.server is not None for each in profiled.phases)
    (line,) = profiled.missing
    assert line.startswith("waits: performance_schema is off: set.performance_schema=on gives them")
    assert f"mariadb: no profile of {line}" in " ".join(shell.dyno("why", shell.file).out.split())
