"""Keys of the run file and of the JSON that commands print, from their types."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from pages import shapes
from pages.text import code, table

from dyno.fields import FIELDS
from dyno.report import export
from dyno.results.header import FirstLine, Host
from dyno.results.run import Attempt

WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", bytes: "string", object: "object"}
Keys = Iterator[tuple[str, str, str]]


def described(kind: Any) -> dict[str, str]:
    """The docstrings of a class's fields, and of those that it inherits in its module."""
    module = inspect.getmodule(kind)
    if module is None or not getattr(module, "__file__", None):
        return {}
    nodes = {node.name: node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)}
    return fields_of(kind.__name__, nodes)


def fields_of(name: str, nodes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    if name not in nodes:
        return {}
    text: dict[str, str] = {}
    for base in nodes[name].bases:
        text |= fields_of(ast.unparse(base), nodes)
    body = nodes[name].body
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
            text[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(after.value)).split())
    return text


def plain(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without annotations."""
    if get_origin(hint) is Annotated:
        return plain(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(each for part in get_args(hint) for each in plain(part))
    return (hint,)


def word(hint: Any) -> str:
    origin = get_origin(hint)
    if hint is type(None):
        return "null"
    if hint in WORDS:
        return WORDS[hint]
    if origin is Literal or (inspect.isclass(hint) and issubclass(hint, enum.Enum)):
        return "string"
    return "list" if origin in (list, tuple) else "object"


def keys_of(kind: Any, path: str = "") -> Keys:
    """The keys of an object, each with its type and meaning, and those of the objects in it."""
    texts = described(kind)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if not name.startswith("_"):
            yield from keys_below(hint, f"{path}.{name}" if path else name, texts.get(name, ""))


def has_keys(kind: Any) -> bool:
    """Whether a type is of objects with declared keys."""
    return hasattr(kind, "__total__") or is_dataclass(kind) or (inspect.isclass(kind) and issubclass(kind, Struct))


def keys_below(hint: Any, path: str, meaning: str) -> Keys:
    parts = plain(hint)
    words = [f"`{word}`" for part in parts if get_origin(part) is Literal for word in get_args(part)]
    # A meaning that quotes the words already explains each.
    if words and f"'{words[0][1:-1]}'" not in meaning:
        meaning = f"{meaning} {', '.join(words[:-1])} or {words[-1]}.".strip()
    yield path, type_of(parts), meaning
    for part in parts:
        inner = get_args(part)
        if get_origin(part) in (list, tuple):
            yield from elements(inner[0], f"{path}[]")
        elif inner and word(part) == "object":
            yield from keys_below(inner[1], f"{path}.*", "")
        elif has_keys(part):
            yield from keys_of(part, path)


def type_of(parts: Sequence[Any]) -> str:
    words = list(dict.fromkeys(map(word, parts)))
    if "number" in words and "integer" in words:
        words.remove("integer")
    if {"string", "number", "boolean"} <= set(words):
        words = ["value", *(["null"] if "null" in words else [])]
    return " or ".join(words)


def elements(hint: Any, path: str) -> Keys:
    """The keys of a list's elements. Elements that are plain values have none."""
    for part in plain(hint):
        if get_origin(part) in (list, tuple):
            yield from elements(get_args(part)[0], f"{path}[]")
        elif has_keys(part):
            yield from keys_of(part, path)


def rows(keys: Iterable[tuple[str, str, str]]) -> str:
    """A table of keys. Neighbours of one object with the same type and no meaning share a line."""
    lines: list[tuple[list[str], str, str]] = []
    for path, kind, meaning in keys:
        parent = path.rpartition(".")[0]
        if lines and not meaning and lines[-1][1:] == (kind, "") and lines[-1][0][0].rpartition(".")[0] == parent:
            lines[-1][0].append(path)
        else:
            lines.append(([path], kind, meaning))
    return table(("Key", "Type", "Meaning"), [(code(*paths), kind, meaning) for paths, kind, meaning in lines])


def first_line() -> str:
    """Keys of the run file's first line, without those of the options, the machine and known crashes."""
    apart = ("plan.", "host.", "crashed[]")
    kept = [each for each in keys_of(FirstLine) if not each[0].startswith(apart) and each[0] not in NOT_WRITTEN]
    return rows([("kind", "string", "`run`"), *kept, *PLAN])


def host() -> str:
    return rows(keys_of(Host))


def trial_lines() -> str:
    """Keys of a trial's line, without the measured quantities, which have their own page."""
    keys: dict[str, tuple[str, str, str]] = {"kind": ("kind", "string", "`trial`")}
    for path, kind, meaning in keys_of(Attempt):
        short = NESTED.sub(r"\1.*", path)
        if not ELSEWHERE.fullmatch(path):
            keys.setdefault(short, (short, kind, meaning if short == path else "the keys of `samples[].client`"))
    return rows(keys.values())


def shape(name: str) -> str:
    return rows(keys_of(getattr(shapes, name)))


def columns(name: str) -> str:
    """The columns of a table of CSV and Parquet, without those of measured quantities."""
    known = {
        "names": {**export.NAMES, "param_*": "see below"},
        "cells": export.CELLS,
        "samples": export.SAMPLES,
    }
    measured = {column for field in FIELDS for column in field.columns_of(name)} if name != "names" else set()
    lines: list[tuple[list[str], str, str]] = []
    for column, kind in known[name].items():
        meaning = shapes.COLUMNS.get(column, "")
        if column in measured:
            continue
        if lines and not meaning and lines[-1][1:] == (kind, ""):
            lines[-1][0].append(column)
        else:
            lines.append(([column], kind, meaning))
    return table(("Column", "Type", "Meaning"), [(code(*names), kind, meaning) for names, kind, meaning in lines])


PLAN = (("plan.suite", "string", ""), ("plan.phases", "list", ""))
NOT_WRITTEN = ("phases[].by_default", "phases[].one_call")
NESTED = re.compile(r"^(samples\[\]\.server|resources\.(?:client|server))\..+$")
ELSEWHERE = re.compile(
    r"samples\[\]\.\w+|samples\[\]\.client\.peak_resident_bytes|samples\[\]\.device\.(?!read_bytes|written_bytes)\w+"
)
"""Measured quantities, and counters that are not there."""
BLOCKS: dict[str, Callable[..., str]] = {
    "first-line": first_line,
    "columns": columns,
    "host": host,
    "trial-lines": trial_lines,
    "shape": shape,
}
