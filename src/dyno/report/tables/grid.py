"""Lays out tables for a terminal or a pipe. No cell is ever cut. If a table is too wide, its bars are dropped, then
cells of words are folded. Then the table is split into parts, one below the other, and finally it is printed as a
list.

`rich.table` can neither split a table nor print it as a list. It takes 0.1 ms per cell, and these tables have tens of
thousands of rows.
"""

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
LONGEST_WORD = 24
"""Longer words may be broken in a folded column."""
LEAST_FOLDED = 12
"""Minimum width to which a column is folded."""


class Column(NamedTuple):
    """Heading and layout of a column."""

    head: str
    left: bool = False
    """Whether it is left-aligned, as words are. Figures are right-aligned."""
    least: int = 0
    """Minimum width if there is room, so that columns of several tables line up."""
    folds: bool = False
    """Whether its cells may be folded."""
    style: str = ""
    key: bool = False
    """Whether it names the row. Keys are repeated in each part of the table. Without keys, the first column is the
    key."""
    spare: bool = False
    """Whether it is only decoration, like a bar. It is dropped if the table is too wide."""


class _Sheet(NamedTuple):
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    styles: Sequence[str]
    marks: Mapping[str, str]
    indent: int
    console: Console

    @property
    def keys(self) -> list[int]:
        return [at for at, column in enumerate(self.columns) if column.key] or [0]

    def picked(self, places: Sequence[int]) -> _Sheet:
        """Returns the sheet with only these columns."""
        rows = [[row[at] for at in places] for row in self.rows]
        return self._replace(columns=[self.columns[at] for at in places], rows=rows)


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    console: Console,
    styles: Sequence[str] = (),
    marks: Mapping[str, str] | None = None,
    indent: int = 0,
) -> None:
    """Prints a table. `styles`: a style for each row. `marks`: styles of cells, by their text."""
    sheet = _Sheet(columns, rows, styles, marks or {}, indent, console)
    room = console.width - indent
    widths = []
    for at, column in enumerate(columns):
        lines = (line for text in (column.head, *(row[at] for row in rows)) for line in text.split("\n"))
        widths.append(max(column.least, *map(_width, lines)))
    shown = list(range(len(columns)))
    for at in [at for at, column in enumerate(columns) if column.spare]:
        if _total([widths[each] for each in shown]) > room:
            shown.remove(at)
    sheet, widths = sheet.picked(shown), [widths[at] for at in shown]
    parts = _parts(sheet, widths, room)
    if parts is None:
        _print_list(sheet)
        return
    for places, fitted in parts:
        _print_table(sheet.picked(places), fitted)


def _print_table(sheet: _Sheet, widths: Sequence[int]) -> None:
    console, columns = sheet.console, sheet.columns
    # Without colours, each line is a single segment.
    coloured = console.color_system is not None
    margin, gap = " " * sheet.indent, " " * GAP
    segments = list[Segment]()
    heads = [column.head for column in columns]
    for number, cells in enumerate([heads, *sheet.rows]):
        if not number and not any(heads):
            continue
        row_style = sheet.styles[number - 1] if number and sheet.styles else ""
        folded = [_folded(console, cell, width) for cell, width in zip(cells, widths, strict=True)]
        for line in range(max(map(len, folded))):
            parts = [
                _padded(lines[line] if line < len(lines) else "", width, column.left)
                for lines, column, width in zip(folded, columns, widths, strict=True)
            ]
            if coloured:
                segments.append(Segment(margin))
                for at, (part, cell, column) in enumerate(zip(parts, cells, columns, strict=True)):
                    style = f"{row_style} {column.style} {sheet.marks.get(cell, '')}" if number else HEAD
                    segments += (Segment(gap * bool(at)), Segment(part, console.get_style(style)))
            else:
                segments.append(Segment((margin + gap.join(parts)).rstrip()))
            segments.append(Segment.line())
    console.print(Segments(segments), end="", crop=False)


