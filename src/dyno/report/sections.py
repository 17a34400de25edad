"""Sections of rows on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dyno.report.compared import Section

GAP = 2
# What is to be seen first.
STYLES = {"FAIL": "bold red", "pass": "green", "unclear": "yellow"}


def render(sections: Sequence[Section], console: Console) -> None:
    """Columns of one name have one width in all sections, so that they line up."""
    widths: dict[str, int] = {}
    for section in sections:
        for at, name in enumerate(section.heads):
            longest = max((len(row[at]) for row in section.rows), default=0)
            widths[name] = max(widths.get(name, 0), longest, len(name))
    for section in sections:
        console.print()
        console.print(Text.assemble((section.title, "bold"), f"  {section.remark}" if section.remark else ""))
        if section.rows:
            console.print(_table(section, widths))


def _table(section: Section, widths: dict[str, int]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    # Words may be folded, figures not.
    words_only = set(section.heads) <= set(section.left)
    for name in section.heads:
        least = 0 if words_only else widths[name]
        table.add_column(name, justify="left" if name in section.left else "right", min_width=least)
    for row in section.rows:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    return table
