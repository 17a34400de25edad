"""Text from outside (engines, their servers, run files, plans) made harmless where it enters.

What could steer a terminal, turn the reading direction, hide, or not be encoded is shown as its escape: `\\x1b`. And
what is too long is cut, with a mark that says by how much.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

MOST = 4_000
"""Characters of one text that are kept."""


def sanitize(text: str, most: int = MOST, keep: str = "\n\t") -> str:
    """The text with each harmful character shown as its escape; those of `keep` stay."""
    if len(text) > most:
        text = f"{text[:most]}... ({len(text) - most:,} characters more)"
    if text.isprintable():
        return text
    return "".join(each if each in keep or _is_harmless(each) else _escape(each) for each in text)


def _is_harmless(character: str) -> bool:
    # What is not printable: controls, formats (bidirectional ones among them), surrogates, private and unassigned
    # characters, the ends of lines and paragraphs; and spaces, which harm nobody.
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def is_unsafe(found: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a declaration that is not one harmless line: where it is, and as it may be shown."""
    if isinstance(found, str):
        if (shown := sanitize(found, keep="")) != found:
            yield where, shown
    elif isinstance(found, Mapping):
        for name, value in found.items():
            yield from is_unsafe(name, where)
            yield from is_unsafe(value, f"{where}: {sanitize(str(name), keep='')}")
    elif names := _fields(found):
        for name in names:
            yield from is_unsafe(getattr(found, name), f"{where}: {name}" if where else name)
    elif isinstance(found, (tuple, list)):
        for value in found:
            yield from is_unsafe(value, where)


def _fields(found: Any) -> Iterable[str]:
    """Names of those of a data class or a named tuple; of all else none."""
    if isinstance(found, tuple):
        return getattr(found, "_fields", ())
    return [field.name for field in fields(found)] if is_dataclass(found) and not isinstance(found, type) else ()
