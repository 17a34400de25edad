"""Tables of figures on a terminal, laid out as rich does, in a time that allows for tens of thousands of rows: rich
itself takes some 0.1 ms for each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

GAP = 2
HEAD = "dim"


class Column(NamedTuple):
    head: str
    left: bool = False
    """Words; figures stand right."""
    least: int = 0
    """Of its width."""
    folds: bool = False
    """Whether its cells are folded where a line has no room for them."""
    style: str = ""


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    console: Console,
    styles: Sequence[str] = (),
    marks: Mapping[str, str] | None = None,
) -> None:
    """`styles`: of each row; `marks`: of a cell, by its text."""
    widths = _widths(columns, rows, console.width)
    # Without colours a line is of one piece.
    coloured = console.color_system is not None
    drawn = list[Segment]()
    for number, cells in enumerate([[column.head for column in columns], *rows]):
        row = styles[number - 1] if number and styles else ""
        folded = [_folded(console, cell, width) for cell, width in zip(cells, widths, strict=True)]
        for line in range(max(map(len, folded))):
            parts = [
                _padded(lines[line] if line < len(lines) else "", width, column.left)
                for lines, column, width in zip(folded, columns, widths, strict=True)
            ]
            if coloured:
                for at, (part, cell, column) in enumerate(zip(parts, cells, columns, strict=True)):
                    style = f"{row} {column.style} {(marks or {}).get(cell, '')}" if number else HEAD
                    drawn += (Segment(" " * GAP * bool(at)), Segment(part, console.get_style(style)))
            else:
                drawn.append(Segment((" " * GAP).join(parts)))
            drawn.append(Segment.line())
    # What is wider than all is cut off; else that would only be looked for.
    console.print(Segments(drawn), end="", crop=sum(widths) + GAP * (len(widths) - 1) > console.width)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """As wide as the widest cell. Where that is too much, those that fold give way, the widest first, each with the
    gap at its right."""
    gaps = [GAP] * (len(columns) - 1) + [0]
    widths = [
        max(column.least, _width(column.head), *(_width(row[at]) for row in rows)) + gaps[at]
        for at, column in enumerate(columns)
    ]
    folding = [at for at, column in enumerate(columns) if column.folds]
    while folding and (over := sum(widths) - room) > 0 and (widest := max(widths[at] for at in folding)):
        those = [at for at in folding if widths[at] == widest]
        step = min(over, widest - max((widths[at] for at in folding if widths[at] < widest), default=0))
        for done, at in enumerate(those):
            less = min(step, round(over / (len(those) - done)))
            widths[at] -= less
            over -= less
    return [max(width - gap, column.least) for width, gap, column in zip(widths, gaps, columns, strict=True)]


def _width(text: str) -> int:
    # What most figures are made of; the library looks at every character.
    plain = text if text.isascii() else text.replace("–", "-").replace("µ", "u")
    return len(text) if plain.isascii() else cell_len(text)


def _folded(console: Console, cell: str, width: int) -> Sequence[str]:
    if _width(cell) <= width and "\n" not in cell:
        return (cell,)
    # Where there is no room at all, nothing is said.
    return _lines(console, cell, width) if width else ("",)


# Remarks are the same in many rows.
@lru_cache(maxsize=1_000)
def _lines(console: Console, cell: str, width: int) -> tuple[str, ...]:
    return tuple(line.plain.rstrip() for line in Text(cell).wrap(console, width, overflow="ellipsis"))


def _padded(text: str, width: int, left: bool) -> str:
    room = " " * (width - _width(text))
    return text + room if left else room + text
