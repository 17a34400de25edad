"""Guards the option `set`: what a user gives to a server of Dyno's own is taken as it stands, and what would take
back what Dyno promises of that server is refused in one line."""

from __future__ import annotations

import pytest

from dyno import registry
from dyno.model import Tier, UsageError
from dyno.servers import given

RECORDS = ("postgresql", "mariadb", "mysql", "redis", "valkey", "ferretdb")
ARCHIVES = ("clickhouse", "influxdb", "questdb", "victoriametrics")
SERVERS = RECORDS + ARCHIVES
SCHEMES = {"ferretdb": "mongodb", "influxdb": "http", "questdb": "http", "victoriametrics": "http"}

every_server = pytest.mark.parametrize("engine", SERVERS)


def test_these_are_all_that_have_it() -> None:
    assert {spec.name for spec in registry.engines() if given.SET in {s.name for s in spec.options}} == set(SERVERS)


@every_server
def test_settings_are_taken_as_they_stand(engine: str) -> None:
    options = registry.engine(engine).resolve({"set": "one=1 two='a b' three=x=y"})
    assert given.given(options) == {"one": "1", "two": "a b", "three": "x=y"}


@every_server
def test_nothing_is_given_by_default(engine: str) -> None:
    assert given.given(registry.engine(engine).resolve({})) == {}


@every_server
@pytest.mark.parametrize("text", ["jit", "jit=", "=on", "jit=on off", "a='b"])
def test_what_is_no_setting_is_refused(engine: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"engine {engine}: option set="):
        registry.engine(engine).resolve({"set": text})


@every_server
def test_what_a_tier_decides_is_not_to_be_set(engine: str) -> None:
    """However it is spelled: servers take small letters for capital ones, and some of them dashes for lines."""
    spec = registry.engine(engine)
    for settings in spec.tiers.values():
        # What has a blank in it tells of the server, and is no setting.
        for name in (name for name in settings if " " not in name):
            for spelled in (name, name.upper(), name.replace("_", "-")):
                with pytest.raises(UsageError, match="is not to be set here"):
                    spec.resolve({"set": f"fine=1 {spelled}=1"})


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("postgresql", "shared_buffers"),
        ("postgresql", "listen_addresses"),
        ("mariadb", "innodb_buffer_pool_size"),
        ("mariadb", "skip_networking"),
        ("mysql", "sync_binlog"),
        ("redis", "save"),
        ("valkey", "no-appendfsync-on-rewrite"),
        ("ferretdb", "cache_size"),
        ("clickhouse", "fsync_part_directory"),
        ("influxdb", "data.index-version"),
        ("victoriametrics", "memory.allowedBytes"),
    ],
)
def test_what_dyno_decides_is_not_to_be_set(engine: str, name: str) -> None:
    with pytest.raises(UsageError, match="is not to be set here"):
        registry.engine(engine).resolve({"set": f"{name}=1"})


@every_server
def test_a_server_of_the_users_own_is_not_changed(engine: str) -> None:
    spec = registry.engine(engine)
    scheme = SCHEMES.get(engine, engine)
    options = spec.resolve({"set": "one=1", "url": f"{scheme}://u@h/"})
    assert "leave one of them out" in str(spec.refuse(Tier.PROCESS, options))
    assert spec.refuse(Tier.PROCESS, {**options, "set": ""}) is None
