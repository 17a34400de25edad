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


def make_option(flag: Flag) -> click.Option:
    """Returns the option of the command line for a flag."""
    return click.Option([*flag.words, flag.name], help=flag.help, **_describe_value(flag))


def add_flags(command: click.Command) -> None:
    """Adds the flags that suites have for `dyno run`, except words that the command or an earlier suite has."""
    for suite in registry.suites():
        taken = {word for param in command.params for word in (param.name, *param.opts, *param.secondary_opts)}
        command.params += [make_option(flag) for flag in flags_of(suite) if not taken & {flag.name, *flag.words}]


def _describe_value(flag: Flag) -> dict[str, Any]:
    """Returns click's arguments for the flag's value."""
    if flag.constant is not None:
        return {"flag_value": flag.constant}
    if not flag.metavar:
        return {"is_flag": True}
    described: dict[str, Any] = {"metavar": flag.metavar, "multiple": flag.several}
    if flag.kind is WHOLE:
        described["type"] = click.IntRange(flag.least, flag.most)
    elif flag.kind is PATH:
        described["type"] = flag_values.NAME
    return described


def read_values(flags: Sequence[Flag], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the flags by name. Raises UsageError."""
    read = {flag.name: values[flag.name] for flag in flags}
    parameters = [flag.name for flag in flags if flag.kind is PARAMS]
    return {**read, **{name: flag_values.params(read[name]) for name in parameters}}


def flags_of(suite: Suite) -> Sequence[Flag]:
    return suite.flags if isinstance(suite, FlaggedSuite) else ()


def given_flags(suite: Suite, values: Mapping[str, Any]) -> list[Flag]:
    """Returns the suite's flags that are given. `values`: those of the command's options by name. Raises UsageError
    for a flag of another suite."""
    given = {name for name, value in values.items() if value not in (None, False, ())}
    for other in registry.suites():
        for flag in flags_of(other):
            if flag.name in given and flag not in flags_of(suite):
                raise UsageError(f"{flag.words[-1]} is a flag of suite {other.name}, not of suite {suite.name}")
    return [flag for flag in flags_of(suite) if flag.name in given]


def apply_flags(requested: RunRequest, flags: Sequence[Flag], values: Mapping[str, Any]) -> RunRequest:
    """Returns the request with the definition that follows from the suite's given flags. Raises UsageError."""
    suite = registry.suite(requested.suite)
    if not flags or not isinstance(suite, FlaggedSuite):
        return requested
    definition = suite.apply_flags(read_values(flags, values), requested.definition, requested.engines)
    return replace(requested, definition=definition)
