"""Lays out tables for a terminal or a pipe. No cell is ever cut: where the width is too small, decoration is dropped,
then cells of words are folded, then the table is printed in parts, one below the other, and at last as a list.

rich could draw the same tables, but takes some 0.1 ms per cell; these have tens of thousands of rows.
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
"""A longer word may be broken where its column is folded."""
LEAST_FOLDED = 12
"""A column is not folded below this width for the sake of another one."""


class Column(NamedTuple):
    head: str
    left: bool = False
    """Left-aligned, as words are; figures are right-aligned."""
    least: int = 0
    """Least width where there is room, so that columns of several tables line up."""
    folds: bool = False
    """Whether its cells may be folded."""
    style: str = ""
    key: bool = False
    """Whether it names the row, and is repeated in each part of the table. If no column is a key, the first is."""
    spare: bool = False
    """Whether it only decorates, like a bar, and is dropped where there is no room."""


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    console: Console,
    styles: Sequence[str] = (),
    marks: Mapping[str, str] | None = None,
    indent: int = 0,
) -> None:
    """Prints a table. `styles`: one per row; `marks`: styles of cells, by their text."""
    room = console.width - indent
    kept = list(range(len(columns)))
    widths = [_natural(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    for at in [at for at, column in enumerate(columns) if column.spare]:
        if _total([widths[each] for each in kept]) > room:
            kept.remove(at)
    parts = _parts(columns, rows, widths, kept, room)
    if parts is None:
        _list(
            [columns[at] for at in kept],
            [[row[at] for at in kept] for row in rows],
            console,
            styles,
            marks or {},
            indent,
        )
        return
    for part, fitted in parts:
        cells = [[row[at] for at in part] for row in rows]
        _draw([columns[at] for at in part], fitted, cells, console, styles, marks or {}, indent)


def _draw(
    columns: Sequence[Column],
    widths: Sequence[int],
    rows: Sequence[Sequence[str]],
    console: Console,
    styles: Sequence[str],
    marks: Mapping[str, str],
    indent: int,
) -> None:
    # Without colours a line is of one piece.
    coloured = console.color_system is not None
    margin = " " * indent
    drawn = list[Segment]()
    heads = [column.head for column in columns]
    for number, cells in enumerate([heads, *rows]):
        if not number and not any(heads):
            continue
        row = styles[number - 1] if number and styles else ""
        folded = [_folded(console, cell, width) for cell, width in zip(cells, widths, strict=True)]
        for line in range(max(map(len, folded))):
            parts = [
                _padded(lines[line] if line < len(lines) else "", width, column.left)
                for lines, column, width in zip(folded, columns, widths, strict=True)
            ]
            if coloured:
                drawn.append(Segment(margin))
                for at, (part, cell, column) in enumerate(zip(parts, cells, columns, strict=True)):
                    style = f"{row} {column.style} {marks.get(cell, '')}" if number else HEAD
                    drawn += (Segment(" " * GAP * bool(at)), Segment(part, console.get_style(style)))
            else:
                drawn.append(Segment((margin + (" " * GAP).join(parts)).rstrip()))
            drawn.append(Segment.line())
    console.print(Segments(drawn), end="", crop=False)


def _list(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    console: Console,
    styles: Sequence[str],
    marks: Mapping[str, str],
    indent: int,
) -> None:
    """A paragraph for each row: its keys, then a line for each other cell."""
    keys = _keys(columns, range(len(columns)))
    for number, row in enumerate(rows):
        style = styles[number] if styles else ""
        named = [row[at] for at in keys if row[at]]
        if named or not any(row):
            _wrapped(Text((" " * GAP).join(named), f"bold {style}"), console, indent)
        for at, column in enumerate(columns):
            if at not in keys and row[at]:
                head = f"{column.head}: " if column.head else ""
                text = Text.assemble((head, HEAD), (row[at], f"{style} {column.style} {marks.get(row[at], '')}"))
                _wrapped(text, console, indent + GAP)


def _wrapped(text: Text, console: Console, indent: int) -> None:
    for line in text.wrap(console, max(console.width - indent, 1), overflow="fold"):
        line.rstrip()
        console.print(Text.assemble(" " * indent, line), soft_wrap=True)


def _natural(column: Column, cells: Sequence[str]) -> int:
    """Width without any folding."""
    return max(column.least, *(_width(line) for text in (column.head, *cells) for line in text.split("\n")))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _keys(columns: Sequence[Column], kept: Sequence[int]) -> list[int]:
    return [at for at in kept if columns[at].key] or list(kept[:1])


def _parts(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], kept: Sequence[int], room: int
) -> list[tuple[list[int], list[int]]] | None:
    """The columns of each part of the table, and their widths. None if a part can't hold the keys and one column."""
    if _total([widths[at] for at in kept]) <= room:
        return [(list(kept), [widths[at] for at in kept])]
    keys = _keys(columns, kept)
    least = {at: _least(columns[at], [row[at] for row in rows], widths[at]) for at in kept}
    free = room - _total([least[at] for at in keys])
    parts: list[list[int]] = [[]]
    for at in (at for at in kept if at not in keys):
        if parts[-1] and sum(least[each] + GAP for each in (*parts[-1], at)) > free:
            parts.append([])
        parts[-1].append(at)
    if any(sum(least[at] + GAP for at in part) > free for part in parts):
        return None
    return [(part, _fitted(part, widths, least, room)) for part in (sorted([*keys, *part]) for part in parts)]


def _least(column: Column, cells: Sequence[str], natural: int) -> int:
    """How narrow a column may become: as its longest word if it is folded."""
    if not column.folds:
        return max(_width(text) for text in (column.head, *cells))
    longest = max((_width(word) for text in (column.head, *cells) for word in text.split()), default=0)
    return min(max(min(longest, LONGEST_WORD), LEAST_FOLDED), natural)


def _fitted(part: Sequence[int], widths: Sequence[int], least: Mapping[int, int], room: int) -> list[int]:
    """The widest give way first, none below its least width."""
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
    # What most figures are made of; the library looks at every character.
    plain = text if text.isascii() else text.replace("–", "-").replace("µ", "u")
    return len(text) if plain.isascii() else cell_len(text)


def _folded(console: Console, cell: str, width: int) -> Sequence[str]:
    if _width(cell) <= width and "\n" not in cell:
        return (cell,)
    return _lines(console, cell, width)


# Remarks are the same in many rows.
@lru_cache(maxsize=1_000)
def _lines(console: Console, cell: str, width: int) -> tuple[str, ...]:
    return tuple(line.plain.rstrip() for line in Text(cell).wrap(console, width, overflow="fold"))


def _padded(text: str, width: int, left: bool) -> str:
    room = " " * (width - _width(text))
    return text + room if left else room + text
