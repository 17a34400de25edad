"""Tests that the page of tier proofs has every tier of every engine in its tables, with consistent verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import click
import pytest
from documentation import named, read, rows, sections
from facts import command

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier
from dyno.report.outcomes import TIERS
from dyno.selftest.flushes import DECLARED, NOTHING, PROVEN, TierProof
from dyno.selftest.trace import TraceSummary

REMADE = "the block is made by: dyno selftest --tiers --markdown"


def block(name: str) -> str:
    match = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", read("reference/tier-proofs.md"), re.DOTALL)
    assert match, name
    return match[1]


def table(name: str) -> list[dict[str, str]]:
    text = block(name).replace("\N{NO-BREAK SPACE}", " ")
    return [dict(zip(TIERS.columns, row, strict=True)) for row in rows(text)]


def ours() -> Iterator[EngineSpec]:
    """Dyno's own engines for the records suite, without installed plug-ins."""
    named = registry.find_own("engine")
    return (spec for spec in registry.engines_for(registry.suite("records")) if not spec.floor and spec.name in named)


def test_records_table_has_every_tier_of_every_engine() -> None:
    documented = [(row["engine"], row["tier"]) for row in table("tiers")]
    assert sorted(documented) == sorted((spec.name, tier.value) for spec in ours() for tier in spec.tiers), REMADE


def test_records_table_has_settings_of_every_tier() -> None:
    documented = {(row["engine"], row["tier"]): set(row["settings"].split()) for row in table("tiers")}
    for spec in ours():
        for tier, settings in spec.tiers.items():
            shown = (f"{name}={_word(value)}" for name, value in settings.items())
            assert set(" ".join(shown).split()) == documented[spec.name, tier.value], (
                f"{spec.name} {tier.value}: {REMADE}"
            )


def _word(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


@pytest.mark.parametrize("name", ["tiers", "journals", "archives", "zodb", "relstorage", "arrays", "objectstores"])
def test_proven_tiers_have_evidence_and_none_is_broken(name: str) -> None:
    for row in table(name):
        verdict, _, why = row["verdict"].partition(": ")
        assert verdict in (PROVEN, NOTHING) or (verdict == DECLARED and why), row
        assert (verdict == NOTHING) <= (row["tier"] == Tier.VOLATILE.value), row
        if verdict == PROVEN:
            share = row["flushed"] if row["tier"] == Tier.POWER.value else row["written"]
            # Each share is the sum over the phases that prove the tier.
            assert share in ("100 of 100", "200 of 200"), row


def test_archives_table_has_every_time_series_server_tier() -> None:
    documented = [(row["engine"], row["tier"]) for row in table("archives")]
    alone = [
        registry.engine(name)
        for name in ("cassandra", "clickhouse", "hbase", "influxdb", "questdb", "victoriametrics")
    ]
    assert documented == [(spec.name, tier.value) for spec in alone for tier in spec.tiers], REMADE


def test_zodb_table_has_every_tier_of_every_storage() -> None:
    documented = [(row["engine"], row["tier"]) for row in table("zodb")]
    able = [spec for spec in registry.engines_for(registry.suite("objects")) if not spec.floor]
    assert sorted(documented) == sorted((spec.name, tier.value) for spec in able for tier in spec.tiers), REMADE


def test_arrays_table_has_every_tier_of_every_engine() -> None:
    documented = [(row["engine"], row["tier"]) for row in table("arrays")]
    named = registry.find_own("engine")
    whole = {"arrays"}, {"arrays", "series"}
    alone = [spec for spec in registry.engines() if spec.name in named and set(spec.ports) - {"ndarrays"} in whole]
    wanted = [(spec.name, tier.value) for spec in alone for tier in spec.tiers]
    assert sorted(documented) == sorted([*wanted, ("wendelin:storage=zeo", "power")]), REMADE


def test_objectstores_table_has_every_tier_of_every_store() -> None:
    documented = [(row["engine"], row["tier"]) for row in table("objectstores")]
    able = [spec for spec in registry.engines_for(registry.suite("objectstore")) if not spec.floor]
    assert sorted(documented) == sorted((spec.name, tier.value) for spec in able for tier in spec.tiers), REMADE


def test_journals_table_has_every_tier_of_sqlite_modes() -> None:
    spec = registry.engine("sqlite")
    option = named(sections(read("reference/engines/sqlite.md"))["Options"])["journal_mode"][2]
    modes = set(option.split(", "))
    assert len(modes) == 5
    wanted = {
        (f"sqlite:journal_mode={mode}", tier.value)
        for mode in modes
        for tier in spec.tiers
        if spec.refuse(tier, spec.resolve({"journal_mode": mode})) is None
    }
    assert {(row["engine"], row["tier"]) for row in table("journals")} == wanted


def test_tier_proofs_page_has_versions_of_traced_engines() -> None:
    engines = re.findall(r"^- ([\w-]+): .*\d", block("tiers"), re.MULTILINE)
    assert set(engines) == {row["engine"] for row in table("tiers") if not row["verdict"].startswith(DECLARED)}


def test_tier_proof_json_keys_are_documented() -> None:
    proof = TierProof("e", "power", PROVEN, "", {}, None, TraceSummary()).data()
    assert json.loads(json.dumps(proof)) == proof
    assert list(named(sections(read("reference/tier-proofs.md"))["As JSON"])) == list(proof)


def test_traced_calls_are_documented() -> None:
    from dyno.selftest import trace

    documented = set(re.findall(r"`(\w+)`", sections(read("reference/tier-proofs.md"))["How it is proven"]))
    counted = {*trace._FLUSHES, *trace._WRITES, *trace._TRUNCATES, *trace._NAMES, "io_uring_setup"}
    assert counted <= documented


def test_selftest_has_tiers_and_markdown_options() -> None:
    assert {"--tiers", "--markdown"} <= {
        o for p in command("selftest").params if isinstance(p, click.Option) for o in p.opts
    }
