"""Keys of the run file and of the JSON that commands print, from their types."""

from __future__ import annotations

import enum
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, UnsetType
from pages.text import code, table

from dyno.cli.schema import describe_fields, has_fields
from dyno.fields import FIELDS
from dyno.report import bisect_json, compare_json, export, show_json, why_json
from dyno.results.header import FirstLine, Host
from dyno.results.run import Attempt

WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", bytes: "string", object: "value or null"}
LISTS = (list, tuple, Sequence)
Keys = Iterator[tuple[str, str, str]]


def plain(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without annotations."""
    if get_origin(hint) is Annotated:
        return plain(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(each for part in get_args(hint) if part is not UnsetType for each in plain(part))
    return (hint,)


def word(hint: Any) -> str:
    origin = get_origin(hint)
    if hint is type(None):
        return "null"
    if hint in WORDS:
        return WORDS[hint]
    if origin is Literal or (inspect.isclass(hint) and issubclass(hint, enum.Enum)):
        return "string"
    return "list" if origin in LISTS else "object"


def keys_of(kind: Any, path: str = "") -> Keys:
    """The keys of an object, each with its type and meaning, and those of the objects in it."""
    generic = get_origin(kind) or kind
    texts = meanings_of(generic)
    hints = get_type_hints(generic, include_extras=True)
    for name in getattr(generic, "__struct_fields__", hints):
        hint = get_args(kind)[0] if isinstance(hints[name], TypeVar) else hints[name]
        yield from keys_below(hint, f"{path}.{name}" if path else name, texts.get(name, ""))


def meanings_of(kind: Any) -> dict[str, str]:
    """The docstrings of a class's fields, or else the descriptions of their types."""
    hints = get_type_hints(kind, include_extras=True).items()
    metas = {name: each for name, hint in hints for each in get_args(hint)[1:] if isinstance(each, Meta)}
    return {**{name: meta.description or "" for name, meta in metas.items()}, **describe_fields(kind)}


def keys_below(hint: Any, path: str, meaning: str) -> Keys:
    parts = plain(hint)
    words = [f"`{word}`" for part in parts if get_origin(part) is Literal for word in get_args(part)]
    # A meaning that quotes the words already explains each.
    if words and words[0] not in meaning.replace("'", "`"):
        meaning = f"{meaning} {', '.join(words[:-1])} or {words[-1]}.".strip()
    yield path, type_of(parts), meaning
    for part in parts:
        inner = get_args(part)
        if get_origin(part) in LISTS:
            yield from elements(inner[0], f"{path}[]")
        elif has_fields(get_origin(part) or part):
            yield from keys_of(part, path)
        elif inner and word(part) == "object" and inner[1] is not object:
            yield from keys_below(inner[1], f"{path}.*", "")


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
        if get_origin(part) in LISTS:
            yield from elements(get_args(part)[0], f"{path}[]")
        elif has_fields(part):
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


def printed(name: str, base: str = "") -> str:
    """Keys of the JSON that a command prints, without those of the type `base` and those with a page of their own."""
    kinds = {**vars(show_json), **vars(compare_json), **vars(why_json), **vars(bisect_json)}
    known = set(keys_of(kinds[base])) if base else set()
    return rows(each for each in keys_of(kinds[name]) if each not in known and not APART.match(each[0]))


def columns(name: str) -> str:
    """The columns of a table of CSV and Parquet, without those of measured quantities."""
    known = {
        "names": {**export.NAMES, "param_*": "see below"},
        "cells": export.CELLS,
        "samples": export.SAMPLES,
    }
    measured = {column for field in FIELDS for column in field.columns_of(name)} if name != "names" else set()
    meanings = {**meanings_of(show_json.CellRow), **COLUMNS}
    lines: list[tuple[list[str], str, str]] = []
    for column, kind in known[name].items():
        meaning = meanings.get(column, "")
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
APART = re.compile(r"runs\[\]\.|.*\.peak_resident_bytes|.*\.latency_by_machine_ns\.")
COLUMNS = {
    "account_total_ns": "Where the time of an item goes: the mean total, and [its parts](../explanations/why.md).",
    "awake": "Figures with and without may not be compared.",
    "block": "Which trial of the cell, from 0.",
    "caveats": "Codes.",
    "client_cpu_ns_per_item": "CPU time per item of the throughput.",
    "doubts": "Codes.",
    "param_*": "A parameter's value.",
    "samples": "Trials that the figures come from.",
    "throughput_median": "Median over the samples; `low` and `high` are the ends of its 95 % interval.",
    "valid": "Whether the row has a number; of a sample, whether it counts.",
    "why": "Why it has none.",
}
"""Meanings of columns that neither their names nor the keys of `dyno show --json` tell."""
BLOCKS: dict[str, Callable[..., str]] = {
    "first-line": first_line,
    "columns": columns,
    "host": host,
    "trial-lines": trial_lines,
    "printed": printed,
}
