"""A titled table with notes, and its three renderings: terminal, Markdown and HTML.

On a terminal and in a pipe, no cell is ever cut. If a table is too wide, its bars are dropped, then cells of words
are folded. Then the table is split into parts, one below the other, and finally it is printed as a list. `rich.table`
can neither split a table nor print it as a list.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.text import Text

REMARKS = "remarks"
STYLES = {"FAIL": "bold red", "pass": "green", "unclear": "yellow"}
"""Styles of cells that stand out on a terminal, by their text."""
NO_BREAK = "\N{NO-BREAK SPACE}"
RIGHT = ' style="text-align: right"'
LEFT = ' style="text-align: left"'


@dataclass(frozen=True)
class Section:
    """A title, a table and lines below it, each of which may be missing."""

    title: str
    remark: str = ""
    """Text after the title."""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: Collection[str] = ("engine", "parameters", "verdict", "", REMARKS)
    """Columns of words, which are left-aligned and may be folded."""
    keys: Collection[str] = ("engine", "parameters")
    """Columns that name a row. If a table is split, they are repeated."""
    lines: Sequence[str] = ()
    legend: Sequence[str] = ()
    """Explanations of columns and marks; dimmed on a terminal."""
    row_styles: Sequence[str] = ()
    marks: Mapping[str, str] = field(default_factory=lambda: STYLES)
    """Styles of cells, by their text."""
    column_styles: Mapping[str, str] = field(default_factory=lambda: {REMARKS: "yellow"})
    rigid: Collection[str] = ()
    """Columns of words that are not folded."""
    spare: Collection[str] = ()
    """Columns that are only decoration, and are dropped if the table is too wide."""
    plain_heads: Mapping[str, str] = field(default_factory=dict)
    """Printed headings of columns, if they differ from the columns' names."""


def first_lines(lines: Sequence[str], most: int, more: str = "more") -> list[str]:
    """Returns at most `most` lines, and if there are more, a last line with the number of the others."""
    return [*lines[:most], *([f"and {len(lines) - most} {more}"] if len(lines) > most else [])]


def render(sections: Iterable[Section], console: Console, aligned: bool = True, blank_first: bool = True) -> None:
    """Prints sections on a terminal, with a blank line between them. `aligned`: columns of the same name have the
    same width in all sections. `blank_first`: a blank line also precedes the first section."""
    sections = list(sections)
    widths: dict[str, int] = {}
    for section in sections if aligned else ():
        for at, name in enumerate(section.heads):
            longest = max((len(row[at]) for row in section.rows), default=0)
            widths[name] = max(widths.get(name, 0), longest, len(section.plain_heads.get(name, name)))
    for at, section in enumerate(sections):
        if at or blank_first:
            console.print()
        if section.title or section.remark:
            if section.title and section.remark:
                remark = f"  {section.remark}"
            else:
                remark = section.remark
            print_sentence(Text.assemble((section.title, "bold"), remark), console)
        if section.rows:
            columns = [
                Column(
                    section.plain_heads.get(name, name),
                    left=name in section.left,
                    least=0 if name == REMARKS else widths.get(name, 0),
                    folds=name in section.left and name not in section.rigid,
                    style=section.column_styles.get(name, ""),
                    key=name in section.keys,
                    spare=name in section.spare,
                )
                for name in section.heads
            ]
            print_table(columns, section.rows, console, section.row_styles, section.marks)
        for line in section.lines:
            print_sentence(Text(line), console, GAP)
        for line in section.legend:
            print_sentence(Text(line, "dim"), console, GAP)


def print_sentence(text: Text, console: Console, indent: int = 0) -> None:
    """Prints a text, wrapped to the width of a terminal at blanks; a pipe gets one line."""
    for line in text.wrap(console, max(console.width - indent, 1), overflow="fold"):
        line.rstrip()
        console.print(Text.assemble(" " * indent, line), soft_wrap=True)


# -- Markdown -----------------------------------------------------------------------------------------------


def markdown(sections: Iterable[Section], lines: Iterable[str] = ()) -> str:
    """Returns sections as GitHub's Markdown, with a list below them."""
    parts = []
    for section in sections:
        title = plain(section.title.replace("  ", ", "))
        if title or section.remark:
            parts.append(", ".join(filter(None, [title and f"**{title}**", plain(section.remark)])))
        if section.rows:
            parts.append(table(section.heads, section.rows, section.left))
        parts += [bullets(map(plain, section.lines)), *map(plain, section.legend)]
    parts.append(bullets(map(plain, lines)))
    return "\n\n".join(filter(None, parts)) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[str]) -> str:
    """Returns a Markdown table. Columns other than `words` are figures, and right-aligned."""
    # A no-break space prevents a line break between a figure and its unit.
    joined = [
        [cell if head in words else cell.replace(" ", NO_BREAK) for head, cell in zip(heads, row, strict=True)]
        for row in rows
    ]
    rule = "| " + " | ".join(":---" if head in words else "---:" for head in heads) + " |"
    first, *others = (
        "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in row) + " |" for row in (heads, *joined)
    )
    return "\n".join([first, rule, *others])


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def plain(text: str) -> str:
    """Returns the text on one line, with Markdown's characters escaped."""
    return re.sub(r"[\\*`<\[]|(?<!\w)_|_(?!\w)", r"\\\g<0>", re.sub(r"[ \t\r\n]+", " ", text))


