"""Tests the option `set`: a user's settings reach an engine unchanged, and a setting that would break a guarantee of
Dyno is refused in one line."""

from __future__ import annotations

import pytest
from shell import Shell, small

from dyno import registry, results
from dyno.contracts.model import Tier, UsageError
from dyno.options import RunRequest
from dyno.runner.plan import Plan
from dyno.runner.plan import make as plan_of
from dyno.servers import set_option

RECORDS = ("postgresql", "mariadb", "mysql", "redis", "valkey", "ferretdb")
ARCHIVES = ("cassandra", "clickhouse", "hbase", "influxdb", "questdb", "victoriametrics")
SERVERS = RECORDS + ARCHIVES
EMBEDDED = ("sqlite", "rocksdb")
SCHEMES = {"ferretdb": "mongodb", "influxdb": "http", "questdb": "http", "victoriametrics": "http"}


def make(*engines: str) -> Plan:
    return plan_of(RunRequest("records", engines=engines))


every_server = pytest.mark.parametrize("engine", SERVERS)


def test_set_option_exists_for_exactly_the_listed_engines() -> None:
    assert {spec.name for spec in registry.engines() if set_option.SET in {s.name for s in spec.options}} == {
        *SERVERS,
        *EMBEDDED,
    }


@every_server
def test_settings_are_parsed_unchanged(engine: str) -> None:
    options = registry.engine(engine).resolve({"set": "one=1 two='a b' three=x=y"})
    assert set_option.get_settings(options) == {"one": "1", "two": "a b", "three": "x=y"}


@every_server
def test_set_option_is_empty_by_default(engine: str) -> None:
    assert set_option.get_settings(registry.engine(engine).resolve({})) == {}


@every_server
@pytest.mark.parametrize("text", ["jit", "jit=", "=on", "jit=on off", "a='b"])
def test_malformed_setting_is_refused(engine: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"engine {engine}: option set="):
        registry.engine(engine).resolve({"set": text})


@every_server
def test_setting_that_a_tier_decides_is_refused(engine: str) -> None:
    """All spellings are refused: servers ignore case, and some accept dashes for underscores."""
    spec = registry.engine(engine)
    for settings in spec.tiers.values():
        # A key with a blank describes the server, and is not the name of a setting.
        for name in (name for name in settings if " " not in name):
            for spelled in (name, name.upper(), name.replace("_", "-")):
                with pytest.raises(UsageError, match="is not to be set here"):
                    spec.resolve({"set": f"fine=1 {spelled}=1"})


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("postgresql", "listen_addresses"),
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
def test_setting_that_dyno_decides_is_refused(engine: str, name: str) -> None:
    with pytest.raises(UsageError, match="is not to be set here"):
        registry.engine(engine).resolve({"set": f"{name}=1"})


@pytest.mark.parametrize(
    ("engine", "name"),
    [("postgresql", "shared_buffers"), ("mariadb", "innodb_buffer_pool_size"), ("mysql", "innodb-buffer-pool-size")],
)
def test_cache_size_set_under_two_names_is_refused(engine: str, name: str) -> None:
    spec = registry.engine(engine)
    assert spec.refuse(Tier.PROCESS, spec.resolve({"set": f"{name}=16MB"})) is None
    told = spec.refuse(Tier.PROCESS, spec.resolve({"set": f"{name}=16MB", "cache_mib": "16"}))
    assert f"set.{name.replace('-', '_')} and cache_mib are one setting: leave one of them out" == told


def test_row_name_lists_settings_and_can_be_requested() -> None:
    asked = "postgresql:cache_mib=64+set.jit=on+set.work_mem=8 MB"
    (cell,) = (c for c in make("postgresql:set.jit=on+cache_mib=64+set.work_mem=8 MB").cells if not c.floor)
    assert cell.asked == asked
    assert next(c for c in make(asked).cells if not c.floor) == cell, "and it can be asked for by that name"


@every_server
def test_settings_with_a_user_server_are_refused(engine: str) -> None:
    spec = registry.engine(engine)
    scheme = SCHEMES.get(engine, engine)
    options = spec.resolve({"set": "one=1", "url": f"{scheme}://u@h/"})
    assert "leave one of them out" in str(spec.refuse(Tier.PROCESS, options))
    assert spec.refuse(Tier.PROCESS, {**options, "set": ""}) is None


# -- engines in the process -------------------------------------------------------------------------------------


