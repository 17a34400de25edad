"""Kills processes at many moments of a store's life on a user's own server. The next run finds all that they left by
its name, and the server then has what the user put there, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import quote

import pytest
from needed import require
from serving import job, opened, served
from shell import kill_at_moments

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job
from dyno.servers import namespace

pytestmark = pytest.mark.usefixtures("processes")

MACHINE = namespace._machine()
GONE = 4_194_305
"""Exceeds the kernel's highest process ID."""
USERS = (
    "mine",
    "dyno",
    "dyno_mine",
    "dyno_stores",
    f"dyno_{MACHINE}",
    f"dyno_{MACHINE}_{GONE}_0123abcdx",
    f"dyno_{MACHINE}_{GONE}_g123abcd",
    f"xdyno_{MACHINE}_{GONE}_0123abcd",
)
"""Names of the user's. Several resemble Dyno's, but none has their form."""
ABANDONED = (f"dyno_{MACHINE}_{GONE}_01234567_0123abcd", f"dyno_{MACHINE}_{GONE}_0123abcd")
"""Names of dead processes, the second one as version 0.1.0 made them."""


class OwnRedis:
    moments = 20

    def __init__(self, server: Any) -> None:
        import redis

        self._client = redis.Redis(**server.address)
        self.url = f"unix://{server.path}?db=0"
        # A name without a colon is no prefix, and so the user's.
        self._client.set(ABANDONED[0], "1")

    def add(self, name: str) -> None:
        self._client.set(f"{name}:x", "1")

    def content(self) -> set[Any]:
        return {(key, self._client.dump(key)) for key in self._client.scan_iter()}


class OwnPostgresql:
    moments = 6

    def __init__(self, server: Any) -> None:
        at = server.address
        self._address = at
        host = quote(at["host"], safe="")
        self.url = f"postgresql://{at['user']}@{host}:{at['port']}/{at['dbname']}"

    def _execute(self, statement: str) -> Any:
        import psycopg

        with psycopg.connect(**self._address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def add(self, name: str) -> None:
        self._execute(f"CREATE SCHEMA {name}")
        self._execute(f"CREATE TABLE {name}.x (x int)")

    def content(self) -> set[Any]:
        schemas = self._execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'")
        tables = self._execute("SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^pg_'")
        return {*schemas, *tables}


class OwnMariadb:
    moments = 6

    def __init__(self, server: Any) -> None:
        at = server.address
        self._address = {"unix_socket": at["unix_socket"], "user": at["user"]}
        self.url = f"mariadb://{at['user']}@/?unix_socket={quote(at['unix_socket'])}"

    def _execute(self, statement: str) -> Any:
        import pymysql

        with closing(pymysql.connect(**self._address)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def add(self, name: str) -> None:
        self._execute(f"CREATE DATABASE {name}")
        self._execute(f"CREATE TABLE {name}.x (x int)")

    def content(self) -> set[Any]:
        tables = "SELECT table_schema, table_name FROM information_schema.tables"
        return {*self._execute("SHOW DATABASES"), *self._execute(tables)}


class OwnFerretdb:
    moments = 6

    def __init__(self, server: Any) -> None:
        from pymongo import MongoClient

        self.url = f"mongodb://{quote(str(server.path), safe='')}/?directConnection=true"
        # A new client each time, since clients don't survive a fork.
        self._client: Callable[[], Any] = lambda: MongoClient(self.url)

    def add(self, name: str) -> None:
        with self._client() as client:
            client[name].x.insert_one({"_id": 1})

    def content(self) -> set[Any]:
        with self._client() as client:
            return set(client.list_database_names())


OWN = {"redis": OwnRedis, "postgresql": OwnPostgresql, "mariadb": OwnMariadb, "ferretdb": OwnFerretdb}


@pytest.fixture(params=OWN)
def own(request: pytest.FixtureRequest, place: Path) -> Iterator[tuple[str, Any]]:
    """A server that Dyno gets as the user's own, by its address."""
    require(registry.engine(request.param))
    with served(job(place / "users", request.param, Tier.VOLATILE)) as server:
        yield request.param, OWN[request.param](server)


def churn(asked: Job) -> Callable[[], None]:
    """Returns a function that opens, fills and removes a new store."""

    def once() -> None:
        one = replace(asked, home=Path(mkdtemp(dir=asked.home)))
        with opened(one) as port:
            port.insert({"name": f"n{number}", "location": "l", "stub": "x"} for number in range(300))
        one.remove(one.home)

    return once


@pytest.mark.claim("A user's server is left as it was and is not stopped")
def test_next_store_removes_leftovers_of_killed_trials(own: tuple[str, Any], place: Path) -> None:
    engine, users = own
    for name in USERS:
        users.add(name)
    before = users.content()
    asked = job(place / "killed", engine, Tier.VOLATILE, url=users.url)
    kill_at_moments(churn(replace(asked, home=place)), users.moments)
    # These names are on the server alone.
    for name in ABANDONED:
        users.add(name)
    assert users.content() != before
    with opened(asked):
        pass
    asked.remove(asked.home)
    assert users.content() == before
