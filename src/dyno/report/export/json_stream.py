"""JSON a piece at a time: that of a large run, whole, takes more memory than all else of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def pieces(data: Mapping[str, Any]) -> Iterator[str]:
    """The text of a table as `json.dumps(indent=2)` writes it, and the end of its last line. A value of it may be an
    iterator: it stands for a list, and is gone through only as the text is."""
    before = "{\n  "
    for name, value in data.items():
        yield f"{before}{json.dumps(name)}: "
        if isinstance(value, Iterator):
            opened = "[\n    "
            for each in value:
                yield opened + _indented(each, "\n    ")
                opened = ",\n    "
            yield "[]" if opened[0] == "[" else "\n  ]"
        else:
            yield _indented(value, "\n  ")
        before = ",\n  "
    yield "\n}\n"


def _indented(value: Any, line: str) -> str:
    """`line`: what begins one at the value's own depth. No text of JSON has an end of line in it."""
    return json.dumps(value, indent=2).replace("\n", line)


def dense(data: Mapping[str, Any]) -> Iterator[str]:
    """The same without any blank, and with all letters as they are."""
    before = "{"
    for name, value in data.items():
        yield f"{before}{compact(name)}:"
        if isinstance(value, Iterator):
            opened = "["
            for each in value:
                yield opened + compact(each)
                opened = ","
            yield "[]" if opened == "[" else "]"
        else:
            yield compact(value)
        before = ","
    yield "}"


def compact(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)
