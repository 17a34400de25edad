"""Lays out tables for a terminal or a pipe. No cell is ever cut. If a table is too wide, its bars are dropped, then
cells of words are folded. Then the table is split into parts, one below the other, and finally it is printed as a
list.

`rich.table` can neither split a table nor print it as a list. It takes 0.1 ms per cell, and these tables have tens of
thousands of rows.
"""

from collections.abc import Collection, Mapping, Sequence
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


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    console: Console,
    styles: Sequence[str] = (),
    marks: Mapping[str, str] | None = None,
    indent: int = 0,
) -> None:
    """Prints a table. `styles`: a style for each row. `marks`: styles of cells, by their text."""
    room = console.width - indent
    texts = [[column.head, *(row[at] for row in rows)] for at, column in enumerate(columns)]
    # Widths of the shown columns, by the column's place.
    widths = {
        at: max(columns[at].least, *(_width(line) for text in cells for line in text.split("\n")))
        for at, cells in enumerate(texts)
    }
    for at in [at for at, column in enumerate(columns) if column.spare]:
        if _total(widths.values()) > room:
            del widths[at]
    keys = [at for at in widths if columns[at].key] or list(widths)[:1]
    parts = [widths] if _total(widths.values()) <= room else _parts(columns, texts, widths, keys, room)
    for part in parts or ():
        _print_table(columns, rows, part, console, styles, marks or {}, indent)
    if parts is not None:
        return
    # As a list: a paragraph for each row, with its keys and then a line for each other cell.
    for number, row in enumerate(rows):
        style = styles[number] if styles else ""
        names = [row[at] for at in keys if row[at]]
        lines = [(indent, Text((" " * GAP).join(names), f"bold {style}"))] if names or not any(row) else []
        for at in widths:
            if at not in keys and row[at]:
                head = f"{columns[at].head}: " if columns[at].head else ""
                cell_style = f"{style} {columns[at].style} {(marks or {}).get(row[at], '')}"
                lines.append((indent + GAP, Text.assemble((head, HEAD), (row[at], cell_style))))
        for margin, text in lines:
            for line in text.wrap(console, max(console.width - margin, 1), overflow="fold"):
                line.rstrip()
                console.print(Text.assemble(" " * margin, line), soft_wrap=True)


def _print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Mapping[int, int],
    console: Console,
    styles: Sequence[str],
    marks: Mapping[str, str],
    indent: int,
) -> None:
    # Without colours, each line is a single segment.
    coloured = console.color_system is not None
    margin, gap = " " * indent, " " * GAP
    segments = list[Segment]()
    for number, row in enumerate([[column.head for column in columns], *rows]):
        if not number and not any(row[at] for at in widths):
            continue
        row_style = styles[number - 1] if number and styles else ""
        folded = {at: _folded(console, row[at], width) for at, width in widths.items()}
        for line in range(max(map(len, folded.values()))):
            parts = []
            for at, lines in folded.items():
                text = lines[line] if line < len(lines) else ""
                room = " " * (widths[at] - _width(text))
                parts.append(text + room if columns[at].left else room + text)
            if coloured:
                segments.append(Segment(margin))
                for place, (at, part) in enumerate(zip(widths, parts, strict=True)):
                    style = f"{row_style} {columns[at].style} {marks.get(row[at], '')}" if number else HEAD
                    segments += (Segment(gap * bool(place)), Segment(part, console.get_style(style)))
            else:
                segments.append(Segment((margin + gap.join(parts)).rstrip()))
            segments.append(Segment.line())
    console.print(Segments(segments), end="", crop=False)


def _total(widths: Collection[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _parts(
    columns: Sequence[Column],
    texts: Sequence[Sequence[str]],
    widths: Mapping[int, int],
    keys: Sequence[int],
    room: int,
) -> list[Mapping[int, int]] | None:
    """Returns the columns of each part of the table, with their widths. None if the keys and one column need more
    room than there is."""
    least = {}
    for at, natural in widths.items():
        if columns[at].folds:
            longest = max((_width(word) for text in texts[at] for word in text.split()), default=0)
            least[at] = min(max(min(longest, LONGEST_WORD), LEAST_FOLDED), natural)
        else:
            least[at] = max(map(_width, texts[at]))
    free = room - _total([least[at] for at in keys])
    parts: list[list[int]] = [[]]
    for at in (at for at in widths if at not in keys):
        if parts[-1] and sum(least[each] + GAP for each in (*parts[-1], at)) > free:
            parts.append([])
        parts[-1].append(at)
    if any(sum(least[at] + GAP for at in part) > free for part in parts):
        return None
    return [_fitted({at: widths[at] for at in sorted([*keys, *part])}, least, room) for part in parts]


def _fitted(widths: dict[int, int], least: Mapping[int, int], room: int) -> Mapping[int, int]:
    """Narrows the columns of a part to the room. The widest are narrowed first, and none below its minimum width."""
    while (over := _total(widths.values()) - room) > 0:
        giving = [at for at in widths if widths[at] > least[at]]
        if not giving:
            break
        widest = max(widths[at] for at in giving)
        those = [at for at in giving if widths[at] == widest]
        floor = max([widths[at] for at in giving if widths[at] < widest] + [least[at] for at in those])
        step = min(over, widest - floor)
        for done, at in enumerate(those):
            less = min(step, round(over / (len(those) - done)))
            widths[at] -= less
            over -= less
    return widths


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