def _print_list(sheet: _Sheet) -> None:
    """Prints a paragraph for each row: its keys, then a line for each other cell."""
    for number, row in enumerate(sheet.rows):
        style = sheet.styles[number] if sheet.styles else ""
        names = [row[at] for at in sheet.keys if row[at]]
        if names or not any(row):
            _print_wrapped(Text((" " * GAP).join(names), f"bold {style}"), sheet.console, sheet.indent)
        for at, column in enumerate(sheet.columns):
            if at not in sheet.keys and row[at]:
                head = f"{column.head}: " if column.head else ""
                cell_style = f"{style} {column.style} {sheet.marks.get(row[at], '')}"
                text = Text.assemble((head, HEAD), (row[at], cell_style))
                _print_wrapped(text, sheet.console, sheet.indent + GAP)


def _print_wrapped(text: Text, console: Console, indent: int) -> None:
    for line in text.wrap(console, max(console.width - indent, 1), overflow="fold"):
        line.rstrip()
        console.print(Text.assemble(" " * indent, line), soft_wrap=True)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _parts(sheet: _Sheet, widths: Sequence[int], room: int) -> list[tuple[list[int], list[int]]] | None:
    """Returns the columns of each part of the table, and their widths. None if the keys and one column need more room
    than there is."""
    if _total(widths) <= room:
        return [(list(range(len(widths))), list(widths))]
    keys = sheet.keys
    least = [
        _least_width(column, [row[at] for row in sheet.rows], widths[at]) for at, column in enumerate(sheet.columns)
    ]
    free = room - _total([least[at] for at in keys])
    parts: list[list[int]] = [[]]
    for at in (at for at in range(len(widths)) if at not in keys):
        if parts[-1] and sum(least[each] + GAP for each in (*parts[-1], at)) > free:
            parts.append([])
        parts[-1].append(at)
    if any(sum(least[at] + GAP for at in part) > free for part in parts):
        return None
    return [(part, _fitted(part, widths, least, room)) for part in (sorted([*keys, *part]) for part in parts)]


def _least_width(column: Column, cells: Sequence[str], natural: int) -> int:
    if not column.folds:
        return max(_width(text) for text in (column.head, *cells))
    longest = max((_width(word) for text in (column.head, *cells) for word in text.split()), default=0)
    return min(max(min(longest, LONGEST_WORD), LEAST_FOLDED), natural)


def _fitted(part: Sequence[int], widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Returns the widths of a part's columns. The widest columns are narrowed first, and none below its minimum
    width."""
    fitted = {at: widths[at] for at in part}
    while (over := _total(list(fitted.values())) - room) > 0:
        giving = [at for at in part if fitted[at] > least[at]]
        if not giving:
            break
        widest = max(fitted[at] for at in giving)
        those = [at for at in giving if fitted[at] == widest]
        floor = max([fitted[at] for at in giving if fitted[at] < widest] + [least[at] for at in those])
        step = min(over, widest - floor)
        for done, at in enumerate(those):
            less = min(step, round(over / (len(those) - done)))
            fitted[at] -= less
            over -= less
    return [fitted[at] for at in part]


def _width(text: str) -> int:
    # A fast path for figures, because rich looks at every character.
    plain = text if text.isascii() else text.replace("–", "-").replace("µ", "u")
    return len(text) if plain.isascii() else cell_len(text)


# Cached because many rows have the same remarks.
@lru_cache(maxsize=1_000)
def _folded(console: Console, cell: str, width: int) -> tuple[str, ...]:
    if _width(cell) <= width and "\n" not in cell:
        return (cell,)
    return tuple(line.plain.rstrip() for line in Text(cell).wrap(console, width, overflow="fold"))


def _padded(text: str, width: int, left: bool) -> str:
    room = " " * (width - _width(text))
    return text + room if left else room + text
