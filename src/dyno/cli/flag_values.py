"""Values of flags: lists, paths, and times and sizes as people write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from dyno.contracts.model import UsageError


class Quantity(click.ParamType[float]):
    """What `read` makes of the text, `least` or more."""

    name = "quantity"

    def __init__(self, read: Callable[[str], float], least: float) -> None:
        self._read, self._least = read, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = self._read(str(value))
        except ValueError as error:
            self.fail(f"{str(value)!r}: {error}", param, ctx)
        if found < self._least:
            self.fail(f"{found} is not in the range x>={self._least:g}", param, ctx)
        return found


class FilePath(click.Path):
    """A path. An empty text, as of a shell variable that is not set, is none: neither a default nor the current
    directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("expected a path, got ''", param, ctx)
        return super().convert(value, param, ctx)


PATH, NAME = FilePath(path_type=Path), FilePath()
"""As a Path, and as text: a dash or a slash at the end may have a meaning."""


def split(texts: Sequence[str]) -> list[str]:
    """The parts between commas, of all texts."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def params(texts: Sequence[str]) -> dict[str, list[str]]:
    """'NAME=V1,V2' as a name and its values. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not split([values]):
            raise UsageError(f"-p {text}: parameters are written NAME=VALUE[,VALUE...]")
        found.setdefault(name.strip(), []).extend(split([values]))
    return found
