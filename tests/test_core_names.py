"""Tests that the rooms between suites and reports name no suite and no engine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dyno
from dyno import registry

ROOT = Path(dyno.__file__).parent
ROOMS = ("cli", "stats", "report", "results", "runner", "measure")
NAMES = {*registry.names("suite"), *registry.names("engine")}


class Allowed(NamedTuple):
    """A name that is also a word with another meaning."""

    reason: str
    rooms: str
    """Rooms where it may be a word of a text or of an identifier."""
    alone: str = ""
    """Rooms where it may be a whole text, as a name would be."""


EVERYWHERE = " ".join(ROOMS)
ALLOWED = {
    "call": Allowed("a function call", EVERYWHERE),
    "calls": Allowed("function calls and system calls", EVERYWHERE),
    "commands": Allowed("commands of the command line", "cli runner"),
    "compression": Allowed("an argument of Parquet's writer", "report"),
    "compute": Allowed("a function's verb", "stats"),
    "cpu": Allowed("a metric, and facts of the machine", EVERYWHERE, EVERYWHERE),
    "dask": Allowed("the scheduler of --fleet", "cli"),
    "directory": Allowed("a directory of files", EVERYWHERE, "report results"),
    "duckdb": Allowed("an example of a package in a message", "cli"),
    "http": Allowed("the command `dyno http`, its facts, and addresses", EVERYWHERE, "cli"),
    "memory": Allowed("a metric, and facts of the machine", EVERYWHERE, EVERYWHERE),
    "null": Allowed("null engines, and JavaScript's null", EVERYWHERE),
    "numpy": Allowed("a library that Dyno uses", EVERYWHERE),
    "pandas": Allowed("a library that Dyno exports to", "report", "report"),
    "parquet": Allowed("a format of exports", "cli report", "cli report"),
    "pyarrow": Allowed("a library that Dyno exports by", "report", "report"),
    "python": Allowed("the language, and a loop", EVERYWHERE, EVERYWHERE),
    "records": Allowed("rows of a chart's data", EVERYWHERE, "report"),
    "selftest": Allowed("the command `dyno selftest`", "cli report", "cli"),
    "series": Allowed("points over time", EVERYWHERE, "report"),
    "spark": Allowed("an example of an address in a help text", "cli"),
}


NOWHERE = Allowed("no other meaning", "")


def read_words(text: str) -> set[str]:
    """The words of a text or an identifier: parts of camelCase and snake_case, and whole names with a _ or -."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+", text)
    return {part.lower() for part in parts} | set(re.findall(r"[a-z][a-z0-9_-]*", text))


def read_texts(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yields the line and text of each literal and identifier, and whether it is a literal. Leaves docstrings out."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docstrings:
                yield line, node.value, True
            continue
        for field in ("id", "attr", "arg", "name", "asname", "module", "rest"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                yield line, text, False


def find_names(room: str, source: str) -> Iterator[str]:
    """Yields a line of text for each name of a suite or an engine that the source has, and that is not allowed."""
    for line, text, is_literal in read_texts(ast.parse(source)):
        for name in sorted(read_words(text) & NAMES):
            allowed = ALLOWED.get(name, NOWHERE)
            rooms = allowed.alone if is_literal and text == name else allowed.rooms
            if room not in rooms.split():
                yield f"{line}: {text!r} names {name}"


def test_core_names_no_suite_or_engine() -> None:
    mentions = [
        f"{path}:{line}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in find_names(room, path.read_text())
    ]
    assert mentions == []


def test_names_in_code_are_found() -> None:
    source = """'in a docstring: sqlite'
SUITE = "commands"
is_sql = f"-q is for sql: {x}"
import lmdb
mariadbUrl = 1
"""
    assert sorted(line.partition(":")[0] for line in find_names("cli", source)) == ["2", "3", "3", "4", "5"]


def test_allowed_names_are_names_in_use() -> None:
    used = {word for room in ROOMS for path in (ROOT / room).rglob("*.py") for word in read_words(path.read_text())}
    assert set(ALLOWED) <= NAMES & used
