"""Tests mistakes in a definition of the suite `sql`: the plan refuses them in one line, before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dyno.contracts.model import UsageError
from dyno.options import RunRequest
from dyno.runner import plan

FIND = {"find": {"script": "SELECT id FROM item ORDER BY id"}}
DEFINITION = {
    "schema": "CREATE TABLE item (id integer PRIMARY KEY)",
    "tables": {"item": {"rows": 10, "id": "serial"}},
    "transactions": FIND,
}


def make(definition: dict[str, Any], base: Path) -> None:
    plan.make(RunRequest(suite="sql", engines=["sqlite"], definition=definition, base=base))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"schema": "none.sql"}, r"sql.schema: can't read .*: No such file"),
        ({"after": "folder.sql"}, r"sql.after: can't read .*: Is a directory"),
        ({"transactions": {"find": {"script": "none.sql"}}}, r"find.script: can't read .*: No such file"),
        ({"transactions": {"find": {"script": {"mariadb": "SELECT 1"}}}}, r'find.script: .* add "" = "SELECT 1"'),
        ({"tables": {"item": "none.csv"}}, r"sql.tables.item: can't read .*: No such file"),
        ({"checks": [{"query": "SELECT 1; SELECT 2", "equals": 1}]}, r"number 1.query: expected one statement"),
        ({"checks": [{"query": " ; ", "equals": 1}]}, r"number 1.query: expected one statement"),
        ({"checks": [{"query": "SELECT 1", "unchanged": False}]}, r"number 1.unchanged: expected true, got False"),
    ],
)
def test_mistake_is_refused_by_the_plan(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    (tmp_path / "folder.sql").mkdir()
    make(DEFINITION, tmp_path)
    with pytest.raises(UsageError, match=expected):
        make({**DEFINITION, **changes}, tmp_path)


def test_own_tables_need_an_address(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="engine sqlite: the tables are those of your own server: name it by url="):
        make({"data": "there", "transactions": FIND}, tmp_path)
