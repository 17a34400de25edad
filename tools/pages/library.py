"""The objects of `import dyno`, from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from pages.text import code, table

import dyno
from dyno.cli.schema import describe_fields

MOST = 6
"""Arguments that are shown."""


def functions() -> str:
    rows = []
    for name in dyno.__all__:
        if name[0].islower():
            function = getattr(dyno, name)
            rows.append((code(f"dyno.{name}({arguments(function)})"), first(inspect.getdoc(function))))
    return table(("Function", "What it does"), rows)


def arguments(function: Callable[..., object], skipped: int = 0) -> str:
    """The names of a function's arguments, the first of many."""
    names = list(inspect.signature(function).parameters)[skipped:]
    return ", ".join(names if len(names) <= MOST else [*names[:MOST], "..."])


def first(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def members(name: str) -> str:
    """Fields, properties and methods of a class of the library."""
    kind = getattr(dyno, name)
    if is_dataclass(kind):
        return table((f"Of `{name}`", "Type", "Meaning"), list(fields_of(kind)))
    return table((f"Of `{name}`", "Meaning"), list(methods(kind)))


def fields_of(kind: Any) -> Iterable[tuple[str, str, str]]:
    texts = describe_fields(kind)
    for field in fields(kind):
        yield code(field.name), code(str(field.type)), texts.get(field.name, "")


def methods(kind: type) -> Iterable[tuple[str, str]]:
    for name, member in vars(kind).items():
        if not name.startswith("_"):
            title = f"{name}({arguments(member, 1)})" if inspect.isfunction(member) else name
            yield code(title), first(inspect.getdoc(member))


BLOCKS: dict[str, Callable[..., str]] = {"functions": functions, "members": members}
