"""Text from outside (engines, their servers, run files, plans) made harmless where it enters.

What could steer a terminal, turn the reading direction, hide, or not be encoded is shown as its escape: `\\x1b`. And
what is too long is cut, with a mark that says by how much.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain
from typing import Any

MOST = 4_000
"""Characters of one text that are kept."""


def harmless(text: str, most: int = MOST, keep: str = "\n\t") -> str:
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


def harmful(found: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a declaration that is not one harmless line: where it is, and as it may be shown."""
    if isinstance(found, str):
        if (shown := harmless(found, keep="")) != found:
            yield where, shown
        return
    for within, value in _parts(found):
        # Most are: a declaration has thousands, and all are looked at before it is shown.
        if not (value is None or callable(value) or (isinstance(value, str) and _is_one_line(value))):
            yield from harmful(value, f"{where}: {within}" if where and within else within or where)


def _is_one_line(text: str) -> bool:
    return len(text) <= MOST and text.isprintable()


def _parts(found: Any) -> Iterable[tuple[str, Any]]:
    """What a part of a declaration consists of, each with its name there."""
    if isinstance(found, (tuple, list)):
        return (("", value) for value in found)
    if names := _fields(found.__class__):
        return ((name, getattr(found, name)) for name in names)
    if isinstance(found, Mapping):
        keys = (("", name) for name in found)
        return chain(keys, ((harmless(str(name), keep=""), value) for name, value in found.items()))
    return ()


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
