"""Guards the specifics of servers with MongoDB's protocol. Keys keep their order in one string. FerretDB loses
nothing that it acknowledged and accepts replacements of any size. MongoDB gets transactions where it needs them. A
user's own server is checked, used and left unchanged. `test_records` tests the behaviour that all engines share.

There is no mongod to test with, so its engine runs against FerretDB, which has no transactions.
"""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import psutil
import pytest
import serving
from hypothesis import given
from hypothesis import strategies as st
from needed import require
from serving import everything, key, opened, record, served
from shell import Shell

from dyno import registry
from dyno.contracts.model import Absent, Refused, Tier, UsageError
from dyno.contracts.suite import Job
from dyno.engines.mongo import engine_ferretdb, engine_mongodb, store
from dyno.engines.mongo.store import DocumentRecords
from dyno.servers import namespace
from dyno.suites.records.conformance import CHECKS
from dyno.suites.records.port import Key, Record, identity

pytestmark = pytest.mark.usefixtures("processes")


def job(home: Path, engine: str = "ferretdb", tier: Tier = Tier.PROCESS, **given: str) -> Job:
    """A store in `home`, with its server, which is not started."""
    require(registry.engine("ferretdb"))
    return serving.job(home, engine, tier, **given)


@pytest.fixture(scope="module")
def own(shared_shell: Shell) -> Iterator[Any]:
    """FerretDB running as a user's own server, which Dyno gets by its address."""
    with served(job(shared_shell.work.parent / "own")) as server:
        yield server


# -- the port ---------------------------------------------------------------------------------------------

part = st.text(st.sampled_from("\0\1\2aé\uffff\U0010ffff"), max_size=4)


@given(st.tuples(part, part), st.tuples(part, part))
def test_identities_sort_like_their_keys(one: Key, other: Key) -> None:
    def packed(key: Key) -> tuple[bytes, ...]:
        return tuple(each.encode() for each in key)

    assert (identity(*one).encode() < identity(*other).encode()) == (packed(one) < packed(other))
    assert (identity(*one) == identity(*other)) == (one == other)


def test_keys_of_unusual_characters_are_kept_and_ordered(place: Path) -> None:
    # FerretDB stores keys as JSON, in which each of these needs a different escape.
    names = ["", "\0", "a\0", "a\1", "a", 'q"', "back\\slash", "<&>", "\u2028", "é", "\U0001f98a"]
    every = [{"name": name, "location": place, "stub": "s"} for name in names for place in ("", "\0", "L")]
    asked = job(place / "store")
    with served(asked), opened(asked) as port:
        port.insert(every)
        wanted = sorted(every, key=lambda one: (one["name"].encode(), one["location"].encode()))
        assert everything(port) == wanted
        for one in every:
            assert port.reader().get(key(one)) == one
            assert port.delete([key(one)]) == [True]


def test_replacing_many_records_completes_correctly(place: Path) -> None:
    """FerretDB has 100 connections to SQLite, and would never answer a message that replaces more documents."""
    numbers = [*range(240), *range(100, 140), 7]
    truth = {key(record(number)): record(number, "old") for number in range(0, 260, 2)}
    asked = job(place / "store")
    answers: list[list[Record | None]] = []
    with served(asked) as server, opened(asked) as port:
        port.insert(truth.values())
        news = [record(number, f"v{place}") for place, number in enumerate(numbers)]
        wanted = []
        for new in news:
            wanted.append(truth.get(key(new)))
            truth[key(new)] = new
        asking = Thread(target=lambda: answers.append(port.replace(iter(news))), daemon=True)
        asking.start()
        asking.join(60)
        if asking.is_alive():
            server.kill()
        assert answers == [wanted]
        assert everything(port) == [truth[k] for k in sorted(truth)]
        keys = [key(record(number)) for number in [*numbers, 261, 263]]
        assert port.delete(iter(keys)) == [truth.pop(k, None) is not None for k in keys]
        assert everything(port) == [truth[k] for k in sorted(truth)] != []


