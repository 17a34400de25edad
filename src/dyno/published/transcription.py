"""Checksums of the published tables, so that a figure can't change unnoticed.

A checksum proves that a table is as it was when the checksum was written. It does not prove that the table was copied
correctly from the publication.
"""

import hashlib
import json
from collections.abc import Mapping

from dyno.contracts.model import UsageError
from dyno.contracts.value_types import JsonMapping

TABLES: Mapping[str, tuple[str, ...]] = {
    "curves": ("columns", "at", "rows"),
    "matrix": ("heads", "lines"),
    "timeline": ("published",),
    "passes": ("published",),
}
"""Keys with published content, for tables that have other keys too."""
KEY = "sha256"


def checksums(data: JsonMapping) -> dict[str, str]:
    """Returns the SHA-256 of each published table of a file, by the table's name: of its columns and rows as JSON
    without blanks and with sorted keys."""
    tables = {name: {key: data[name][key] for key in keys} for name, keys in TABLES.items() if name in data}
    heads = {key: data[key] for key in ("params", "columns") if key in data}
    tables |= {name: {**heads, name: data[name]} for name in ("rows", "lines", "parts") if data.get(name)}
    return {name: hashlib.sha256(_canonical(table)).hexdigest() for name, table in sorted(tables.items())}


def _canonical(table: object) -> bytes:
    return json.dumps(table, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def check(name: str, data: JsonMapping) -> None:
    """Raises UsageError if a published table differs from its checksum, or has none."""
    stated, actual = data.get(KEY, {}), checksums(data)
    for table in dict.fromkeys((*actual, *stated)):
        if stated.get(table) != actual.get(table):
            raise UsageError(
                f"{name}: {KEY}: table {table} is not the one that was copied from the publication:"
                f" expected {stated.get(table, 'a checksum')}, got {actual.get(table, 'no such table')}"
            )
