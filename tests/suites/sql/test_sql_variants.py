"""Tests variants of a definition of the suite `sql`: their rows and labels, their texts, and mistakes in them."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from dyno.bundles.bundle import plan_of
from dyno.contracts.model import UsageError
from dyno.options import RunRequest
from dyno.results import Run
from dyno.runner import plan, plan_file
from dyno.runner.plan import Plan
from dyno.suites.sql.definition import ANY, parse_definition
from dyno.suites.sql.inlining import inline_definition

DEFINITION = {
    "schema": "CREATE TABLE item (id integer PRIMARY KEY, kind integer)",
    "tables": {"item": {"rows": 10, "id": "serial", "kind": "uniform:1..3"}},
    "transactions": {"find": {"script": "SELECT id FROM item WHERE kind = 1 ORDER BY id"}},
    "variants": {
        "indexed": {"after": "idx.sql"},
        "rewritten": {"transactions": {"find": {"script": "SELECT id FROM item WHERE kind + 0 = 1 ORDER BY id"}}},
        "cached": {"settings": {"sqlite": {"cache_mib": 8}}},
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "idx.sql").write_text("CREATE INDEX by_kind ON item (kind)")
    return tmp_path


def make(home: Path, *engines: Any, **variants: Any) -> Plan:
    """Plans a run of the definition, with these variants if there are any."""
    definition = {**deepcopy(DEFINITION), **({"variants": variants} if variants else {})}
    return plan.make(RunRequest(suite="sql", engines=engines, definition=definition, base=home))


def labels(planned: Plan) -> list[str]:
    return [cell.label for cell in planned.cells if not cell.floor]


def test_each_variant_is_a_row_of_each_engine(home: Path) -> None:
    planned = make(home, "sqlite", "null")
    assert labels(planned) == ["sqlite", "sqlite indexed", "sqlite rewritten", "sqlite cached"]
    assert [dict(cell.options) for cell in planned.cells][:4] == [
        {},
        {"variant": "indexed"},
        {"variant": "rewritten"},
        {"cache_mib": 8, "variant": "cached"},
    ]
    # Only rows with the same parameters are compared with each other, and their answers with each other.
    assert len({cell.combination for cell in planned.cells}) == 1


def test_a_row_may_choose_its_variant(home: Path) -> None:
    assert labels(make(home, "sqlite:variant=indexed", "sqlite:variant=base")) == ["sqlite indexed", "sqlite base"]
    assert labels(make(home, "old=sqlite"))[:2] == ["old", "old indexed"]
    assert labels(make(home, "sqlite:variant=cached", "sqlite"))[:2] == ["sqlite cached", "sqlite"]
    with pytest.raises(UsageError, match="variant=index: expected one of base, indexed"):
        make(home, "sqlite:variant=index")


def test_a_variant_of_other_engines_is_left_out(home: Path) -> None:
    planned = make(home, "sqlite", tuned={"settings": {"duckdb": {"memory_limit_mib": 64}}})
    assert labels(planned) == ["sqlite"]
    assert planned.left_out == ("variant tuned: it has settings of duckdb only",)


def test_server_settings_of_row_and_variant_are_merged(home: Path) -> None:
    tuned = {"settings": {"sqlite": {"set": {"temp_store": "memory"}}}}
    planned = make(home, "sqlite:set.automatic_index=0", tuned=tuned)
    assert planned.cells[1].options["set"] == "automatic_index=0 temp_store=memory"
    assert planned.cells[1].label == "sqlite:set.automatic_index=0+set.temp_store=memory tuned"


def test_bundle_plan_reproduces_rows_of_variants(home: Path) -> None:
    for engines in (["sqlite"], ["old=sqlite", "sqlite:set.automatic_index=0+variant=indexed"]):
        planned = make(home, *engines)
        run = Run(
            home / "r.json", {"schema": 3, "host": {}, "plan": planned.data(), **planned.declared}, planned.cells, ()
        )
        text = plan_file.as_toml(plan_of(run))
        (home / "plan.toml").write_text(text)
        assert plan.make(plan_file.read(home / "plan.toml")).cells == planned.cells


def test_variant_replaces_only_the_texts_it_names(home: Path) -> None:
    definition = parse_definition(inline_definition(DEFINITION, home))
    indexed, rewritten = (definition.variants[name].definition for name in ("indexed", "rewritten"))
    assert definition.after[ANY] == rewritten.after[ANY] == ""
    assert "CREATE INDEX" in indexed.after[ANY] and indexed.schema == definition.schema
    assert indexed.transactions == definition.transactions != rewritten.transactions


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ({"afer": "x"}, "sql.variants.v: key afer is not known; did you mean after"),
        ({"after": "none.sql"}, "can't read .*none.sql: No such file"),
        ({"after": 5}, "sql.variants.v.after: expected SQL or the name of a file, got 5"),
        ({}, "sql.variants.v: it changes nothing; expected schema, after, transactions, settings"),
        ("idx.sql", "sql.variants.v: expected a table, got 'idx.sql'"),
        ({"transactions": {"fnd": {"script": "SELECT 1"}}}, "v.transactions: transaction fnd .* did you mean find"),
        ({"transactions": {"find": {"compare": "none"}}}, "v.transactions.find: key compare is not known"),
        ({"transactions": {"find": {"script": "\\sleep 1"}}}, "sql.variants.v: .*sleep"),
        ({"settings": {"sqlit": {"cache_mib": 8}}}, "variant v: engine sqlit is not known; did you mean sqlite"),
        ({"settings": {"lmdb": {"sync": 1}}}, "variant v: engine lmdb has no port of suite sql"),
        ({"settings": {"sqlite": {"cache_mb": 8}}}, "variant v: .*option cache_mb .* did you mean cache_mib"),
        ({"settings": {"sqlite": {"cache_mib": [8]}}}, r"v.settings.sqlite.cache_mib: expected a text or a number"),
        ({"settings": {"sqlite": {"set": "x"}}}, "variant v: engine sqlite: option set=x: expected NAME=VALUE"),
        ({"settings": {"postgresql": {"url": "postgresql://u:p@h/d"}}}, "variant v: url is an address"),
    ],
)
def test_variant_mistake_is_refused_with_its_reason(variant: Any, expected: str, home: Path) -> None:
    engine = "postgresql" if "postgresql" in str(variant) else "sqlite"
    with pytest.raises(UsageError, match=expected):
        make(home, engine, v=variant)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("base", "base is the definition without a variant"), ("V", "expected a name"), ("v" * 21, "at most 20")],
)
def test_invalid_variant_name_is_refused(name: str, expected: str, home: Path) -> None:
    with pytest.raises(UsageError, match=expected):
        make(home, "sqlite", **{name: {"after": "SELECT 1"}})