@pytest.mark.parametrize("tier", [Tier.PROCESS, Tier.POWER], ids=lambda tier: tier.value)
def test_acknowledged_writes_survive_a_server_kill(tier: Tier, place: Path) -> None:
    """Only completed transactions count: the one in flight at the kill may be there in part."""
    asked = job(place / "store", tier=tier)
    with served(asked) as server:
        for start in (0, 50):
            with opened(asked) as port:
                port.insert([record(number) for number in range(start, start + 40)])
                port.delete([key(record(start))])
                port.replace([record(start + 1, "new")])
            server.kill()
            assert list(server.pids()) == []
            server.start()
        with opened(asked) as port:
            kept = {one["name"]: one["stub"] for one in everything(port)}
            assert sorted(kept) == [record(n)["name"] for n in (*range(1, 40), *range(51, 90))]
            assert [name for name, stub in kept.items() if stub == "new"] == ["n000001", "n000051"]
            assert port.reader().finder("rev_name")("980000n") == record(89)


def test_mongodb_uses_transactions_only_for_several_records(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of one record are sent without a transaction. FerretDB has no transactions, so the test inspects the
    commands that were sent.
    """
    from pymongo import monitoring
    from pymongo.errors import OperationFailure

    class Sent(monitoring.CommandListener):
        def __init__(self) -> None:
            self.found: list[tuple[str, bool]] = []

        def started(self, event: monitoring.CommandStartedEvent) -> None:
            self.found.append((event.command_name, event.command.get("autocommit") is False))

        def succeeded(self, event: Any) -> None: ...

        failed = succeeded

    sent = Sent()
    monkeypatch.setattr(store, "connect", partial(store.connect, event_listeners=[sent]))
    asked = job(place / "store", "mongodb", url="mongodb://unused")
    with (
        served(job(place / "other")) as server,
        closing(engine_mongodb.Mongo(asked.home, Tier.PROCESS, asked.options, server)) as engine,
    ):
        port = DocumentRecords(engine, True)

        def read() -> None:
            with port.reading() as reader:
                reader.get(key(record(1)))
                reader.finder("rev_name")("x")
                reader.scanner(2)(key(record(1)))

        alone: dict[str, Callable[[], Any]] = {
            "insert": lambda: port.insert([record(1)]),
            "findAndModify": lambda: port.replace([record(1, "new")]),
            "find": lambda: port.reader().get(key(record(1))),
            "delete": lambda: port.delete([key(record(1))]),
        }
        for name, call in alone.items():
            sent.found.clear()
            call()
            assert sent.found == [(name, False)]
        port.insert([record(1)])
        several: list[tuple[set[str], Callable[[], Any]]] = [
            ({"find"}, read),
            ({"insert"}, lambda: port.insert([record(2), record(3)])),
            ({"find", "insert"}, lambda: port.replace([record(2), record(3)])),
            ({"find", "update"}, lambda: port.replace([record(1), record(1, "new")])),
            ({"find", "delete"}, lambda: port.delete([key(record(1)), key(record(2))])),
        ]
        for names, call in several:
            sent.found.clear()
            with pytest.raises(OperationFailure, match=r"autocommit|startTransaction|commitTransaction"):
                call()
            assert {name for name, inside in sent.found if inside} - {
                "commitTransaction",
                "abortTransaction",
            } == names
            assert all(inside for _, inside in sent.found)


# -- a server of Dyno's own -------------------------------------------------------------------------------


def test_dynos_server_listens_only_on_a_unix_socket(place: Path) -> None:
    asked = job(place / "store")
    with served(asked) as server:
        (pid,) = server.pids()
        assert psutil.Process(pid).net_connections("inet") == []
        assert psutil.Process(pid).net_connections("unix") != []
        assert stat.S_IMODE((place / "store-server").stat().st_mode) == 0o700
        with opened(asked) as port:
            port.insert([record(1)])
        with closing(asked.open(asked.home)) as engine:
            assert engine.version().startswith(f"FerretDB {engine_ferretdb.PINNED.version} (pymongo ")
            assert {caveat.code for caveat in engine.caveats()} == {"scans", "not-atomic"}
            assert [path.suffix for path in engine.files()].count(".sqlite") == 1
        asked.remove(asked.home)
        assert list(server.data.glob("dyno_*.sqlite")) == []
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    "server", [engine_ferretdb, engine_mongodb], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_missing_program_error_says_how_to_install(server: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    if server.PROGRAM.explain_missing() is None:
        pytest.skip("it is where the administrator's programs are")
    missing = server.PROGRAM.explain_missing()
    assert "dyno install ferretdb" in missing or "vendor's packages" in missing
    assert missing.endswith("or name your own with url=")
    with pytest.raises(Refused, match=r"^needs "):
        server.MongoDB(place, 256) if server is engine_mongodb else server.FerretDB(place, {})


# -- a user's own server ----------------------------------------------------------------------------------


def url(server: Any, user: str = "") -> str:
    return f"mongodb://{user}{quote(str(server.path), safe='')}/?directConnection=true"


def theirs(place: Path, server: Any, engine: str = "ferretdb", tier: Tier = Tier.VOLATILE, **given: str) -> Job:
    return job(place / f"of-{engine}", engine, tier, url=url(server), **given)


@pytest.mark.parametrize("check", CHECKS)
def test_mongodbs_port_passes_the_check_without_transactions(check: str, own: Any, place: Path) -> None:
    asked = theirs(place, own, "mongodb", transactions="no")

    @contextmanager
    def each(name: str, indexed: bool) -> Iterator[Any]:
        one = replace(asked, home=place / name)
        one.home.mkdir(exist_ok=True)
        with (
            closing(one.open(one.home)) as engine,
            closing(one.spec.ports["records"].open(engine, indexed)) as port,
        ):
            yield port

    # Atomicity needs the server's transactions, which FerretDB lacks.
    if check != "atomicity":
        CHECKS[check](each, Tier.VOLATILE)


def test_users_server_is_used_and_left_unchanged(own: Any, place: Path) -> None:
    gone = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, text=True).stdout.strip()
    left = f"dyno_{namespace._machine()}_{gone}_01234567"
    with closing(store.connect(own)) as client:
        before = {*client.list_database_names()}
        for name in ("mine", "dyno_mine", left):
            client[name].things.insert_one({"_id": 1})
    asked = theirs(place, own)
    server: Any = asked.server
    with opened(asked) as port:
        port.insert([record(1), record(2)])
    with closing(store.connect(own)) as client:
        assert {*client.list_database_names()} - before == {"mine", "dyno_mine", namespace.store_name(asked.home)}
    with closing(asked.open(asked.home)) as engine:
        assert {caveat.code for caveat in engine.caveats()} == {"scans", "not-atomic", "declared", "no-tls"}
        assert list(engine.files()) == list(server.pids()) == []
    for refused in (server.stop, server.kill):
        with pytest.raises(Absent, match="your own"):
            refused()
    asked.remove(asked.home)
    with closing(store.connect(own)) as client:
        assert {*client.list_database_names()} == {*before, "mine", "dyno_mine"}


@pytest.mark.parametrize(
    ("tier", "transactions", "why"),
    [
        (Tier.VOLATILE, "no", None),
        (Tier.VOLATILE, "yes", "in no replica set, so that it has no transactions; try transactions=no"),
        (Tier.PROCESS, "no", "does not say that it keeps a journal, so that it can't give tier process"),
        (Tier.POWER, "no", "so that it can't give tier power"),
    ],
)
def test_users_server_is_checked_for_tier_and_transactions(
    tier: Tier, transactions: str, why: str | None, own: Any, place: Path
) -> None:
    asked = theirs(place, own, "mongodb", tier, transactions=transactions)
    if why is None:
        with closing(asked.open(asked.home)) as engine:
            assert engine.settings()["journal"] is False
            assert engine.version().startswith("FerretDB ")
            assert {caveat.code for caveat in engine.caveats()} == {"not-atomic", "declared", "no-tls", "session"}
    else:
        with pytest.raises(Refused, match=why):
            asked.open(asked.home)


@pytest.mark.parametrize("engine", ["mongodb", "ferretdb"])
def test_unreachable_server_error_is_one_line_without_password(
    engine: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "TIMEOUT_MS", 100)
    address = f"mongodb://me:s3cr%3At@{quote(str(place / 'none.sock'), safe='')}/"
    asked = job(place / "store", engine, url=address)
    with pytest.raises(Refused, match=r"^can't connect to mongodb://me:\*\*\*@.*No such file") as refused:
        asked.open(asked.home)
    assert "s3cr" not in str(refused.value) and "\n" not in str(refused.value)
    assert "Topology" not in str(refused.value)


@pytest.mark.parametrize("address", ["http://host/", "localhost", "mongodb://host:port/"])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        registry.engine("mongodb").resolve({"url": address})
