"""Tests `dyno schema`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from shell import TESTS

import dyno
from dyno.cli.schema import SCHEMAS, schema_command
from dyno.contracts.model import UsageError
from dyno.report import export
from dyno.results import load

RUN = TESTS / "data/run-schema-3.json"


def print_schema(*words: str) -> str:
    return CliRunner().invoke(schema_command, words, standalone_mode=False, catch_exceptions=False).output


def test_schemas_are_listed_without_a_name() -> None:
    assert print_schema().split() == list(SCHEMAS)


@pytest.mark.parametrize(("name", "line"), [("run", 0), ("trial", 1)])
def test_schema_declares_every_key_of_a_line(name: str, line: int) -> None:
    schema = json.loads(print_schema(name))
    declared = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    keys = json.loads(RUN.read_text().splitlines()[line]).keys() - {"kind", "crc32"}
    assert keys <= declared["properties"].keys()
    assert set(declared["required"]) - {"kind"} <= keys


@pytest.mark.parametrize(("name", "kind"), [("show", "Show"), ("compare", "Within")])
def test_schema_declares_and_describes_every_printed_key(name: str, kind: str) -> None:
    printed = export.as_data(load(RUN)) if name == "show" else dyno.compare(RUN).to_dict()
    declared = json.loads(print_schema(name))["$defs"]
    assert list(printed) == list(declared[kind]["properties"])
    assert declared[kind]["properties"]["schema"]["description"] == "Version of this format: 1."
    if name == "show":
        keys = [key for key in declared["CellRow"]["properties"] if key != "capacity"]
        assert [list(cell) for cell in printed["cells"]] == [keys] * len(printed["cells"])


def test_unknown_schema_is_refused() -> None:
    with pytest.raises(UsageError, match="schema"):
        print_schema("rnu")
