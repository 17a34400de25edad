"""The contracts that authors of engines and suites fill in, from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from pages.text import code, table

from dyno.cli.schema import describe_fields
from dyno.contracts import counters, engine, installation, roles, suite

KINDS: dict[str, type] = {
    "EngineSpec": engine.EngineSpec,
    "PortSpec": engine.PortSpec,
    "Installation": installation.Installation,
    "ServerSpec": engine.ServerSpec,
    "CounterSpec": counters.CounterSpec,
    "WaitSpec": counters.WaitSpec,
    "CrashSpec": engine.CrashSpec,
    "Listing": engine.Listing,
    "Engine": engine.Engine,
    "Workload": suite.Workload,
    "Operations": suite.Operations,
}


def contract(name: str) -> str:
    """A table of a class's fields, or of its methods if it has no fields."""
    kind = KINDS[name]
    texts = {**SHORT, **describe_fields(kind)}
    if names := inspect.get_annotations(kind):
        return table(("Field", "Meaning"), [(code(name), texts.get(name, "")) for name in names])
    return table(("Method", "What it does"), list_methods(kind))


def list_methods(kind: type) -> list[tuple[str, str]]:
    """The public methods that a class defines itself, each with its docstring."""
    rows = []
    for method, member in vars(kind).items():
        if inspect.isfunction(member) and not method.startswith("_"):
            words = ", ".join(list(inspect.signature(member).parameters)[1:])
            rows.append((code(f"{method}({words})"), describe(member)))
    return rows


def describe(member: object) -> str:
    return " ".join((inspect.getdoc(member) or "").split())


def list_roles(ending: str) -> str:
    """A table of the roles whose names end in Suite or Workload, with their methods."""
    rows = []
    for name, kind in vars(roles).items():
        if name.endswith(ending) and kind.__module__ == roles.__name__:
            methods = [f"{method}: {text}" for method, text in list_methods(kind)]
            rows.append((code(name), "<br>".join([describe(kind), *methods])))
    return table(("Role", "What it says, and its methods"), rows)


SHORT = {
    "name": "What `-e` takes.",
    "title": "One line for `dyno list`.",
    "options": "What a user may set: `Setting`s with a parser, a default and a line of help.",
    "clients": "How several clients share it through this port; None: as the engine says.",
    "gaps": "Conformance checks that it does not pass, each with a kind and a reason.",
    "caveats": "Remarks about fairness, beside those of the opened engine.",
    "calls": "See above.",
    "arguments": "One argument per operation.",
    "check": "See above.",
}
"""Meanings of fields that need no docstring in the code."""
BLOCKS: dict[str, Callable[..., str]] = {"contract": contract, "roles": list_roles}
