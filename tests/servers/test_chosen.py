"""Tests the option `program` of every server that has it: a program that can't be started is refused in one line
before anything else starts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Shell, is_one_line, small

from dyno import registry
from dyno.contracts.model import Tier
from dyno.servers.program_option import PROGRAM

pytestmark = pytest.mark.usefixtures("processes")

SAYS = {
    "clickhouse": "ClickHouse server version 24.8.1.1.",
    "ferretdb": "version: v1.24.0",
    "influxdb": "InfluxDB v1.6.7~rc0 (git: unknown unknown)",
    "mariadb": "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
    "minio": "minio version RELEASE.2025-04-22T22-12-26Z",
    "mongodb": "db version v7.0.14",
    "mysql": "mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)",
    "nginx": "nginx version: nginx/1.22.1",
    "postgresql": "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
    "redis": "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64",
    "valkey": "Valkey server v=8.1.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64",
    "versitygw": "Version  : v1.8.0",
    "victoriametrics": "victoria-metrics is a time series database and monitoring solution.",
}
"""Version output of each vendor's program, in a version that Dyno can run."""
OLD = {
    "ferretdb": "version: v2.0.0",
    "influxdb": "InfluxDB v2.7.1 (git: 407fa622e9)",
    "mariadb": "mysqld  Ver 10.3.39-MariaDB for debian-linux-gnu on x86_64",
    "mongodb": "db version v4.4.29",
    "mysql": "mysqld  Ver 5.7.44 for Linux on x86_64 (MySQL Community Server (GPL))",
    "nginx": "nginx version: nginx/1.18.0",
    "postgresql": "postgres (PostgreSQL) 9.6.24",
    "redis": "Redis server v=6.0.20 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64",
}
every_server = pytest.mark.parametrize("engine", SAYS)


def saying(place: Path, text: str, *beside: str) -> str:
    """Creates a program that prints `text` whatever its arguments, and copies with the names in `beside`."""
    for name in ("program", *beside):
        (place / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (place / name).chmod(0o755)
    return str(place / "program")


def lacking(engine: str, path: object) -> str | None:
    spec = registry.engine(engine)
    return spec.installation.needs(spec.resolve({PROGRAM: str(path)}))


def test_engines_with_program_option_are_all_tested() -> None:
    assert {s.name for s in registry.engines() if PROGRAM in {option.name for option in s.options}} == SAYS.keys()


@every_server
def test_program_of_the_right_kind_is_accepted(engine: str, place: Path) -> None:
    assert lacking(engine, saying(place, SAYS[engine], "initdb")) is None


@every_server
@pytest.mark.parametrize("other", ["true (GNU coreutils) 9.1", ""])
def test_program_of_another_kind_is_refused(engine: str, other: str, place: Path) -> None:
    path = saying(place, other)
    told = lacking(engine, path)
    assert told is not None and told.startswith(f"can't start {path}: it is no ") and is_one_line(told + "\n")
    assert told.endswith(f"it says: {other or 'nothing'}")


def test_mariadb_and_mysql_are_not_interchangeable(place: Path) -> None:
    assert "is no MySQL server" in str(lacking("mysql", saying(place, SAYS["mariadb"])))
    (place / "other").mkdir()
    assert "is no MariaDB server" in str(lacking("mariadb", saying(place / "other", SAYS["mysql"])))


@pytest.mark.parametrize("engine", OLD)
def test_unsupported_version_is_refused(engine: str, place: Path) -> None:
    told = str(lacking(engine, saying(place, OLD[engine], "initdb")))
    assert ": it is version " in told and "and Dyno can run " in told


@every_server
def test_missing_or_unexecutable_program_is_refused(engine: str, place: Path) -> None:
    file = place / "file"
    assert lacking(engine, file) == f"can't start {file}: there is no such file"
    file.write_text(SAYS[engine])
    assert lacking(engine, file) == f"can't start {file}: it is not executable"
    assert "it is a directory" in str(lacking(engine, place))


def test_program_without_its_helper_is_refused(place: Path) -> None:
    assert str(lacking("postgresql", saying(place, SAYS["postgresql"]))).endswith(
        f": initdb is not beside it, in {place}"
    )


def test_helpers_are_looked_up_beside_symlink_target(place: Path) -> None:
    path = saying(place, SAYS["postgresql"], "initdb")
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "pg").symlink_to(path)
    assert lacking("postgresql", place / "elsewhere" / "pg") is None


def test_relative_program_path_is_resolved_against_cwd(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert registry.engine("redis").resolve({PROGRAM: "bin/redis"})[PROGRAM] == str(place / "bin" / "redis")


def test_program_and_url_exclude_each_other() -> None:
    spec = registry.engine("mongodb")
    told = spec.refuse(Tier.PROCESS, spec.resolve({PROGRAM: "/usr/bin/mongod", "url": "mongodb://h/"}))
    assert "leave one of them out" in str(told)


def test_missing_program_is_refused_before_the_run(shell: Shell, place: Path) -> None:
    ended = shell.dyno("run", "records", "-e", f"sqlite,redis:program={place}/none", *small(), "-o", shell.file)
    assert ended.status == 2 and is_one_line(ended.err)
    assert f"engine redis can't start {place}/none: there is no such file" in ended.err
    assert not shell.file.exists()
