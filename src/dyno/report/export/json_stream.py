"""Writes JSON piece by piece, because the whole text of a large run would take more memory than the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def pieces(data: Mapping[str, Any]) -> Iterator[str]:
    """Yields the text that `json.dumps(data, indent=2)` would return, with a line break at the end. An iterator among
    the values is written as a list, and is consumed while the text is read."""
    before = "{\n  "
    for name, value in data.items():
        yield f"{before}{json.dumps(name)}: "
        if isinstance(value, Iterator):
            opened = "[\n    "
            for each in value:
                # Strings in JSON have no line breaks.
                yield opened + json.dumps(each, indent=2).replace("\n", "\n    ")
                opened = ",\n    "
            yield "[]" if opened[0] == "[" else "\n  ]"
        else:
            yield json.dumps(value, indent=2).replace("\n", "\n  ")
        before = ",\n  "
    yield "\n}\n"


def compact(value: Any) -> str:
    """Returns JSON without white space and without escapes for non-ASCII letters."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
