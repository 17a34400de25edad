"""Checks what plug-ins declare, and what engines and suites report in a trial: types, sizes, names.

The worker checks reports before it sends them. Their text is sanitized later, by the run's process.
"""

from __future__ import annotations

import importlib
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from itertools import islice
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from dyno.contracts.model import Caveat, Fact, Refused, Wrong
from dyno.contracts.value_types import LEAST, MOST, MOST_REAL

MOST_VALUES = 1_000
MOST_CAVEATS = 100
MOST_NAME = 200
LONGEST = 1 << 24
"""Maximum length of a reported exception text, in characters."""
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_PLAIN: dict[object, type | tuple[type, ...]] = {
    **{kind: kind for kind in (str, bool, int, Mapping, NoneType)},
    float: (int, float),
    tuple: (tuple, list),
}


# -- reports of a trial -------------------------------------------------------------------------------------------


class InvalidValue(Exception):
    """An engine or a suite reported an invalid value. The message names the field, the value and the valid values."""


def checked_text(value: object, where: str) -> str:
    """Returns the text. `where`: 'engine lmdb: version'. Raises InvalidValue."""
    if not isinstance(value, str):
        raise InvalidValue(f"{where}: expected text, got {_abbreviate(value)}")
    # A subclass of str may override methods: convert it to a plain str.
    return str.__str__(value)


def checked_values(values: object, where: str) -> dict[str, Fact]:
    """Returns values by name: text, numbers, booleans or None. Raises InvalidValue."""
    if not isinstance(values, Mapping):
        raise InvalidValue(f"{where}: expected values by name, got {_abbreviate(values)}")
    checked: dict[str, Fact] = {}
    for name, value in islice(values.items(), MOST_VALUES + 1):
        if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
            raise InvalidValue(f"{where}: expected names of 1 to {MOST_NAME} characters, got {_abbreviate(name)}")
        checked[str.__str__(name)] = _checked_value(value, f"{where}: {name}")
    if len(checked) > MOST_VALUES:
        raise InvalidValue(f"{where}: expected at most {MOST_VALUES:,} values")
    return checked


def _checked_value(value: object, where: str) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and LEAST <= value <= MOST:
        return int.__int__(value)
    if isinstance(value, float) and -MOST_REAL <= value <= MOST_REAL:
        return float.__float__(value)
    wanted = "text, a finite number of at most 64 bits, yes or no, or None"
    raise InvalidValue(f"{where}: expected {wanted}, got {_abbreviate(value)}")


def checked_caveats(caveats: Iterable[object], where: str) -> tuple[Caveat, ...]:
    """Returns caveats with plain texts. Raises InvalidValue."""
    checked = []
    for caveat in islice(caveats, MOST_CAVEATS + 1):
        if not isinstance(caveat, Caveat):
            raise InvalidValue(f"{where}: expected a Caveat, got {_abbreviate(caveat)}")
        if not isinstance(caveat.code, str) or not _CODE.fullmatch(caveat.code):
            wanted = "letters, digits, '.', '_' and '-', up to 60"
            raise InvalidValue(f"{where}: expected a code of {wanted}, got {_abbreviate(caveat.code)}")
        text = checked_text(caveat.text, f"{where}: the text of {caveat.code}")
        checked.append(Caveat(str.__str__(caveat.code), text))
    if len(checked) > MOST_CAVEATS:
        raise InvalidValue(f"{where}: expected at most {MOST_CAVEATS} caveats")
    return tuple(checked)


def checked_count(value: object, where: str) -> int:
    """Returns a count, or a duration in ns. Raises InvalidValue."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise InvalidValue(f"{where}: expected a whole number from 0 up, got {_abbreviate(value)}")
    return int.__int__(value)


class EngineError(Exception):
    """An engine's own code, or its client library, failed. The text names the engine, what was being done, and the
    exception."""


@contextmanager
def convert_engine_errors(engine: str, what: str) -> Iterator[None]:
    """Raises EngineError if the block raises an exception that no contract of Dyno's has. `what`: 'reading its
    settings'."""
    try:
        yield
    except (Refused, Wrong, InvalidValue, MemoryError):
        raise
    except Exception as error:
        raise EngineError(f"{engine}: {what}: {type(error).__name__}: {exception_text(error)}") from error


def typed_text(error: BaseException, text: str) -> str:
    """Returns the text with the exception's type before it if that is one of Python's own, which a client library
    raises for a response that it can't read: such texts name no cause."""
    named = type(error).__module__ == "builtins" and not isinstance(error, OSError)
    if named:
        return f"{type(error).__name__}: {text}"
    return text


def exception_text(error: BaseException) -> str:
    """The message of an exception, even if its `__str__` raises."""
    try:
        return str.__str__(str(error))[:LONGEST]
    except Exception as worse:
        return f"(its message can't be read: {type(worse).__name__})"


def _abbreviate(value: object) -> str:
    """A short form of a value, with its type."""
    try:
        text = reprlib.repr(value)
    except Exception:
        text = "?"
    if value is None:
        return text
    return f"{text:.60} ({type(value).__name__})"


# -- declarations of plug-ins -------------------------------------------------------------------------------------


def defer_import(path: str) -> Callable[..., Any]:
    """Returns a callable that imports 'package.module:name' when it is called, and passes its arguments on."""

    def call(*arguments: object) -> Any:
        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


def type_errors(declared: object, kind: type | None = None, where: str = "") -> Iterator[str]:
    """Yields a line for each field that is missing or has the wrong type. The annotations are those of `kind`, or of
    the declaration's own class if `kind` is None."""
    kind = kind or type(declared)
    for name, hint in get_type_hints(kind).items():
        field = name
        if where:
            field = f"{where}: {name}"
        if not hasattr(declared, name):
            yield f"{field} is missing"
            continue
        value = getattr(declared, name)
        if not _fits(value, hint):
            # The annotations of a named tuple are ForwardRef objects, those of a data class are plain strings.
            annotation = kind.__annotations__[name]
            yield f"{field} is {_abbreviate(value)}, expected {getattr(annotation, '__forward_arg__', annotation)}"
        elif is_dataclass(value):
            yield from type_errors(value, where=field)
        elif isinstance(value, (tuple, list, Mapping)) and not _has_fields(value):
            for each in value.values() if isinstance(value, Mapping) else value:
                if _has_fields(each):
                    yield from type_errors(each, where=field)


def _fits(value: object, hint: object) -> bool:
    """Returns True for types that are not known here: other code checks them."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Callable:
        return callable(value)
    if parts == (str, ...):
        return isinstance(value, (tuple, list)) and all(isinstance(each, str) for each in value)
    if is_dataclass(kind) and isinstance(kind, type):
        return isinstance(value, kind)
    if kind in _PLAIN:
        return isinstance(value, _PLAIN[kind])
    return value is not None


def _has_fields(value: object) -> bool:
    return hasattr(value, "_fields") or (is_dataclass(value) and not isinstance(value, type))
