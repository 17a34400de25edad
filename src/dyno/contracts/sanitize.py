"""Sanitizes text from outside (engines, their servers, run files, plans) where it enters.

Characters that could control a terminal, reverse the reading direction, be invisible, or not be encoded are replaced
with escapes such as `\\x1b`. Longer texts are cut, with a note of the number of missing characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

MOST = 4_000
"""Maximum number of characters of one text."""


def sanitize(text: str, most: int = MOST, keep: str = "\n\t") -> str:
    """Returns the text with each harmful character replaced with its escape. Characters in `keep` are not
    replaced."""
    if len(text) > most:
        text = f"{text[:most]}... ({len(text) - most:,} characters more)"
    if text.isprintable():
        return text
    # Characters that are not printable: controls, formats (including bidirectional ones), surrogates, private and
    # unassigned characters, line and paragraph separators, and spaces. Only the spaces are harmless.
    return "".join(
        character
        if character in keep or character.isprintable() or unicodedata.category(character) == "Zs"
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def unsafe_texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Yields every text of a declaration that is not one harmless line, as its place and the sanitized text."""
    names = getattr(value, "_fields", ())
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    if isinstance(value, str):
        if (shown := sanitize(value, keep="")) != value:
            yield where, shown
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from unsafe_texts(name, where)
            yield from unsafe_texts(item, f"{where}: {sanitize(str(name), keep='')}")
    elif names:
        for name in names:
            yield from unsafe_texts(getattr(value, name), f"{where}: {name}" if where else name)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from unsafe_texts(item, where)
