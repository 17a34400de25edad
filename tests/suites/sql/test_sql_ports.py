"""Tests every engine of the port `sql` by the port's checks, at each tier and with another client; the splitting of
scripts; the text in which rows are loaded; and the errors of transactions that the engine ended because of others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Barrier, Thread
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from held import Options, Store, holds, specs, stores
from shell import DISK

from dyno import registry
from dyno.contracts.engine import Server
from dyno.contracts.model import Refused, Tier, Wrong
from dyno.contracts.suite import Job
from dyno.engines.sqlite.sql import Sql as Sqlite
from dyno.suites.sql.conformance import BRIEF, CHECKS, TWO_CLIENT_CHECKS
from dyno.suites.sql.language.splitter import statements
from dyno.suites.sql.port import DEFAULT, Session
from dyno.suites.sql.tabbed import ROWS, blocks

pytestmark = pytest.mark.usefixtures("processes")

PORT = "sql"
SPECS = specs(PORT)
OPTIONS: Options = {"mariadb": [{"client": "c"}]}
STORES = list(stores(SPECS, OPTIONS))
DEFAULTS = [store for store in STORES if store.tier is store.spec.default_tier]


@pytest.mark.parametrize("store", STORES, ids=str)
def test_an_engine_passes_every_check_but_its_gaps(store: Store, place: Path) -> None:
    holds(store, place, port=PORT, look="persistence")


def test_gaps_name_checks() -> None:
    assert all(gap.check in CHECKS for spec in SPECS for gap in spec.gaps)
    assert set(BRIEF) <= set(CHECKS)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Serving(NamedTuple):
    store: Store
    place: Path
    server: Server | None


@pytest.fixture(scope="module", params=DEFAULTS, ids=str)
def serving(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """An engine with its server, if it has one, for several tests with a store each."""
    store: Store = request.param
    store.need()
    with ExitStack() as stack:
        place = Path(
            stack.enter_context(TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None))
        )
        place.chmod(0o755)
        server = store.spec.create_server(place / "server", store.tier, store.spec.resolve(store.given), 2)
        if server is not None:
            stack.enter_context(closing(server)).start()
        yield Serving(store, place, server)


@pytest.fixture
def clients(serving: Serving, stack: ExitStack) -> Any:
    """Opens clients of one engine, each with its own session."""
    store, place, server = serving
    home = Path(mkdtemp(dir=place))
    job = Job(store.spec, home, store.tier, store.spec.resolve(store.given), {}, seed=1, clients=2, server=server)
    engine = stack.enter_context(closing(job.open(job.home)))
    return lambda *session: job.port(engine, *session)


@pytest.mark.parametrize("check", TWO_CLIENT_CHECKS)
def test_two_client_checks_pass(clients: Any, check: str) -> None:
    with closing(clients()) as one, closing(clients()) as other:
        TWO_CLIENT_CHECKS[check](one, other)


STRICTEST = {"postgresql": "serializable", "mariadb": "serializable"}


def test_conflicting_transaction_is_aborted_and_rolled_back(clients: Any, serving: Serving, stack: ExitStack) -> None:
    """Two transactions read two rows, and then each changes one: DuckDB's the same one, others the one that the other
    has read."""
    store = serving.store
    if any(gap.check == "rollback" for gap in store.spec.gaps):
        pytest.skip("has no transactions")
    checking = stack.enter_context(closing(clients()))
    checking.define("CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER)")
    checking.load("t", {"id": [1, 2], "value": [10, 10]})
    read, barrier, outcomes = ["SELECT sum(value) FROM t"], Barrier(2, timeout=60), list[bool]()

    def work(row: int) -> None:
        with closing(clients(Session(STRICTEST.get(store.spec.name, "")))) as client:
            client.statement(["BEGIN"])([])
            assert client.statement(read)([]) == [(20,)]
            barrier.wait()
            try:
                client.statement(["UPDATE t SET value = value - 1 WHERE id = ", ""])([row])
                client.statement(["COMMIT"])([])
                outcomes.append(False)
            except Exception as error:
                outcomes.append(client.aborted(error))
                client.rollback()
                assert client.statement(read)([]) in ([(19,)], [(20,)])

    threads = [Thread(target=work, args=(1 if store.spec.name == "duckdb" else row,)) for row in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(outcomes) == [False, True]
    assert checking.statement(read)([]) == [(19,)]


def test_unknown_isolation_is_refused(clients: Any) -> None:
    with pytest.raises(Refused, match=r"isolation chaos is not offered; there is: [a-z]"):
        clients(Session("chaos"))


# -- the checks themselves ------------------------------------------------------------------------------------------


def text_pasted(port: Any, pieces: Sequence[str]) -> Any:
    def run(values: Sequence[Any]) -> Any:
        pairs = zip(pieces, [*map(repr, values), ""], strict=True)
        return Sqlite.statement(port, ["".join(chain(*pairs))])(())

    return run


def changed(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """A `statement` whose result is changed."""

    def statement(port: Any, pieces: Sequence[str], named: bool = False) -> Any:
        run = Sqlite.statement(port, pieces, named)
        return lambda values: change(run(values))

    return statement


def rows_changed(change: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    return changed(lambda result: change(result) if type(result) is list else result)


def load_without(remove: Callable[[list[Any]], list[Any]]) -> Callable[..., Any]:
    return lambda port, table, columns: Sqlite.load(port, table, {n: remove([*v]) for n, v in columns.items()})


def load_row_by_row(port: Any, table: str, columns: Any) -> None:
    for row in zip(*columns.values(), strict=True):
        Sqlite.load(port, table, dict(zip(columns, ([value] for value in row), strict=True)))


HOUR = timedelta(hours=1)
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "loses the last row": ({"load": load_without(lambda values: values[:-1])}, "values"),
    "stores NULL as 0": ({"load": load_without(lambda values: [0 if v is None else v for v in values])}, "values"),
    "rounds": ({"load": load_without(lambda vs: [round(v, 2) if type(v) is Decimal else v for v in vs])}, "values"),
    "local time": (
        {"load": load_without(lambda vs: [v + HOUR if isinstance(v, datetime) else v for v in vs])},
        "fractions",
    ),
    "lists for tuples": ({"statement": rows_changed(lambda rows: [*map(list, rows)])}, "parameters"),
    "one row only": ({"statement": rows_changed(lambda rows: rows[:1])}, "parameters"),
    "pastes values": ({"statement": lambda port, pieces, named=False: text_pasted(port, pieces)}, "parameters"),
    "formats the text": (
        {
            "statement": lambda port, pieces, named=False: Sqlite.statement(
                port, [p.replace("%%", "%") for p in pieces]
            )
        },
        "texts",
    ),
    "does not quote": ({"load": lambda port, table, columns: Sqlite.load(port, f"{table}.", columns)}, "keywords"),
    "no names": (
        {"statement": changed(lambda result: ([], result[1]) if type(result) is tuple else result)},
        "names",
    ),
    "first statement only": ({"define": lambda port, script: Sqlite.define(port, script.split(";")[0])}, "scripts"),
    "counts nothing": ({"statement": changed(lambda result: 0 if type(result) is int else result)}, "counts"),
    "no rollback": ({"rollback": lambda port: port._connection.commit()}, "rollback"),
    "loads row by row": ({"load": load_row_by_row}, "rollback"),
    "aborted by any error": ({"aborted": lambda port, error: True}, "rollback"),
    "may write": ({"__init__": lambda port, engine, session=DEFAULT: Sqlite.__init__(port, engine)}, "persistence"),
    "stores nothing": ({"close": lambda port: Sqlite.define(port, "DROP TABLE IF EXISTS t")}, "persistence"),
    "refuses by number": (
        {"__init__": lambda port, engine, session=DEFAULT: refuse(port, engine, session)},
        "isolations",
    ),
}


def refuse(port: Any, engine: Any, session: Session) -> None:
    Sqlite.__init__(port, engine, Session(read_only=session.read_only))
    if session.isolation:
        port.close()
        raise Refused("error 17")


@pytest.mark.claim("The conformance suite finds broken engines")
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_port_fails(how: str, tmp_path: Path) -> None:
    members, check = BROKEN[how]
    spec = registry.engine("sqlite")

    @contextmanager
    def opened(name: str, *session: Any) -> Iterator[Any]:
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        with closing(spec.opener(home, Tier.PROCESS, spec.resolve({}))) as engine:
            port = type("Broken", (Sqlite,), dict(members))(engine, *session)
            yield port
            port.close()

    with pytest.raises((Wrong, sqlite3.Error)):
        CHECKS[check](opened, Tier.PROCESS)


# -- scripts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "right"),
    [
        ("a; b", ["a", "b"]),
        (" ;; a ;\n; ", ["a"]),
        ("-- only; a comment\n/* another; */", []),
        ("a -- b; c\n; d", ["a -- b; c", "d"]),
        ("a ';' b; c \";\"", ["a ';' b", 'c ";"']),
        ("a 'it''s;' b; c", ["a 'it''s;' b", "c"]),
        ("a '\\'; b", ["a '\\'", "b"]),
        ("a E'\\';' b; c", ["a E'\\';' b", "c"]),
        ("a $$b; 'c$$; d", ["a $$b; 'c$$", "d"]),
        ("a $x$b;$$;$x$; c", ["a $x$b;$$;$x$", "c"]),
        ("a$1; b$1; c", ["a$1", "b$1", "c"]),
        ("a /* b; /* c; */ d; */ e; f", ["a /* b; /* c; */ d; */ e", "f"]),
        ("a 'never closed; b", ["a 'never closed; b"]),
        ("a /* never closed; b", ["a /* never closed; b"]),
        ("a # 1; b", ["a # 1", "b"]),
    ],
)
def test_script_splitting_ignores_quoted_and_commented_semicolons(script: str, right: list[str]) -> None:
    assert list(statements(script)) == right


@pytest.mark.parametrize(
    ("script", "right"),
    [
        ("a '\\';' b; c", ["a '\\';' b", "c"]),
        ('a "\\";" b; c', ['a "\\";" b', "c"]),
        ("a `;` b; c", ["a `;` b", "c"]),
        ("a # b; c\n; d", ["a # b; c", "d"]),
        ("a 5--1; b", ["a 5--1", "b"]),
        ("# only a comment", []),
        ("/*!40101 SET x */; a", ["/*!40101 SET x */", "a"]),
        ("a /* b; /* c; */ d; e", ["a /* b; /* c; */ d", "e"]),
    ],
)
def test_script_splitting_honors_mysql_escapes_and_comments(script: str, right: list[str]) -> None:
    assert list(statements(script, escaping=True)) == right


# -- rows as text ----------------------------------------------------------------------------------------------------


def test_rows_are_written_as_tab_separated_text() -> None:
    columns: dict[str, list[Any]] = {
        "a": [1, None, True],
        "b": ["a\tb\\\r\n", "", "ü"],
        "c": [b"\xff", Decimal("1.10"), 1e-300],
        "d": [datetime(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6), UUID(int=1)],
    }
    assert b"".join(blocks(columns, "\\\\x")).decode().split("\n") == [
        "1\ta\\tb\\\\\\r\\n\t\\\\xff\t2026-01-02 00:00:00",
        "\\N\t\t1.10\t2026-01-02 03:04:05.000006",
        "1\tü\t1e-300\t00000000-0000-0000-0000-000000000001",
        "",
    ]


@pytest.mark.parametrize("count", [0, 1, ROWS, ROWS + 1])
def test_every_row_is_in_a_block(count: int) -> None:
    assert b"".join(blocks({"a": [""] * count})) == b"\n" * count
