"""What an engine or a suite may say of itself and of its store in a trial: names, and with each a text, a number, yes
or no, or None where it is not known. It is looked at in the worker, where it is said.

Text is not judged here: the run's process makes it harmless, where it hears it.
"""

from __future__ import annotations

import importlib
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from dyno.contracts.model import Caveat
from dyno.contracts.value_types import LEAST, MOST, MOST_REAL

MOST_VALUES, MOST_CAVEATS, MOST_NAME = 1_000, 100, 200
LONGEST = 1 << 24
"""Characters of what an exception says that are told at all."""
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
WANTED = "text, a finite number, yes or no, or None"


class InvalidValue(Exception):
    """What was said is not what may be said: names who said it, the field, and what would be right."""


def checked_text(told: object, where: str) -> str:
    """A text; `where`: 'engine lmdb: version'. Raises InvalidValue."""
    if not isinstance(told, str):
        raise InvalidValue(f"{where} is {_shown(told)}, and has to be text")
    # Of exactly this type, whatever its own methods say.
    return str.__str__(told)


def checked_values(told: object, where: str) -> dict[str, Any]:
    """Values by name. Raises InvalidValue."""
    if not isinstance(told, Mapping):
        raise InvalidValue(f"{where} is {_shown(told)}, and has to be values by name")
    found: dict[str, Any] = {}
    for name, value in islice(told.items(), MOST_VALUES + 1):
        if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
            raise InvalidValue(f"{where}: {_shown(name)} is no name, which is text of 1 to {MOST_NAME} characters")
        found[str.__str__(name)] = _value(value, f"{where}: {name}")
    if len(found) > MOST_VALUES:
        raise InvalidValue(f"{where}: there are more than {MOST_VALUES:,}")
    return found


def _value(told: object, where: str) -> str | int | float | bool | None:
    if told is None or isinstance(told, bool):
        return told
    if isinstance(told, str):
        return str.__str__(told)
    if isinstance(told, int):
        if not LEAST <= told <= MOST:
            raise InvalidValue(f"{where} is a whole number of more than 64 bits")
        return int.__int__(told)
    if isinstance(told, float) and -MOST_REAL <= told <= MOST_REAL:
        return float.__float__(told)
    raise InvalidValue(f"{where} is {_shown(told)}, and has to be {WANTED}")


def checked_caveats(told: Iterable[object], where: str) -> list[dict[str, str]]:
    """Caveats, as plain data. Raises InvalidValue."""
    found = [_caveat(caveat, where) for caveat in islice(told, MOST_CAVEATS + 1)]
    if len(found) > MOST_CAVEATS:
        raise InvalidValue(f"{where}: there are more than {MOST_CAVEATS}")
    return found


def _caveat(told: object, where: str) -> dict[str, str]:
    if not isinstance(told, Caveat):
        raise InvalidValue(f"{where}: {_shown(told)} is no Caveat")
    if not isinstance(told.code, str) or not _CODE.fullmatch(told.code):
        wanted = "letters, digits, '.', '_' and '-', up to 60"
        raise InvalidValue(f"{where}: the code {_shown(told.code)} is none: it has to be of {wanted}")
    return {"code": str.__str__(told.code), "text": checked_text(told.text, f"{where}: the text of {told.code}")}


def checked_count(told: object, where: str) -> int:
    """A number of things, or of ns. Raises InvalidValue."""
    if isinstance(told, bool) or not isinstance(told, int) or not 0 <= told <= MOST:
        raise InvalidValue(f"{where} is {_shown(told)}, and has to be a whole number from 0 up")
    return int.__int__(told)


def deferred(path: str) -> Callable[..., Any]:
    """Returns a callable that imports 'package.module:name' when it is called, and passes its arguments on."""

    def call(*arguments: Any) -> Any:
        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


def exception_text(error: BaseException) -> str:
    """What an exception says, even one that can't say it."""
    try:
        return str.__str__(str(error))[:LONGEST]
    except Exception as worse:
        return f"(it can't say what it is: {type(worse).__name__})"


def _shown(told: object) -> str:
    """Of which type it is, and what it looks like, in short."""
    try:
        looks = reprlib.repr(told)
    except Exception:
        looks = "?"
    return looks if told is None else f"{looks:.60} ({type(told).__name__})"
