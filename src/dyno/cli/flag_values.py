"""Values of flags: paths, lists, times and sizes, and the names that the shell offers on the Tab key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dyno.contracts.model import Tier, UsageError

if TYPE_CHECKING:
    import os

    from click.decorators import FC

    from dyno.contracts.suite import Suite


class Quantity(click.ParamType[float]):
    """A number with a unit, which `read` converts, of at least `least`."""

    name = "quantity"

    def __init__(self, read: Callable[[str], float], least: float) -> None:
        self._read, self._least = read, least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = self._read(str(value))
        except ValueError as error:
            self.fail(f"{str(value)!r}: {error}", param, ctx)
        if number < self._least:
            self.fail(f"expected at least {self._least:g}, got {number}", param, ctx)
        return number


class FilePath(click.Path):
    """A path. Refuses an empty text, which comes from an unset shell variable: it means neither the default nor the
    current directory."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("expected a path, got ''", param, ctx)
        return super().convert(value, param, ctx)


PATH, NAME = FilePath(path_type=Path), FilePath()
"""A path as a Path, and as text, of which a dash or a slash at the end has a meaning."""


def output_option(help: str, metavar: str = "FILE", **more: Any) -> Callable[[FC], FC]:
    return click.option("-o", "--output", "path", type=NAME, metavar=metavar, help=help, **more)


def work_option() -> Callable[[FC], FC]:
    return click.option("--work", "root", type=PATH, metavar="DIR", help="Directory for the engines' data.")


def split_at_commas(texts: Sequence[str]) -> list[str]:
    """The parts between commas, of all texts."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def params(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values by name of texts 'NAME=V1,V2', where \\, is a comma in a value. Raises UsageError."""
    values_by_name: dict[str, list[str]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        parts = [part.replace("\\,", ",").strip() for part in re.split(r"(?<!\\),", values) if part.strip()]
        if not parts:
            raise UsageError(f"-p: expected NAME=VALUE[,VALUE...], got {text!r}")
        values_by_name.setdefault(name.strip(), []).extend(parts)
    return values_by_name


# -- completion ---------------------------------------------------------------------------------------------------
# Here the registry is imported when Tab is pressed: it takes long.

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(names: Callable[[], Iterable[str]], several: bool = False, files: bool = False) -> Completer:
    """Offers names, `several` of them separated by commas; and files too."""

    def complete(context: click.Context, parameter: click.Parameter, text: str) -> list[CompletionItem]:
        if several:
            before, comma, last = text.rpartition(",")
        else:
            before = ""
            comma = ""
            last = text
        try:
            matches = sorted(name for name in names() if name.startswith(last))
        except Exception:
            # A command reports a plug-in that can't be imported; the Tab key does not.
            matches = []
        items = [CompletionItem(f"{before}{comma}{name}") for name in matches]
        if files:
            return [*items, CompletionItem(text, type="file")]
        return items

    return complete


def _names(kind: str) -> list[str]:
    from dyno import registry

    return registry.names(kind)


def _suite() -> Suite:
    """The suite in the command line: click can't parse a line that ends within a flag. Raises StopIteration."""
    from dyno import registry

    names = registry.names("suite")
    return registry.suite(next(word for word in os.environ["COMP_WORDS"].split() if word in names))


def _engines_of_suite() -> list[str]:
    """The engines of the suite in the command line; without a suite, all engines."""
    from dyno import registry

    try:
        return [spec.name for spec in registry.engines_for(_suite())]
    except StopIteration:
        return registry.names("engine")


def _experiments() -> Iterable[str]:
    from dyno import published

    return published.names()


SUITE = _completer(lambda: _names("suite"), files=True)
ENGINE = _completer(lambda: _names("engine"))
ENGINES = _completer(_engines_of_suite, several=True)
PHASES = _completer(lambda: [phase.name for phase in _suite().phases], several=True)
PRESET = _completer(lambda: _suite().presets)
PARAMETER = _completer(lambda: [f"{setting.name}=" for setting in _suite().params])
TIER = _completer(lambda: [tier.value for tier in Tier])
EXPERIMENT = _completer(_experiments)
LISTED = _completer(lambda: ["suites", "engines", *_names("suite"), *_names("engine")])
