"""Tests which load `--load auto` chooses, and that a run file of an earlier version is resumed with its own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.contracts.model import UsageError
from dyno.contracts.settings import Setting, choice
from dyno.contracts.value_types import Value
from dyno.options import RunRequest
from dyno.results import create
from dyno.runner import plan

CLAIM = pytest.mark.claim("Servers with several clients are loaded natively if all of them can be, or else none")
SEVERAL: dict[str, Any] = {"clients": [1, 8], "phases": ["get"]}


@pytest.fixture(autouse=True)
def servers() -> None:
    for name in ("redis", "postgresql"):
        require(registry.engine(name))


def clients_of(*engines: str, suite: str = "records", **options: Any) -> list[Value | None]:
    """The option `client` of each engine's cells, None for the engine's default, with one value if all are alike."""
    cells = plan.make(RunRequest(suite, engines, **options)).cells
    values = {(cell.engine, cell.options.get("client")) for cell in cells if not cell.floor}
    return [client for _, client in sorted(values, key=str)]


@CLAIM
def test_native_load_is_chosen_for_several_clients() -> None:
    assert clients_of("postgresql", "redis", "sqlite", **SEVERAL) == ["native", "native", None]
    assert clients_of("postgresql", "redis", **SEVERAL) == ["native", "native"]
    assert clients_of("redis", load="auto", **SEVERAL) == ["native"]


def test_library_load_is_chosen_for_single_client() -> None:
    assert clients_of("postgresql", "redis", clients=1, phases="get") == [None, None]


def test_library_load_is_chosen_without_native_phase() -> None:
    assert clients_of("redis", clients=8, phases="scan") == [None]
    assert clients_of("redis", clients=8, phases="update") == [None]
    assert clients_of("redis", clients=8, phases="scan", params={"txn": 1}) == [None]
    assert clients_of("redis", clients=8, phases="mixed", params={"mix": "e"}) == [None]
    assert clients_of("redis", clients=8, phases="update", params={"txn": 1}) == ["native"]
    assert clients_of("redis", clients=8, phases=["scan", "get"]) == ["native"]


@CLAIM
def test_server_without_native_load_makes_all_use_library(monkeypatch: pytest.MonkeyPatch) -> None:
    known, redis = registry.engine, registry.engine("redis")
    clients = Setting("client", choice("redis-py", "hiredis"), "redis-py", "clients without native load")
    without = replace(redis, options=(clients, *(each for each in redis.options if each.name != "client")))
    monkeypatch.setattr(registry, "engine", lambda name: without if name == "redis" else known(name))
    assert clients_of("postgresql", "redis", **SEVERAL) == [None, None]
    with pytest.raises(UsageError, match="redis has no native load"):
        clients_of("postgresql", "redis", load="native", **SEVERAL)


def test_named_client_or_user_server_disables_auto_load() -> None:
    assert clients_of("postgresql:client=pq", "redis", **SEVERAL) == ["pq", None]
    assert clients_of("postgresql:client=native", "redis", **SEVERAL) == ["native", None]
    assert clients_of("redis:url=redis://127.0.0.1:1", "postgresql", **SEVERAL) == [None, None]
    assert clients_of("redis", load="library", **SEVERAL) == [None]
    assert clients_of("postgresql:client=pq", "redis", load="native", **SEVERAL) == ["pq", "native"]


def requesting(*engines: str, suite: str = "http", load: str | None = None, **params: Any) -> list[Value | None]:
    given = {name: [value] for name, value in params.items()}
    return clients_of(*engines, suite=suite, load=load, params=given)


def test_requests_in_flight_are_loaded_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nginx", "versitygw"):
        require(registry.engine(name))
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    site = "website:url=https://127.0.0.1/"
    assert requesting("nginx", site, inflight=8) == requesting("nginx", site, load="native") == ["native", "native"]
    assert requesting("nginx", inflight=1) == requesting("nginx", load="library", inflight=8) == [None]
    # What needs libcurl stays with it.
    assert requesting("nginx:tls=yes", protocol="2", inflight=8) == [None]
    assert requesting("nginx", redirects="follow", inflight=8) == [None]
    store = "s3:url=https://127.0.0.1/"
    assert requesting("versitygw", store, suite="objectstore", inflight=8) == ["native", "native"]
    assert requesting("versitygw", "directory", suite="objectstore", inflight=1) == [None, None]
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    assert requesting("nginx", site, inflight=8) == [None, None]
    with pytest.raises(UsageError, match="engine website is reached by a proxy, which native load can't use"):
        requesting("nginx", site, load="native")
    # libcurl ignores this one too.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert requesting("website:url=http://127.0.0.1/", inflight=8) == ["native"]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert requesting("nginx", site, inflight=8) == ["native", "native"]


def test_mix_with_scans_uses_library_or_is_refused() -> None:
    options: dict[str, Any] = {"clients": 8, "phases": "mixed"}
    scans, single = "get:95+scan:5", "get:50+modify:30+insert:20"
    for load in (None, "auto", "library"):
        assert clients_of("redis", load=load, params={"mix": scans}, **options) == [None]
    for load in (None, "auto", "native"):
        assert clients_of("redis", load=load, params={"mix": single}, **options) == ["native"]
    for mixes in ([scans], ["a", scans], ["e"]):
        mix = re.escape(mixes[-1])
        with pytest.raises(UsageError, match=rf"^load: .*phase mixed with mix={mix} .*: use library$"):
            clients_of("redis", load="native", params={"mix": mixes}, **options)
    assert clients_of("sqlite", load="native", params={"mix": scans}, **options) == [None]


def test_resumed_run_file_keeps_its_own_load(tmp_path: Path) -> None:
    file, request = tmp_path / "r.json", RunRequest("records", ["redis"], **SEVERAL)
    old = plan.make(replace(request, load="library"))
    create(file, {"plan": old.data(), "host": {}}, old.cells)
    assert plan.make_resumed(request, file).cells == old.cells != plan.make(request).cells
    new = plan.make(request)
    create(file, {"plan": new.data(), "host": {}}, new.cells, replace=True)
    assert plan.make_resumed(request, file).cells == new.cells
    assert plan.make_resumed(request, tmp_path / "none.json").cells == new.cells
