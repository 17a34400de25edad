"""Statements that are refused in a session on the user's own tables unless the database may be changed."""

from __future__ import annotations

import pytest

from dyno.contracts.model import UsageError
from dyno.suites.sql import SUITE
from dyno.suites.sql.definition import parse_definition
from dyno.suites.sql.guard import find_effect

HOSTILE = [
    ("SELECT lo_unlink(16999)", "lo_unlink"),
    ("SELECT set_config('default_transaction_read_only', 'off', false); SELECT touch()", "set_config"),
    ("SET standard_conforming_strings = off; SELECT 'a\\'; DELETE FROM t; --'", "SET"),
    ("SELECT 1 /*! INTO OUTFILE '/tmp/x' */", "/*!"),
    ("SELECT 1 /*M! INTO OUTFILE '/tmp/x' */", "/*!"),
    ("SET tx_read_only = 0; BEGIN /*!NOT ATOMIC DELETE FROM t; END */;", "SET"),
    ("SET tx_read_only = 0 /*!, GLOBAL max_connections=77 */", "SET"),
    ("/* /* */ SET GLOBAL max_connections = 77 -- */ SELECT 1", "none of the statements"),
    ("SELECT '/*! x */'", "/*!"),
    ("SELECT 1 INTO DUMPFILE '/tmp/x'", "writes"),
    ("SELECT '\\'' INTO OUTFILE '/tmp/x' -- '", "OUTFILE"),
    ("SELECT id FROM t INTO @x", "writes"),
    ("SELECT @x := 1", ":="),
    ('SELECT U&"lo\\005funlink"(1)', "U&"),
    ('SELECT "lo_unlink" (1)', "lo_unlink"),
    ("SELECT lo_unlink/**/(1)", "lo_unlink"),
    ("SELECT nextval('s')", "nextval"),
    ("SELECT NEXT VALUE FOR s", "NEXT VALUE"),
    ("SELECT dblink_exec('', 'DELETE FROM t')", "dblink_exec"),
    ("SELECT load_file('/etc/passwd')", "load_file"),
    ("SELECT pg_terminate_backend(1)", "pg_terminate_backend"),
    ("SELECT id FROM t FOR UPDATE", "locks"),
    ("SELECT id FROM t LOCK IN SHARE MODE", "locks"),
    ("COPY t TO '/tmp/x'", "COPY"),
    ("CALL wipe()", "CALL"),
    ("DO $$ BEGIN END $$", "DO"),
    ("LOCK TABLE t", "LOCK"),
    ("DECLARE c CURSOR FOR SELECT 1", "DECLARE"),
    ("BEGIN READ WRITE; SELECT 1; COMMIT", "BEGIN"),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; COMMIT", "BEGIN"),
    ("EXPLAIN ANALYZE DELETE FROM t", "writes"),
    ("WITH d AS (DELETE FROM t RETURNING 1) SELECT * FROM d", "writes"),
]


@pytest.mark.parametrize(("script", "said"), HOSTILE)
def test_hostile_script_is_refused_without_change_option(script: str, said: str) -> None:
    definition = {"data": "there", "transactions": {"query": {"script": {"": script}}}}
    with pytest.raises(UsageError) as refused:
        parse_definition(definition)
    assert said in str(refused.value) and "--change DATABASE" in str(refused.value)
    parse_definition({**definition, "change": "shop"})


@pytest.mark.parametrize(
    "text", ["SELECT a ? b", "SELECT 1;", "BEGIN", "commit work", "START TRANSACTION READ ONLY", "(SELECT 1)"]
)
def test_read_only_statement_is_allowed(text: str) -> None:
    assert find_effect(text) == ""


def test_two_statements_in_one_text_are_refused() -> None:
    assert "more than one" in find_effect("SELECT 1; SELECT 2")


def test_values_are_not_pasted_near_doubtful_quotes() -> None:
    text = "SELECT '\\' ? , ' '"
    assert find_effect(text) == "" and "dialects disagree" in find_effect(text, pasted=True)


def test_parameter_query_with_effect_is_refused() -> None:
    definition = {"data": "there", "transactions": {"query": {"script": {"": "SELECT :k"}}}}
    (setting,) = [each for each in SUITE.define(definition).params if each.name == "k"]
    with pytest.raises(ValueError, match="lo_unlink"):
        setting.parse("from:SELECT lo_unlink(1)")
