"""Plan files: TOML with the same names as the flags, for what one wants to keep or can't write in a shell.

Whatever is in the file, what is handed on is of the types of `RunRequest`. What it means is judged where flags are,
too."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts import quantities
from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value, literal, unknown
from dyno.contracts.value_types import MOST, MOST_TEXT
from dyno.runner.run_request import SECONDS, SIZES, RunRequest
from dyno.text.safe_read import MIB, text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GIB = 1 << 30
MOST_BYTES = MIB
# The key of the file, which is the long name of the flag, to the field of Asked and the type that it wants.
KEYS: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    "suite": ("suite", str),
    "engine": ("engines", list),
    "param": ("params", dict),
    "samples": ("samples", int),
    "until": ("until", (str, int, float)),
    "within": ("within", (int, float, str)),
    "preset": ("preset", str),
    "tier": ("tier", str),
    "clients": ("clients", (int, str, list)),
    "rate": ("rate", (int, float, str, list)),
    "phases": ("phases", list),
    "seed": ("seed", int),
    "budget": ("budget", (int, float, str)),
    "duration": ("duration", (int, float, str)),
    "warmup": ("warmup", (int, float, str)),
    "arrivals": ("arrivals", str),
    "loop": ("loop", str),
    "timeout": ("timeout", (int, float, str)),
    "memory": ("memory", (int, float, str)),
    "confine": ("confine", (int, float, str)),
    "retries": ("retries", int),
    "awake": ("awake", bool),
}


def read(path: Path) -> RunRequest:
    """What the file asks for. Raises UsageError, in one line, with the nearest right name."""
    try:
        data = tomllib.loads(text(path, MOST_BYTES))
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None
    except ValueError as error:
        # Of what is no TOML or no UTF-8, and of a number of thousands of digits.
        raise UsageError(f"{path} is not TOML: {format_value(error)}") from None
    return parse(data, str(path))


def parse(data: Mapping[str, Any], where: str) -> RunRequest:
    """What a plan's table asks for; `where` names its place in messages."""
    if "suite" not in data:
        raise UsageError(f'{where}: suite is missing; say suite = "records"')
    fields: dict[str, Any] = {}
    for key, value in data.items():
        if key not in KEYS:
            raise UsageError(unknown(f"{where}: key", key, KEYS))
        name, kind = KEYS[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UsageError(f"{where}: {key} = {literal(value)} has the wrong type; {_wanted(kind)}")
        for leaf in _leaves(key, value):
            _check(f"{where}: {key}", leaf)
        fields[name] = value
    return RunRequest(**_whole(where, fields))


def _leaves(key: str, found: Any) -> Iterator[Any]:
    """What stands under a key where a text or a number has to be."""
    if key == "engine":
        for entry in found:
            yield from entry.values() if isinstance(entry, dict) else [entry]
    elif key == "param":
        for values in found.values():
            yield from _listed(values)
    else:
        yield from _listed(found)


def _check(where: str, value: Any) -> None:
    """Raises UsageError for a date, a list in a list, a number that nothing has room for."""
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{where}: {literal(value)} is neither a text nor a number")
    if isinstance(value, str):
        if len(value) > MOST_TEXT:
            raise UsageError(f"{where}: a text of {len(value):,} characters, of {MOST_TEXT:,} at most")
    elif isinstance(value, int) and abs(value) > MOST:
        raise UsageError(f"{where}: {literal(value)} is a number of more than 64 bits")


def size(name: str, gib: float) -> int:
    """In bytes. Raises UsageError for what is no number of them."""
    if not abs(gib * GIB) <= MOST:
        raise UsageError(f"{name} is out of range: it wants less than 8 EiB")
    return int(gib * GIB)


def _whole(where: str, fields: dict[str, Any]) -> dict[str, Any]:
    for name in fields.keys() & {*SECONDS, *SIZES}:
        found = _read(where, name, fields[name]) if isinstance(fields[name], str) else fields[name]
        fields[name] = size(name, found) if name in SIZES else found
    if "engines" in fields:
        fields["engines"] = [_engine(where, entry) for entry in fields["engines"]]
    if "params" in fields:
        fields["params"] = {name: _listed(value) for name, value in fields["params"].items()}
    for name in ("clients", "rate"):
        if name in fields:
            fields[name] = _listed(fields[name])
            if not fields[name]:
                raise UsageError(f"{where}: {name} has no value")
    return fields


def _read(where: str, name: str, text: str) -> float:
    try:
        return quantities.gib(text) if name in SIZES else quantities.seconds(text)
    except ValueError as error:
        raise UsageError(f"{where}: {name} = {literal(text)}: {error}") from None


def _engine(where: str, entry: Any) -> str | Mapping[str, Any]:
    """'sqlite:journal_mode=wal', or a table whose key `name` stands beside the options."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict) and isinstance(entry.get("name"), str):
        return entry
    raise UsageError(f"{where}: engine {literal(entry)} is neither a name nor a table with a name")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _wanted(kind: type | tuple[type, ...]) -> str:
    names = {str: "a string", list: "a list", dict: "a table", int: "a whole number", float: "a number"}
    names[bool] = "true or false"
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return "it wants " + " or ".join(names[k] for k in kinds)
