"""Tests settings that a version of a server doesn't have: Dyno's own are left out and reported, and a tier's and the
user's are refused."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from platform import machine
from typing import Any

import pytest
from needed import require, unavailable
from shell import Shell, small

from dyno import registry
from dyno.contracts import versions
from dyno.contracts.model import Refused
from dyno.contracts.versions import Maven
from dyno.engines.mysql import server_mariadb
from dyno.engines.postgresql import server as server_postgresql
from dyno.engines.redis import engines as engines_redis
from dyno.engines.redis.engines import REDIS
from dyno.servers.known_settings import LEFT_OUT, describe_left_out, fit_settings

pytestmark = pytest.mark.usefixtures("processes")

KNOWN = {
    "postgresql": {"jit": "off", "max_wal_size": "1GB", "some.name": "1"},
    "mariadb": {
        "skip-networking": "ON",
        "innodb_log_file_size": "1G",
        "innodb-log-file-siz": "1G",
        "loose-absent": "1",
    },
    "redis": {"port": "0", "save": "", "appendonly": "yes"},
}
UNKNOWN = {
    "postgresql": {"absent_one": "1", "Absent_two": "off"},
    "mariadb": {"absent-one": "1", "skip-absent_two": "OFF"},
    "redis": {"absent-one": "1", "absent-two": "a b"},
}
FAMILIES = {"postgresql": server_postgresql, "mariadb": server_mariadb, "redis": engines_redis}
VERSIONS = ("postgresql@17.11.0", "mariadb@11.4.5")
every_family = pytest.mark.parametrize("engine", FAMILIES)


def find_program(engine: str) -> str:
    """Returns the path of the installed program."""
    require(registry.engine(engine))
    if engine == "postgresql":
        return server_postgresql.PROGRAM.executable()
    if engine == "mariadb":
        return server_mariadb.PROGRAMS[server_mariadb.MARIADB].executable()
    return "/usr/bin/redis-server"


def find_unknown(engine: str, settings: Mapping[str, str]) -> set[str]:
    module: Any = FAMILIES[engine]
    return set(module.find_unknown_settings(find_program(engine), settings))


@every_family
def test_program_says_which_settings_it_lacks(engine: str) -> None:
    assert find_unknown(engine, KNOWN[engine]) == set()
    assert find_unknown(engine, {**KNOWN[engine], **UNKNOWN[engine]}) == set(UNKNOWN[engine])


def test_only_own_settings_are_left_out() -> None:
    def find(path: str, settings: Mapping[str, str]) -> list[str]:
        return [name for name in settings if name.startswith("new")]

    fitted = fit_settings("/program", {"old": "1", "new": "2"}, {"tier": "on"}, find)
    assert (dict(fitted.settings), fitted.left_out) == ({"old": "1", "tier": "on"}, ("new",))
    with pytest.raises(Refused, match="this version has no setting new_one, new_two"):
        fit_settings("/program", {"old": "1"}, {"new_one": "1", "new_two": "2", "tier": "on"}, find)


def test_installed_program_is_not_asked() -> None:
    def find(path: str, settings: Mapping[str, str]) -> list[str]:
        raise AssertionError(path)

    assert fit_settings("", {"own": "1"}, {"own": "2"}, find) == ({"own": "2"}, ())


def test_server_starts_without_a_setting_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = find_program("redis")
    settings = tmp_path / "settings.toml"
    settings.write_text(engines_redis.SETTINGS.read_text() + '\nabsent-one = "1"\n')
    monkeypatch.setattr(engines_redis, "SETTINGS", settings)
    spec = REDIS.reduce_to_port("records")
    options = spec.resolve({"program": path})
    server: Any = spec.create_server(tmp_path / "home", spec.default_tier, options, 1)
    with closing(server):
        server.start()
        assert [caveat.text for caveat in describe_left_out(LEFT_OUT, server)] == [
            "runs without settings of Dyno's that this version doesn't have: absent-one"
        ]


def test_unknown_setting_refuses_its_row_alone(shell: Shell) -> None:
    path = find_program("redis")
    engines = f"bad=redis:program={path}+set.absent-one=1,good=redis:program={path}"
    shell.dyno("run", "records", "-e", engines, *small(samples=1), "-o", shell.file)
    assert {
        (cell["engine"].rpartition("+")[2], cell["why"]) for cell in shell.shown()["cells"] if not cell["valid"]
    } == {("set.absent-one=1", "refused: this version has no setting absent-one")}


@pytest.mark.parametrize("name", VERSIONS)
def test_version_is_measured_beside_the_installed_one(shell: Shell, name: str) -> None:
    engine, _, version = name.partition(versions.VERSIONED)
    spec = registry.engine(engine)
    require(spec)
    assert spec.versions is not None
    if not any(isinstance(each, Maven) and machine() in each.machines for each in spec.versions.sources):
        pytest.skip(f"{engine} has no archives for {machine()}")
    if versions.find_installed(engine, version) is None:
        unavailable(f"{name} is not installed: dyno install {name}")
    ended = shell.dyno("run", "records", "-e", f"{name},{engine}", *small(samples=1), "-o", shell.file)
    assert ended.status == 0, ended.err
    cells = {cell["engine"]: cell for cell in shell.shown()["cells"]}
    release = ".".join(map(str, versions.release(version)[:2]))
    assert f" {release}" in cells[name]["version"]
    assert cells[engine]["version"] != cells[name]["version"]
