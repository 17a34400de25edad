"""Tests engine declarations: a mistake is reported in one line that names the engine, the field and the remedy, and
what an engine declares for one port applies to that port only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dyno import registry
from dyno.contracts.counters import Counter, CounterSpec
from dyno.contracts.engine import EngineSpec, Gap, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, UsageError
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Job
from dyno.host import installation

PORTS = ("records", "ordered-kv", "synthetic")
RIGHT = EngineSpec(
    name="made-up",
    title="made up",
    opener=lambda *arguments: None,  # type: ignore[arg-type]
    ports={"records": PortSpec(dict), "synthetic": PortSpec("collections:OrderedDict", tiers={}, clients="threads")},
    tiers={Tier.VOLATILE: {}, Tier.POWER: {"flush": "yes"}},
    default_tier=Tier.POWER,
    options=(Setting("size", integer(1), 4, "how large"),),
)


def with_port(**given: Any) -> EngineSpec:
    return replace(RIGHT, ports={"records": replace(PortSpec(dict), **given)})


def with_counters(*counters: Counter) -> EngineSpec:
    return replace(RIGHT, counters=CounterSpec("a page", counters, lambda engine: {}))


def test_valid_declaration_is_accepted() -> None:
    RIGHT.check(PORTS)


@pytest.mark.parametrize(
    ("wrong", "field", "remedy"),
    [
        (replace(RIGHT, name="Made Up"), "name", "small letters"),
        (replace(RIGHT, clients="process"), "clients", "did you mean processes?"),
        (replace(RIGHT, ports={"ordered_kv": PortSpec(dict)}), "ports", "did you mean ordered-kv?"),
        (replace(RIGHT, ports={"records": cast(PortSpec, dict)}), "ports: records", "write PortSpec(...)"),
        (replace(RIGHT, tiers={cast(Tier, "power"): {}}, default_tier=None), "tiers", "a Tier"),
        (replace(RIGHT, default_tier=Tier.PROCESS), "default_tier", "volatile, power"),
        (replace(RIGHT, tiers={}), "default_tier", "none"),
        (replace(RIGHT, options=(Setting("my size", integer(1), 4, ""),)), "options", "small letters"),
        (replace(RIGHT, options=(Setting("size", integer(1), 0, ""),)), "options", "a whole number from 1 to"),
        (replace(RIGHT, options=(Setting("mode", choice("wal"), "wall", ""),)), "options", "expected one of wal"),
        (replace(RIGHT, options=(Setting("tier", choice("a"), "a", ""),)), "options", "are reserved"),
        (with_counters(Counter("hits", "byte", "")), "counters: hits: unit", "did you mean bytes?"),
        (with_counters(*[Counter("hits", "count", "")] * 2), "counters", "hits is declared twice"),
        (with_counters(cast(Counter, "hits")), "counters: counters", "is not a Counter"),
        (with_port(clients="thread"), "ports: records: clients", "did you mean threads?"),
        (with_port(tiers={"volatil": {}}), "ports: records: tiers", "did you mean volatile?"),
        (with_port(options=RIGHT.options), "ports: records: options", "size is declared twice"),
        (with_port(gaps=(Gap("order", "upstreem", "slow"),)), "ports: records: gaps", "did you mean upstream?"),
        (with_port(caveats=("columns",)), "ports: records: caveats", "is not a Caveat"),
        (
            with_port(installation=Installation(python="3.10")),
            "ports: records: installation",
            "python is for the engine",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_declaration_names_field_and_remedy(wrong: Any, field: str, remedy: str) -> None:
    with pytest.raises(UsageError) as raised:
        wrong.check(PORTS)
    said = str(raised.value)
    assert said.startswith(field) and remedy in said and "\n" not in said


def test_registry_names_and_skips_a_broken_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "crooked.py").write_text(
        "from dataclasses import replace\nfrom dyno.engines.memory import ENGINE as GOOD\n"
        "ENGINE = replace(GOOD, name='crooked', clients='thread')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sources: Callable[[str], dict[str, str]] = registry._sources
    monkeypatch.setattr(registry, "_sources", lambda kind: {**sources(kind), "crooked": "crooked:ENGINE"})
    with pytest.raises(UsageError, match=r"^engine crooked \(crooked:ENGINE\): clients 'thread'|clients thread"):
        registry.engine("crooked")
    assert "memory" in {spec.name for spec in registry.engines()}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "modules=('lmdb',)",
            r"modules has moved: write installation=Installation\(modules=...\)",
        ),
        (
            "starting=float",
            r"starting has moved: write server=ServerSpec\(start_seconds=...\)",
        ),
        ("seldom=None", r"seldom has moved: write crashes=CrashSpec\(maintenance=...\)"),
        ("by_default=False", r"by_default has moved: write listing=Listing\(by_default=...\)"),
        ("server=print", r"server is .*, expected ServerSpec \| None"),
        ("colour='red'", r"TypeError: .*'colour'"),
    ],
)
def test_plugin_with_a_moved_field_is_told_its_place(
    fields: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "older.py").write_text(
        "from dataclasses import replace\nfrom dyno.engines.memory import ENGINE as GOOD\n"
        f"ENGINE = replace(GOOD, name='older', {fields})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "older", raising=False)
    sources: Callable[[str], dict[str, str]] = registry._sources
    monkeypatch.setattr(registry, "_sources", lambda kind: {**sources(kind), "older": "older:ENGINE"})
    with pytest.raises(UsageError, match=rf"^engine older \(older:ENGINE\).*{expected}") as raised:
        registry.engine("older")
    assert "\n" not in str(raised.value)


def test_installations_of_engine_and_port_are_added() -> None:
    engine = Installation(modules=("json",), python="3.10", needs=lambda options: str(options["engine"]) or None)
    port = Installation(modules=("csv",), packages=("fio",), needs=lambda options: str(options["port"]) or None)
    both = engine + port
    assert (both.modules, both.packages, both.python) == (("json", "csv"), ("fio",), "3.10")
    assert both.needs({"engine": "", "port": "fio"}) == "fio"
    assert both.needs({"engine": "lmdb", "port": "fio"}) == "lmdb"
    assert engine + port == both


def test_builtin_engines_and_suites_are_declared_correctly() -> None:
    assert registry.list_broken() == []
    for kind, found in (("engine", registry.engines()), ("suite", registry.suites())):
        for each in found:
            registry.check_types(each, kind)
            registry.check_texts(each.name, each, kind)
    with pytest.raises(UsageError, match=r"title: .* is not one line of text that can be shown"):
        registry.check_texts("memory", replace(registry.engine("memory"), title="two\nlines"), "engine")


def test_declarations_of_a_port_apply_to_it_alone() -> None:
    gap, said = Gap("order", "upstream", "slow"), Caveat("columns", "keeps columns")
    more = Setting("more", integer(1), 1, "")
    spec = replace(
        RIGHT,
        installation=Installation(modules=("json",)),
        ports={
            "records": PortSpec(dict, installation=Installation(modules=("csv",)), options=(more,), caveats=(said,)),
            "synthetic": PortSpec(dict, tiers={}, clients="threads", gaps=(gap,)),
        },
    )
    stored, timed = spec.reduce_to_port("records"), spec.reduce_to_port("synthetic")
    assert (stored.installation.modules, timed.installation.modules) == (("json", "csv"), ("json",))
    assert [[option.name for option in one.options] for one in (stored, timed)] == [["size", "more"], ["size"]]
    assert (stored.caveats, timed.caveats) == ((said,), ())
    assert (stored.gaps, timed.gaps) == ((), (gap,))
    assert (stored.clients, timed.clients) == ("one", "threads")
    assert (dict(stored.tiers), stored.default_tier) == (dict(RIGHT.tiers), Tier.POWER)
    assert (dict(timed.tiers), timed.default_tier) == ({}, None)


def test_port_may_be_declared_by_import_path() -> None:
    job = Job(RIGHT.reduce_to_port("synthetic"), Path(), None, {}, {}, seed=1, clients=1)
    opened = job.port([("a", 1)])  # type: ignore[arg-type]
    assert type(opened).__name__ == "OrderedDict" and opened["a"] == 1


def test_encoder_caveats_apply_only_to_records_port() -> None:
    """Caveats about the encoder apply only to suites that have an encoder."""
    for spec in registry.engines():
        for port in spec.ports:
            said = any("encoder" in caveat.text for caveat in spec.reduce_to_port(port).caveats)
            assert not said or port == "records", spec.name


def test_option_may_choose_how_clients_share_engine() -> None:
    way = Setting("way", choice("processes", "threads"), "processes", "")
    spec = replace(RIGHT, clients="processes", options=(way,), sharing=lambda options: str(options["way"]))
    assert spec.apply_options(spec.resolve({})).clients == "processes"
    assert spec.apply_options(spec.resolve({"way": "threads"})).clients == "threads"
    assert RIGHT.apply_options({}) is RIGHT
    with pytest.raises(UsageError, match="sharing thread is not known; did you mean threads"):
        replace(spec, sharing=lambda options: "thread").apply_options({})


def test_library_excluded_by_python_version_has_no_remedy() -> None:
    sqlite = registry.engine("sqlite")
    marked = replace(
        sqlite, installation=Installation(modules=("dyno_none",), requires=("dyno_none>=1; python_version < '3.10'",))
    )
    assert marked.remedy == ""
    assert "needs dyno_none: not available for Python" in str(marked.explain_unavailability())
    requires = ("dyno_none>=1; python_version >= '3.10'",)
    other = replace(marked, installation=replace(marked.installation, requires=requires))
    assert other.explain_unavailability() == "needs dyno_none: dyno install sqlite"
    # plyvel has no wheel for Python 3.13, and would make the installation of all other engines fail there.
    assert installation.find_excluded_requirement(
        ("plyvel",), registry.engine("leveldb").installation.requires, "3.13"
    )
    assert not installation.find_excluded_requirement(
        ("plyvel",), registry.engine("leveldb").installation.requires, "3.12"
    )
