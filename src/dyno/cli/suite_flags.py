"""Turns the flags that suites declare into options of click: see `dyno.contracts.roles.Flag`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from dyno import registry
from dyno.cli import flag_values
from dyno.contracts.model import UsageError
from dyno.contracts.roles import Flag, FlaggedSuite
from dyno.contracts.settings import PARAMS, PATH, WHOLE
from dyno.contracts.suite import Suite
from dyno.options import RunRequest


def make_option(flag: Flag, key: str) -> click.Option:
    """Returns the option of the command line for a flag. `key`: its name among the command's values."""
    return click.Option([*flag.words, key], help=flag.help, **_describe_value(flag))


def add_flags(command: click.Command) -> None:
    """Adds the flags that suites have for `dyno run`, except those with a word of another option."""
    for suite in registry.suites():
        taken = {word for param in command.params for word in (*param.opts, *param.secondary_opts)}
        flags = [flag for flag in flags_of(suite) if taken.isdisjoint(flag.words)]
        command.params += [make_option(flag, _key_of(suite, flag)) for flag in flags]


def _key_of(suite: Suite, flag: Flag) -> str:
    return f"{suite.name}_{flag.name}".replace("-", "_")


def _describe_value(flag: Flag) -> dict[str, Any]:
    """Returns click's arguments for the flag's value."""
    if flag.constant is not None:
        return {"flag_value": flag.constant}
    if not flag.metavar:
        return {"is_flag": True}
    described: dict[str, object] = {"metavar": flag.metavar, "multiple": flag.several}
    if flag.kind is WHOLE:
        described["type"] = click.IntRange(flag.least, flag.most)
    elif flag.kind is PATH:
        described["type"] = flag_values.NAME
    return described


def read_values(flags: Sequence[Flag], values: Mapping[str, Any]) -> dict[str, object]:
    """Returns the values of the flags by name, with parameters as a table. Raises UsageError."""
    parameters = [flag.name for flag in flags if flag.kind is PARAMS]
    return {**values, **{name: flag_values.params(values[name]) for name in parameters}}


def flags_of(suite: Suite) -> Sequence[Flag]:
    if isinstance(suite, FlaggedSuite):
        return suite.flags
    return ()


def given_values(suite: Suite, values: Mapping[str, object]) -> dict[str, object]:
    """Returns the values of the suite's flags that are given, by name. `values`: those of the command's options.
    Raises UsageError for a flag of another suite."""
    for other in registry.suites():
        for flag in flags_of(other):
            if other.name != suite.name and _is_given(values.get(_key_of(other, flag))):
                raise UsageError(f"{flag.words[-1]} is a flag of suite {other.name}, not of suite {suite.name}")
    given = [flag for flag in flags_of(suite) if _is_given(values.get(_key_of(suite, flag)))]
    return read_values(given, {flag.name: values[_key_of(suite, flag)] for flag in given})


def _is_given(value: object) -> bool:
    return value not in (None, False, ())


def apply_flags(requested: RunRequest, given: Mapping[str, object]) -> RunRequest:
    """Returns the request with the definition that follows from the suite's given flags. Raises UsageError."""
    suite = registry.suite(requested.suite)
    if not given or not isinstance(suite, FlaggedSuite):
        return requested
    return replace(requested, definition=suite.apply_flags(given, requested.definition, requested.engines))
