"""Puts the texts of files into a definition, so that it no longer depends on the directory of the plan file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import MIB, text
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import format_value, literal
from dyno.contracts.value_types import MOST, MOST_TEXT
from dyno.suites.sql.definition import ANY, as_table

DEEPEST = 10


def inline_definition(data: Mapping[str, object], base: Path) -> dict[str, object]:
    """Returns the definition with the texts of all files that it names, and with absolute paths and hashes of data
    files, so that it no longer depends on `base`, the directory of the plan file. Raises UsageError."""
    definition = _plain("sql", data)
    _inline_texts("sql", definition, base)
    for name, one in as_table("sql.variants", definition.get("variants", {})).items():
        where = f"sql.variants.{name}"
        _inline_texts(where, as_table(where, one), base)
    tables = as_table("sql.tables", definition.get("tables", {}))
    for name, one in tables.items():
        if isinstance(one, str):
            path = (base / one).resolve()
            try:
                with path.open("rb") as file:
                    digest = hashlib.sha256()
                    while piece := file.read(MIB):
                        digest.update(piece)
            except OSError as error:
                raise UsageError(f"sql.tables.{name}: can't read {format_value(path)}: {error.strerror}") from None
            tables[name] = {"file": str(path), "sha256": digest.hexdigest()}
    return dict(definition)


def _inline_texts(where: str, definition: dict[str, object], base: Path) -> None:
    """Replaces the names of files with texts by engine, in a definition or a variant of one. Raises UsageError."""
    for key in ("schema", "after"):
        if key in definition:
            definition[key] = _texts(f"{where}.{key}", definition[key], base)
    for name, one in as_table(f"{where}.transactions", definition.get("transactions", {})).items():
        if isinstance(one, dict) and "script" in one:
            one["script"] = _texts(f"{where}.transactions.{name}.script", one["script"], base)


def _plain(where: str, value: Any, depth: int = 0) -> Any:
    """Returns a copy of a table as plain JSON that a run file can have. Raises UsageError."""
    if depth > DEEPEST:
        raise UsageError(f"{where}: nested too deeply")
    if isinstance(value, Mapping):
        return {_printable(where, name): _plain(f"{where}.{name}", one, depth + 1) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(where, one, depth + 1) for one in value]
    if isinstance(value, str):
        return _printable(where, value, "\n\t\r")
    if isinstance(value, bool) or (isinstance(value, (int, float)) and abs(value) <= MOST):
        return value
    if isinstance(value, (date, time)):
        return str(value)
    raise UsageError(f"{where}: expected a text or a finite number of at most 64 bits, got {literal(value)}")


def _printable(where: str, text: str, keep: str = "") -> str:
    if len(text) > MOST_TEXT or sanitize(text, MOST_TEXT, keep) != text:
        raise UsageError(f"{where}: expected at most {MOST_TEXT:,} printable characters, got {literal(text)}")
    return text


def _texts(where: str, value: object, base: Path) -> dict[str, str]:
    """Returns the text by engine. A value of one line that ends with .sql names a file, beside which there may be
    others: order.mariadb.sql replaces order.sql for MariaDB."""
    if isinstance(value, dict):
        return {str(engine): str(one) for engine, one in value.items()}
    if not isinstance(value, str):
        raise UsageError(f"{where}: expected SQL or the name of a file, got {literal(value)}")
    if not value.endswith(".sql") or "\n" in value:
        return {ANY: value}
    path = base / value
    others = sorted(path.parent.glob(f"{path.stem}.*.sql"))
    files = {ANY: path, **{other.name.removeprefix(f"{path.stem}.").removesuffix(".sql"): other for other in others}}
    try:
        texts = {engine: text(file, 4 * MOST_TEXT) for engine, file in files.items()}
    except UnicodeDecodeError:
        raise UsageError(f"{where}: {format_value(path)} is not UTF-8") from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return {engine: _printable(str(files[engine]), text, "\n\t\r") for engine, text in texts.items()}
