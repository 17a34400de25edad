"""Values of flags that take lists."""

from __future__ import annotations

from collections.abc import Sequence

from dyno.model import UsageError


def split(texts: Sequence[str]) -> list[str]:
    """The parts between commas, of all texts."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def params(texts: Sequence[str]) -> dict[str, list[str]]:
    """'NAME=V1,V2' as a name and its values. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not split([values]):
            raise UsageError(f"-p {text}: parameters are written NAME=VALUE[,VALUE...]")
        found.setdefault(name.strip(), []).extend(split([values]))
    return found
