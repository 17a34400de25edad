"""Parses the lines of a run file as strict JSON: no duplicate keys, no NaN or infinity, limited sizes.

msgspec decodes a line. If Dyno wrote the line, it encodes to the same bytes again. If it doesn't, the line may have
duplicate keys, of which msgspec keeps only one. Then Python's slower decoder checks each key.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import MIB, opened
from dyno.contracts.sanitize import MOST, sanitize
from dyno.contracts.value_types import MOST_HISTOGRAM, MOST_TEXT
from dyno.fields import HISTOGRAMS

OPENING = b'{"kind":"run"'
"""First bytes of a run file that Dyno wrote."""
_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"kind"\s*:\s*"run"')
_BEGINNING_BYTES = 1 << 16
MOST_BYTES, MOST_LINE = 2048 * MIB, 64 * MIB
"""Maximum size of a run file, and of one of its lines."""
SEVERAL_LINES = frozenset({"why", "output", "first_error", "void", "absent"})
"""Keys whose texts may have line breaks."""
_WITH_NAMES = HISTOGRAMS | {"absent"}
"""Keys of tables by name. The texts in them are treated as texts of the table's own key."""
DIGITS = 20
"""Maximum number of digits of a whole number, enough for 64 bits."""

_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def is_run_file(path: Path) -> bool:
    """Returns whether a regular file begins like a run file, with any white space and order of keys. Raises
    OSError."""
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
    """Yields each complete line without its line break, and skips an incomplete last line. Raises UsageError."""
    with opened(path, MOST_BYTES) as file:
        number = 1
        while (line := file.readline(MOST_LINE)).endswith(b"\n"):
            yield line[:-1]
            number += 1
        if len(line) == MOST_LINE:
            raise damaged(path, f"longer than {MOST_LINE // MIB} MiB", number)


def damaged(path: Path, why: object, line: int | None = None) -> UsageError:
    """Returns the error for a file with invalid content."""
    where = "" if line is None else f" in line {line}"
    return UsageError(f"{path} is damaged{where}: {why}")


def parsed(line: bytes) -> Any:
    """Parses the JSON of a line, and sanitizes its texts. Raises ValueError."""
    try:
        data = None
        # msgspec also refuses lone surrogates, which older versions of Dyno wrote.
        with suppress(msgspec.DecodeError, ValueError):
            data = _decode(line)
        if data is None or _encode(data) != line:
            data = json.loads(
                line.decode(),
                object_pairs_hook=_object,
                parse_int=_integer,
                parse_float=_finite,
                parse_constant=_finite,
            )
        plain = line.isascii() and b"\\" not in line and b"\x7f" not in line
        return data if plain else cleaned(data)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON from character {error.pos} on") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 from byte {error.start} on") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {json.dumps(sanitize(duplicate, most=80))} is there twice")
    return data


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:DIGITS]} is not a number of JSON")
    return number


def cleaned(data: Any, name: str = "") -> Any:
    """Returns the data with all texts, keys included, sanitized and cut to the maximum length."""
    if isinstance(data, str):
        if name in HISTOGRAMS:
            return sanitize(data, MOST_HISTOGRAM + 1)
        return _fit(data, "\n\t" if name in SEVERAL_LINES else "")
    if isinstance(data, list):
        return [cleaned(value, name) for value in data]
    if isinstance(data, dict):
        return {_fit(key): cleaned(value, name if name in _WITH_NAMES else key) for key, value in data.items()}
    return data


def _fit(text: str, keep: str = "") -> str:
    # A text that was already cut when the worker reported it ends with a mark, so it may be longer by the mark.
    return sanitize(text, MOST if len(text) > MOST_TEXT else MOST_TEXT, keep)