def test_settings_can_be_given_as_separate_options() -> None:
    (cell,) = (c for c in make("postgresql:set.jit=on+cache_mib=64+set.work_mem=8 MB").cells if not c.floor)
    assert cell.options == {"set": "jit=on 'work_mem=8 MB'", "cache_mib": 64}
    assert set_option.pairs(str(cell.options["set"])) == {"jit": "on", "work_mem": "8 MB"}


@pytest.mark.parametrize(
    ("options", "tier", "why"),
    [
        ({"set": "synchronous=normal"}, Tier.POWER, "set.synchronous=normal can't give tier power, which needs full"),
        ({"set": "synchronous=1"}, Tier.POWER, "can't give tier power"),
        ({"set": "synchronous=full", "journal_mode": "delete"}, Tier.POWER, "which needs extra"),
        ({"set": "synchronous=most"}, Tier.PROCESS, "expected one of off, normal, full, extra"),
        ({"set": "synchronous=normal"}, Tier.PROCESS, None),
        ({"set": "synchronous=extra"}, Tier.POWER, None),
    ],
)
def test_pragma_is_refused_if_invalid_or_tier_breaking(options: dict[str, str], tier: Tier, why: str | None) -> None:
    spec = registry.engine("sqlite")
    told = spec.refuse(tier, spec.resolve(options))
    assert told is None if why is None else told is not None and why in told


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("sqlite", "journal_mode=off"),
        ("sqlite", "wal_checkpoint=truncate"),
        ("sqlite", "'temp_store=2; DROP TABLE x'"),
        ("sqlite", "'a b=2'"),
        ("rocksdb", "manual_wal_flush=true"),
        ("rocksdb", "write_buffer_size=1"),
    ],
)
def test_reserved_or_malformed_engine_setting_is_refused(engine: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"engine {engine}: option set="):
        registry.engine(engine).resolve({"set": text})


def test_settings_take_effect_and_unknown_ones_are_refused(shell: Shell) -> None:
    engines = (
        "sqlite:set.wal_autocheckpoint=77",
        "sqlite:set.no_such=1",
        "rocksdb:set.max_background_jobs=3",
        "rocksdb:set.no_such=1",
    )
    words = small(samples=1, phases="update", retries=0)
    ended = shell.dyno("run", "records", "-e", ",".join(engines), *words, "-o", shell.file)
    assert ended.status == 1
    run = results.load(shell.file)
    told = {(run.cells[a.cell].asked): a for a in run.attempts if not run.cells[a.cell].floor}
    assert (told["sqlite:set.wal_autocheckpoint=77"].settings or {})["wal_autocheckpoint"] == 77
    assert (told["rocksdb:set.max_background_jobs=3"].settings or {})["max_background_jobs"] == "3"
    for name in ("sqlite", "rocksdb"):
        refused = told[f"{name}:set.no_such=1"]
        assert refused.outcome == "refused" and "set.no_such" in str(refused.why)


def test_row_reads_back_settings_of_sibling_rows(shell: Shell) -> None:
    rows = "sqlite,sqlite:set.temp_store=memory,rocksdb,rocksdb:set.max_background_jobs=3"
    ended = shell.dyno("run", "records", "-e", rows, *small(samples=1, phases="update"), "-o", shell.file)
    assert ended.status == 0, ended
    run = results.load(shell.file)
    settings = {run.cells[a.cell].asked: a.settings or {} for a in run.attempts}
    assert (settings["sqlite"]["temp_store"], settings["sqlite:set.temp_store=memory"]["temp_store"]) == (0, 2)
    assert settings["rocksdb"]["max_background_jobs"] == "2"
    assert not any(name.startswith(set_option.SET) for found in settings.values() for name in found)
    assert "temp_store" not in settings["rocksdb"]


def test_user_server_is_not_queried_for_sibling_settings() -> None:
    spec = registry.engine("redis")
    names = set_option.names_in([spec.resolve({}), spec.resolve({"set": "requirepass=x maxclients=9"})])
    assert names == ["requirepass", "maxclients"]
    assert set_option.to_read(set_option.with_names(spec.resolve({"set": "maxclients=7"}), names)) == (
        "maxclients",
        "requirepass",
    )
    assert set_option.to_read(set_option.with_names(spec.resolve({"url": "redis://h/"}), names)) == ()


def test_non_text_option_named_set_is_ignored() -> None:
    assert set_option.names_in([{"set": 5}, {"set": "a=1"}, {}]) == ["a"]
    assert set_option.with_names({"set": 5}, ["a"])["set"] == 5
    assert set_option.with_names({"cache_mib": 1}, ["a"]) == {"cache_mib": 1}
