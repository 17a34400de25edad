"""Plan files: TOML whose keys are the long names of the flags."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import COUNTS, ENGINES, PARAMS, RATES, SIZE, Kind, literal, unknown_name_message
from dyno.contracts.value_types import MOST, MOST_TEXT
from dyno.options import OPTIONS, Option, RunRequest, as_list

GIB = 1 << 30
SUITE = "suite"
KEYS: Mapping[str, Option] = {each.key: each for each in OPTIONS}
TYPES = {
    str: "a string",
    list: "a list",
    dict: "a table",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def read(path: Path) -> RunRequest:
    """Reads a run request from a file. Raises UsageError."""
    return parse(toml(path), str(path), path.parent)


def parse(data: Mapping[str, object], where: str, base: Path = Path()) -> RunRequest:
    """Converts a plan file's table to a run request. `where`: name of the table in messages. `base`: directory to
    which names of files are relative. Raises UsageError."""
    if SUITE not in data:
        raise UsageError(f'{where}: suite is missing; add suite = "records"')
    fields: dict[str, Any] = {"base": base}
    for key, value in data.items():
        if key == data[SUITE] and isinstance(value, dict):
            fields["definition"] = value
            continue
        if key != SUITE and key not in KEYS:
            raise UsageError(unknown_name_message(f"{where}: key", key, [SUITE, *KEYS]))
        types = (str,) if key == SUITE else KEYS[key].kind.types
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            wanted = " or ".join(TYPES[each] for each in types if each is not int or float not in types)
            raise UsageError(f"{where}: {key}: expected {wanted}, got {literal(value)}")
        if key == SUITE:
            _check(f"{where}: {key}", value)
            fields[SUITE] = value
            continue
        for leaf in _leaves(KEYS[key].kind, value):
            _check(f"{where}: {key}", leaf)
        fields[KEYS[key].name] = _value(f"{where}: {key}", KEYS[key], value)
    return RunRequest(**fields)


def _leaves(kind: Kind, value: Any) -> Iterator[object]:
    """Yields the texts and numbers in a key's value."""
    if kind is ENGINES:
        for entry in value:
            yield from entry.values() if isinstance(entry, dict) else [entry]
    elif kind is PARAMS:
        for values in value.values():
            yield from as_list(values)
    else:
        yield from as_list(value)


def _check(where: str, value: object) -> None:
    """Raises UsageError unless the value is a text or a number of an accepted size."""
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{where}: expected a text or a number, got {literal(value)}")
    if isinstance(value, str):
        if len(value) > MOST_TEXT:
            raise UsageError(f"{where}: expected a text of at most {MOST_TEXT:,} characters, got {len(value):,}")
    elif isinstance(value, int) and abs(value) > MOST:
        raise UsageError(f"{where}: expected a number of at most 64 bits, got {literal(value)}")


def _value(where: str, option: Option, value: Any) -> object:
    """Returns the value for the field of RunRequest. Raises UsageError."""
    kind = option.kind
    if kind.read is not None and isinstance(value, str):
        try:
            value = kind.read(value)
        except ValueError as error:
            raise UsageError(f"{where} = {literal(value)}: {error}") from None
    if kind is SIZE:
        return size(option.name, value)
    if kind is ENGINES:
        for entry in value:
            if not isinstance(entry, str) and not (isinstance(entry, dict) and isinstance(entry.get("name"), str)):
                raise UsageError(f"{where}: expected a name or a table with a name, got {literal(entry)}")
    elif kind in (COUNTS, RATES) and value == []:
        raise UsageError(f"{where}: expected at least one value, got []")
    return value


def size(name: str, gib: float) -> int:
    """Converts GiB to bytes. Raises UsageError for a size of more than 64 bits."""
    if not abs(gib * GIB) <= MOST:
        raise UsageError(f"{name}: expected less than 8 EiB, got {gib:g} GiB")
    return int(gib * GIB)


def as_toml(plan: Mapping[str, object]) -> str:
    """Returns a plan file with these keys."""
    return "\n".join([*(f"{key} = {_format_toml(value)}" for key, value in plan.items()), ""])


def _format_toml(value: object) -> str:
    """Writes a value as TOML, whose strings, numbers and arrays are written like JSON's."""
    if isinstance(value, Mapping):
        parts = [f"{json.dumps(str(key))} = {_format_toml(each)}" for key, each in value.items() if each is not None]
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_format_toml, value))}]"
    # TOML has no pairs of escapes for one letter, as JSON has.
    return json.dumps(value, ensure_ascii=False)
