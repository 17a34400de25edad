"""The lines of a run file, each as JSON that has one meaning: no key twice, no number that is none, nothing without
an end. What the values are of may not be put here.

A line that Dyno wrote is decoded natively. It is one that reads back to itself, byte by byte: of a key that is there
twice, only one is left. Any other is looked at again, more slowly, key by key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dyno.contracts.model import UsageError
from dyno.contracts.sample import HISTOGRAMS
from dyno.contracts.value_types import MOST_HISTOGRAM, MOST_TEXT
from dyno.text.safe_read import MIB, opened
from dyno.text.sanitize import MOST, sanitize

OPENING = b'{"kind":"run"'
"""How Dyno begins a run file."""
_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"kind"\s*:\s*"run"')
_BEGINNING_BYTES = 1 << 16
MOST_BYTES, MOST_LINE = 2048 * MIB, 64 * MIB
"""Of a run file, and of a line of it."""
SEVERAL_LINES = frozenset({"why", "output", "first_error", "void", "absent"})
"""Texts that may have line breaks."""
_OF_ALL = HISTOGRAMS | {"absent"}
"""Names of tables, too, whose keys are others' names."""
DIGITS = 20
"""Of a whole number: more than 64 bits have."""

_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def is_run_file(path: Path) -> bool:
    """Returns whether a regular file begins like a run file, whatever its white space and the order of its keys.
    Raises OSError."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if _BEGINNING.match(file.read(_BEGINNING_BYTES)):
            return True
        file.seek(0)
        line = file.readline(MOST_LINE)
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        first = parsed(line)
    except ValueError:
        return False
    return isinstance(first, dict) and first.get("kind") == "run"


def lines(path: Path) -> Iterator[bytes]:
    """Each whole line, without its break: what a kill tore at the end is none. Raises UsageError."""
    with opened(path, MOST_BYTES) as file:
        number = 1
        while (line := file.readline(MOST_LINE)).endswith(b"\n"):
            yield line[:-1]
            number += 1
        if len(line) == MOST_LINE:
            raise damaged(path, f"longer than {MOST_LINE // MIB} MiB", number)


def damaged(path: Path, why: object, line: int | None = None) -> UsageError:
    """For what can't be made sense of."""
    where = "" if line is None else f" in line {line}"
    return UsageError(f"{path} is damaged{where}: {why}")


def parsed(line: bytes) -> Any:
    """What the line says; text in it can do no harm to who reads it. Raises ValueError."""
    try:
        found = _natively(line)
        if found is None:
            found = _strictly(line)
        plain = line.isascii() and b"\\" not in line and b"\x7f" not in line
        return found if plain else cleaned(found)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _natively(line: bytes) -> Any:
    """None for a line that is not what Dyno would write."""
    try:
        found = _decode(line)
    except (msgspec.DecodeError, ValueError):
        # Half a character, which an escape may name and older versions wrote, is refused too.
        return None
    return found if _encode(found) == line else None


def _strictly(line: bytes) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(
            line.decode(),
            object_pairs_hook=_once,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON from character {error.pos} on") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 from byte {error.start} on") from None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {json.dumps(sanitize(twice, most=80))} is there twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:DIGITS]} is not a number of JSON")
    return number


def cleaned(found: Any, name: str = "") -> Any:
    """The same with every text made harmless, keys too, and cut where it is longer than any that is wanted."""
    if isinstance(found, str):
        if name in HISTOGRAMS:
            return sanitize(found, MOST_HISTOGRAM + 1)
        return _fit(found, "\n\t" if name in SEVERAL_LINES else "")
    if isinstance(found, list):
        return [cleaned(value, name) for value in found]
    if isinstance(found, dict):
        return {_fit(key): cleaned(value, name if name in _OF_ALL else key) for key, value in found.items()}
    return found


def _fit(text: str, keep: str = "") -> str:
    # Not to what was kept of one that was cut where it entered: the mark is a part of it.
    return sanitize(text, MOST if len(text) > MOST_TEXT else MOST_TEXT, keep)
