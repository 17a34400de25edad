"""The contracts that authors of engines and suites fill in, from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pages.text import code, docstrings, table

from dyno.contracts import engine, installation, suite

KINDS: dict[str, Any] = {
    "EngineSpec": engine.EngineSpec,
    "PortSpec": engine.PortSpec,
    "Installation": installation.Installation,
    "ServerSpec": engine.ServerSpec,
    "CrashSpec": engine.CrashSpec,
    "Listing": engine.Listing,
    "Engine": engine.Engine,
    "Workload": suite.Workload,
    "Operations": suite.Operations,
}


def contract(name: str) -> str:
    """A table of a class's fields, or of its methods if it has no fields."""
    kind = KINDS[name]
    described = docstrings(kind)
    if described:
        return table(
            ("Field", "Meaning"),
            [(code(field), text or SHORT.get(field, "")) for field, (_, text) in described.items()],
        )
    rows = []
    for method, member in vars(kind).items():
        if inspect.isfunction(member) and not method.startswith("_"):
            words = ", ".join(list(inspect.signature(member).parameters)[1:])
            rows.append((code(f"{method}({words})"), " ".join((inspect.getdoc(member) or "").split())))
    return table(("Method", "What it does"), rows)


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
BLOCKS: dict[str, Callable[..., str]] = {"contract": contract}
