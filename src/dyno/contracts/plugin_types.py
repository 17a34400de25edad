"""Checks the types of what a plug-in declares, so that a wrong one is named before anything relies on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

_PLAIN: dict[str, type | tuple[type, ...]] = {"str": str, "bool": bool, "int": int, "float": (int, float)}


def type_errors(declared: Any, kind: type | None = None, where: str = "") -> Iterator[str]:
    """Yields a line for each field that is missing or of another type than `kind` (None: its own) annotates."""
    for name, annotation in (kind or type(declared)).__annotations__.items():
        field = f"{where}: {name}" if where else name
        # A named tuple keeps its annotations in another form than a data class.
        annotation = getattr(annotation, "__forward_arg__", annotation)
        if not hasattr(declared, name):
            yield f"{field} is missing"
            continue
        value = getattr(declared, name)
        if not any(_fits(value, part) for part in _alternatives(str(annotation))):
            yield f"{field} is {_shown(value)}, expected {annotation}"
        elif isinstance(value, (tuple, list, Mapping)) and not _has_fields(value):
            for each in value.values() if isinstance(value, Mapping) else value:
                if _has_fields(each):
                    yield from type_errors(each, where=field)


def _alternatives(annotation: str) -> list[str]:
    """'Callable[[Any], str | None] | None' as its two parts."""
    parts, depth = [""], 0
    for character in annotation:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _fits(value: Any, annotation: str) -> bool:
    """True for a type that is not known here: others check these."""
    if annotation in _PLAIN:
        return isinstance(value, _PLAIN[annotation])
    if annotation == "None":
        return value is None
    if annotation.startswith("Callable["):
        return callable(value)
    if annotation.startswith("Mapping["):
        return isinstance(value, Mapping)
    if annotation == "tuple[str, ...]":
        return isinstance(value, (tuple, list)) and all(isinstance(each, str) for each in value)
    return isinstance(value, (tuple, list)) if annotation.startswith("tuple[") else value is not None


def _has_fields(value: Any) -> bool:
    return hasattr(value, "_fields") or (is_dataclass(value) and not isinstance(value, type))


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:
        return f"a {type(value).__name__}"
