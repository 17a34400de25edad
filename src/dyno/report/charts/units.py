"""Figures as people read them, as expressions that Vega evaluates: what `dyno.report.tables.units` is for text.

Each takes an expression of a number and gives one of its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

DIGITS = "'.3~r'"
TICKS = 5
FROM_ZERO = {"zero": True, "nice": TICKS}
"""A scale that ends at a tick."""
DECADES = [10**power for power in range(13)]
"""Of ns: the ticks of a scale of logarithms."""


def _stepped(value: str, *steps: tuple[float, str]) -> str:
    """In the largest unit of which there is one, and in the last where there is none."""
    *upper, (_, last) = steps
    # What would round up to 1000 of a unit is 1 of the next.
    chosen = [
        f"{value} >= {size * 0.9995:.10g} ? format({value} / {size:.10g}, {DIGITS}) + ' {unit}' : "
        for size, unit in upper
    ]
    return "(" + "".join(chosen) + f"format({value}, {DIGITS}) + '{last and ' ' + last}')"


def rate(value: str) -> str:
    """'813 k', '1.67 M', '12.4'."""
    return _stepped(value, (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))


def duration(value: str) -> str:
    """Of ns: '1.2 µs'."""
    return _stepped(value, (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))


def size(value: str) -> str:
    """Of bytes: '9.39 MiB'."""
    return _stepped(value, (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def bandwidth(value: str) -> str:
    """Of bytes a second: '812 MB/s'."""
    return _stepped(value, (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s"))


def number(value: str) -> str:
    """A parameter's value: '30,000'."""
    return f"format({value}, ',.12~r')"


def ratio(value: str) -> str:
    """'× 0.5'."""
    return f"('× ' + format({value}, {DIGITS}))"


def literal(text: str) -> str:
    """A text as a literal of a Vega expression. Text from a run file gets into an expression by this alone."""
    return json.dumps(text)


def tooltip(fields: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The encoding of a tooltip, from its fields with their titles. Vega-Lite makes an expression of the titles, in
    which it escapes quotation marks and not backslashes."""
    return [{**field, "title": field["title"].replace("\\", "\\\\")} for field in fields]


def spoken(*parts: str) -> dict[str, str]:
    """A transform that joins, to `spoken`, what a screen reader says of a mark; remarks last."""
    listed = " + ', ' + ".join(parts)
    return {"calculate": f"{listed} + (datum.remarks ? ', ' + datum.remarks : '')", "as": "spoken"}


def either(test: str, text: str) -> str:
    """The text where there is such a value, and else the sign for what is unknown."""
    return f"(isValid({test}) ? {text} : '–')"
