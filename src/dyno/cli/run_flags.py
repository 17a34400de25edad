"""The flags of the run options, and the run request made of them and a plan file."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from dyno import registry
from dyno.cli import flag_values
from dyno.cli.flag_values import Quantity, split
from dyno.contracts.model import UsageError
from dyno.options import OPTIONS, PARAMS, SIZE, SWITCH, WHOLE, Option, RunRequest
from dyno.runner import plan_file
from dyno.runner.plan_file import GIB, size
from dyno.runner.rows import placed

F = TypeVar("F", bound=Callable[..., Any])
METAVARS = {"time": "TIME", "size": "SIZE"}
COMPLETIONS = {
    "engines": flag_values.ENGINES,
    "params": flag_values.PARAMETER,
    "preset": flag_values.PRESET,
    "tier": flag_values.TIER,
    "phases": flag_values.PHASES,
}


def run_flags(*names: str, but: Sequence[str] = (), **helps: str) -> Callable[[F], F]:
    """Adds the flags of the options with these names, or of all options `but` some. `helps`: other help texts."""
    rows = [each for each in OPTIONS if (each.name in names if names else each.name not in but)]

    def add(function: F) -> F:
        # The decorator applied last is listed first.
        for option in reversed(rows):
            kind, words, more = option.kind, [option.flag], dict[str, Any]()
            if option.short:
                words.insert(0, option.short)
            if kind is WHOLE:
                more["type"] = click.IntRange(None if option.least is None else int(option.least), int(option.most))
            elif kind.read is not None:
                least = option.least or 0
                more["type"] = Quantity(kind.read, least / GIB if kind is SIZE else least)
            elif kind is SWITCH:
                words = [f"{option.flag}/--no-{option.key}"]
            function = click.option(
                *words,
                option.name,
                default=None,
                # Flags of lists may be repeated if they have a short name.
                multiple=(kind.several or kind is PARAMS) and bool(option.short),
                metavar=option.metavar or METAVARS.get(kind.words),
                shell_complete=COMPLETIONS.get(option.name),
                help=helps.get(option.name, option.help),
                **more,
            )(function)
        return function

    return add


def request(what: str, given: dict[str, Any], on: str | None = None) -> RunRequest:
    """The request for a suite, or of a plan file overridden by flags. `on`: address of the user's server for all
    engines. Raises UsageError."""
    base = plan_file.read(Path(what)) if what.endswith(".toml") else RunRequest(suite=what)
    values = {each.name: value for each in OPTIONS if (value := _value(each, given[each.name])) not in (None, [])}
    # They exclude each other: a flag overrides the other one's key, too.
    if "duration" in values:
        base = replace(base, budget=None)
    if "budget" in values:
        base = replace(base, duration=None)
    base = replace(base, **{**values, "params": {**base.params, **values.get("params", {})}})
    return base if on is None else replace(base, engines=placed(registry.suite(base.suite), base.engines, on))


def _value(option: Option, given: Any) -> Any:
    """The value for the field of RunRequest; None or an empty list if the flag was not given. Raises UsageError."""
    if option.kind is PARAMS:
        return flag_values.params(given)
    if option.kind.several:
        texts = [given] if isinstance(given, str) else list(given or ())
        if texts and not split(texts):
            raise UsageError(f"{option.flag}: expected at least one value, got {texts[0]!r}")
        return split(texts)
    return size(option.name, given) if option.kind is SIZE and given is not None else given
