"""Tests the roles of suites: definitions, flags and short forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import pytest

from dyno import registry
from dyno.cli import suite_flags
from dyno.cli.commands import COMMANDS
from dyno.contracts import roles
from dyno.contracts.model import Preset, UsageError
from dyno.contracts.roles import EngineEntry, Flag, FlaggedSuite, ShortFormSuite
from dyno.contracts.settings import PARAMS
from dyno.options import RunRequest


class FormattedSuite(FlaggedSuite):
    name = "formatted-text"
    title = "a suite with flags"
    ports = ()
    params = ()
    presets: Mapping[str, Preset] = {}
    phases = ()
    flags = (
        Flag("form", ("--form",), "A form.", "NAME"),
        Flag("sizes", ("--sizes",), "Sizes.", "NAME=V", PARAMS, several=True),
        Flag("output", ("-o", "--out"), "A word of Dyno's own.", "FILE"),
    )

    def apply_flags(
        self, values: Mapping[str, Any], definition: Mapping[str, Any] | None, engines: Sequence[EngineEntry]
    ) -> Mapping[str, Any]:
        return {**(definition or {}), **values}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> click.Command:
    """A command with an option of its own and the flags of two suites."""
    suites = {"sql": registry.suite("sql"), "formatted-text": FormattedSuite()}
    monkeypatch.setattr(registry, "suites", lambda: iter(suites.values()))
    monkeypatch.setattr(registry, "suite", suites.__getitem__)
    command = click.Command("run", params=[click.Option(["-o", "--output", "path"])])
    suite_flags.add_flags(command)
    return command


def read(command: click.Command, *words: str) -> dict[str, Any]:
    return command.make_context("run", [*words]).params


def test_flags_of_suites_become_options(command: click.Command) -> None:
    suite = registry.suite("formatted-text")
    values = read(command, "--form", "wide", "--sizes", "a=1,2", "-o", "r.json")
    assert values["path"] == "r.json"
    given = suite_flags.given_values(suite, values)
    assert given == {"form": "wide", "sizes": {"a": ["1", "2"]}}
    request = suite_flags.apply_flags(RunRequest("formatted-text", definition={"x": 1}), given)
    assert request.definition == {"x": 1, **given}


def test_request_without_flags_is_unchanged(command: click.Command) -> None:
    values = suite_flags.given_values(registry.suite("formatted-text"), read(command))
    request = RunRequest("formatted-text")
    assert values == {} and suite_flags.apply_flags(request, values) is request


def test_flag_of_another_suite_is_refused(command: click.Command) -> None:
    with pytest.raises(UsageError, match="--query is a flag of suite sql, not of suite formatted-text"):
        suite_flags.given_values(registry.suite("formatted-text"), read(command, "-q", "SELECT 1"))


def test_empty_value_of_a_flag_is_given(command: click.Command) -> None:
    assert suite_flags.given_values(registry.suite("sql"), read(command, "-q", "")) == {"query": ""}


def test_every_short_form_is_a_command() -> None:
    forms = [suite.short_form for suite in registry.suites() if isinstance(suite, ShortFormSuite)]
    assert forms and {form.command for form in forms} <= COMMANDS.keys()


def test_defining_leaves_the_declared_suite_alone() -> None:
    declared = registry.suite("sql")
    first, second = (
        registry.suite("sql", {"transactions": {name: {"script": {"": "SELECT 1"}}}}) for name in ("one", "two")
    )
    assert [phase.name for phase in (*first.phases, *second.phases)] == ["one", "two"]
    assert declared.phases == () and declared is registry.suite("sql")
    assert (first.name, first.title, first.layout) == (declared.name, declared.title, declared.layout)


def test_suite_without_roles_cannot_be_defined() -> None:
    suite = registry.suite("cpu")
    with pytest.raises(UsageError, match="suite cpu can't be defined: leave the table cpu out"):
        roles.inline_definition(suite, {}, RunRequest("cpu").base)
    with pytest.raises(UsageError, match="suite cpu can't be defined"):
        roles.define_suite(suite, {})
    assert roles.variants_of(suite) == {}
