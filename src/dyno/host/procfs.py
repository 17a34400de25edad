"""Reads the small text files of /proc and /sys, where anything may be missing. Knows no file by name.

Nothing here raises for what it finds or does not find: unknown is None.
"""

from __future__ import annotations

from pathlib import Path


def read_text(file: Path) -> str | None:
    """What stands in `file`, stripped; None where there is nothing to read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except (OSError, ValueError):
        return None


def read_lines(file: Path) -> list[str]:
    return (read_text(file) or "").splitlines()


def to_int(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def to_float(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
