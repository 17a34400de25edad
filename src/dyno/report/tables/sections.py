"""Sections of rows on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid
from dyno.report.tables.comparison import Section

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
            _table(section, widths, console)


def _table(section: Section, widths: dict[str, int], console: Console) -> None:
    columns = [
        grid.Column(name, name in section.left, widths[name], folds=name in section.left, key=name in section.keys)
        for name in section.heads
    ]
    grid.render(columns, section.rows, console, marks=STYLES)
