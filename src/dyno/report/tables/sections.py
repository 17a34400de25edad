"""A titled table with notes, and its three renderings: terminal, Markdown and HTML."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid

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
            remark = f"  {section.remark}" if section.title and section.remark else section.remark
            console.print(Text.assemble((section.title, "bold"), remark), soft_wrap=not section.rows)
        if section.rows:
            _render_table(section, widths, console)
        for line in section.lines:
            console.print(Text(f"  {line}"), soft_wrap=True)
        for line in section.legend:
            console.print(Text(f"  {line}", "dim"), soft_wrap=True)


def _render_table(section: Section, widths: Mapping[str, int], console: Console) -> None:
    columns = [
        grid.Column(
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
    grid.render(columns, section.rows, console, section.row_styles, section.marks)


# -- Markdown -----------------------------------------------------------------------------------------------


def markdown(sections: Iterable[Section], lines: Iterable[str] = ()) -> str:
    """Returns sections as GitHub's Markdown, with a list below them."""
    parts = []
    for section in sections:
        title = plain(section.title.replace("  ", ", "))
        if title or section.remark:
            parts.append(", ".join(filter(None, [title and f"**{title}**", plain(section.remark)])))
        if section.rows:
            columns = dict(zip(section.heads, zip(*section.rows, strict=True), strict=True))
            parts.append(table(columns, section.left))
        parts += [bullets(map(plain, section.lines)), *map(plain, section.legend)]
    parts.append(bullets(map(plain, lines)))
    return "\n\n".join(filter(None, parts)) + "\n"


def table(columns: Mapping[str, Sequence[str]], words: Collection[str]) -> str:
    """Returns a Markdown table. Columns other than `words` are figures, and right-aligned."""
    # A no-break space prevents a line break between a figure and its unit.
    cells = [of if name in words else [cell.replace(" ", NO_BREAK) for cell in of] for name, of in columns.items()]
    rule = "| " + " | ".join(":---" if name in words else "---:" for name in columns) + " |"
    head, *rows = (
        "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in row) + " |"
        for row in (columns, *zip(*cells, strict=True))
    )
    return "\n".join([head, rule, *rows])


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
    return f"<ul>{items}</ul>" if items else ""


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