def code(text: str) -> str:
    """Returns the text as inline code, on one line. Backquotes in the text don't end the code."""
    line = re.sub(r"[ \t\r\n]+", " ", text)
    longest = max(map(len, re.findall("`+", line)), default=0)
    # The blanks separate a backquote at an end of the text; Markdown drops them.
    padded = f" {line} " if longest else line
    return f"{'`' * (longest + 1)}{padded}{'`' * (longest + 1)}"


# -- HTML ---------------------------------------------------------------------------------------------------


def html(sections: Iterable[Section], lines: Iterable[str] = ()) -> str:
    """Returns sections as HTML for a notebook, with a list below them. Uses plain elements and escapes every text."""
    return "\n".join([*map(_html_table, sections), html_list(lines)])


def html_list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    if items:
        return f"<ul>{items}</ul>"
    return ""


def _html_table(section: Section) -> str:
    title = f"<b>{escape(', '.join(filter(None, [section.title.replace('  ', ', '), section.remark])))}</b>"
    if not section.rows:
        return f"<p>{title}</p>"
    sides = [LEFT if head in section.left else RIGHT for head in section.heads]
    heads = "".join(f"<th{side}>{escape(head)}</th>" for side, head in zip(sides, section.heads, strict=True))
    rows = [
        "<tr>" + "".join(f"<td{side}>{escape(cell)}</td>" for side, cell in zip(sides, row, strict=True)) + "</tr>"
        for row in section.rows
    ]
    caption = f"<caption{LEFT}>{title}</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


# -- terminal -----------------------------------------------------------------------------------------------

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


def print_table(
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
        at: max(columns[at].least, *(cell_len(line) for text in cells for line in text.split("\n")))
        for at, cells in enumerate(texts)
    }
    for at in [at for at, column in enumerate(columns) if column.spare]:
        if _total_width(widths.values()) > room:
            del widths[at]
    keys = [at for at in widths if columns[at].key] or list(widths)[:1]
    parts = [widths] if _total_width(widths.values()) <= room else _parts(columns, texts, widths, keys, room)
    for part in parts or ():
        _print_part(columns, rows, part, console, styles, marks or {}, indent)
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
            print_sentence(text, console, margin)


def _print_part(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    widths: Mapping[int, int],
    console: Console,
    styles: Sequence[str],
    marks: Mapping[str, str],
    indent: int,
) -> None:
    segments = list[Segment]()
    for number, row in enumerate([[column.head for column in columns], *rows]):
        # A row that is blank in the whole table separates others.
        if not any(row[at] for at in widths) and (not number or any(row)):
            continue
        if number and styles:
            row_style = styles[number - 1]
        else:
            row_style = ""
        folded = {at: _fold_cell(console, row[at], width) for at, width in widths.items()}
        for line in range(max(map(len, folded.values()))):
            parts = [Segment(" " * indent)]
            for place, (at, lines) in enumerate(folded.items()):
                text = lines[line] if line < len(lines) else ""
                room = " " * (widths[at] - cell_len(text))
                if number:
                    style = f"{row_style} {columns[at].style} {marks.get(row[at], '')}"
                else:
                    style = HEAD
                parts.append(Segment(" " * GAP * bool(place)))
                parts.append(Segment(text + room if columns[at].left else room + text, console.get_style(style)))
            while parts and not parts[-1].text.strip():
                parts.pop()
            if parts:
                parts[-1] = Segment(parts[-1].text.rstrip(), parts[-1].style)
            segments += [*parts, Segment.line()]
    # All at once: rich takes 0.2 ms to print a line by itself, and a table may have 10,000.
    console.print(Segments(segments), end="", crop=False)


def _total_width(widths: Collection[int]) -> int:
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
            longest = max((cell_len(word) for text in texts[at] for word in text.split()), default=0)
            least[at] = min(max(min(longest, LONGEST_WORD), LEAST_FOLDED), natural)
        else:
            least[at] = max(map(cell_len, texts[at]))
    free = room - _total_width([least[at] for at in keys])
    parts: list[list[int]] = [[]]
    for at in (at for at in widths if at not in keys):
        if parts[-1] and sum(least[each] + GAP for each in (*parts[-1], at)) > free:
            parts.append([])
        parts[-1].append(at)
    if any(sum(least[at] + GAP for at in part) > free for part in parts):
        return None
    return [_fit_columns({at: widths[at] for at in sorted([*keys, *part])}, least, room) for part in parts]


def _fit_columns(widths: dict[int, int], least: Mapping[int, int], room: int) -> Mapping[int, int]:
    """Narrows the columns of a part to the room. The widest are narrowed first, and none below its minimum width."""
    while (over := _total_width(widths.values()) - room) > 0:
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


def _fold_cell(console: Console, cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width and "\n" not in cell:
        return [cell]
    return [line.plain.rstrip() for line in Text(cell).wrap(console, width, overflow="fold")]
