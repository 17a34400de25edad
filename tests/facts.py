"""Keys of JSON, and command lines, to compare with the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from dyno.cli import commands as cli

# Dicts whose keys are names rather than keys of the format.
MAPS = re.compile(
    r"cells\[\]\.(params|settings|options|latency_by_kind_ns|latency_by_part_ns|account_ns|server)|phases\[\]\.kinds|absent(\[\]\.params)?|host\.psi(\.\*)?"
    r"|settings|facts|spent_ns|samples\[\]\.(by_kind|by_part|broken|server)|resources\.(client|server)|(comparisons|changes|lost|new|without)\[\]\.params"
    r"|(changed_answers|series)\[\]\.params|series\[\]\.comparisons\[\]\.params"
)


def keys(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of plain JSON as a path, such as `cells[].throughput.median`, with its value. Keys of dicts that
    match MAPS are `*`.
    """
    if isinstance(value, list):
        for item in value:
            yield from keys(item, f"{path}[]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            key = "*" if MAPS.fullmatch(path) else name
            whole = f"{path}.{key}" if path else key
            yield whole, inner
            yield from keys(inner, whole)


def differences(seen: list[tuple[str, Any]], documented: set[str]) -> tuple[set[str], set[str]]:
    """The undocumented keys, and the documented keys that are missing. Keys below a null or empty value don't count
    as missing.
    """
    there = {path for path, _ in seen}
    hollow = there - {path for path, value in seen if value is not None and value not in ({}, [])}
    missing = {d for d in documented - there if not any(re.match(rf"{re.escape(h)}[.\[]", d) for h in hollow)}
    return there - documented, missing


def command(name: str) -> click.Command:
    loaded = cli.dyno.get_command(click.Context(cli.dyno), name)
    assert loaded is not None
    return loaded


def parse(words: list[str]) -> None:
    """Parses a command line without running it."""
    if not words or words[0].startswith("-"):
        cli.dyno.make_context("dyno", list(words))
        return
    context = click.Context(cli.dyno, info_name="dyno")
    name, found, rest = cli.dyno.resolve_command(context, list(words))
    assert found is not None
    found.make_context(name, rest, parent=context)
