"""Text, lists and tables as Markdown, of whatever they are. Nothing is known here of runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

NO_BREAK = "\N{NO-BREAK SPACE}"


def table(columns: Mapping[str, Sequence[str]], words: Collection[str]) -> str:
    """Of columns by their heading; the figures, which are all but `words`, stand right."""
    # A figure is not parted from its unit, however narrow the page is.
    cells = [found if name in words else [_unbroken(cell) for cell in found] for name, found in columns.items()]
    rule = "| " + " | ".join(":---" if name in words else "---:" for name in columns) + " |"
    return "\n".join([_line(columns), rule, *map(_line, zip(*cells, strict=True))])


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def plain(text: str) -> str:
    """On one line, and with nothing in it that Markdown would take for more than text."""
    return re.sub(r"[\\*`<\[]|(?<!\w)_|_(?!\w)", r"\\\g<0>", re.sub(r"[ \t\r\n]+", " ", text))


def code(text: str) -> str:
    """As code, on one line: no backquote in it can end it."""
    line = re.sub(r"[ \t\r\n]+", " ", text)
    longest = max(map(len, re.findall("`+", line)), default=0)
    # Code that begins or ends with a backquote is set off by blanks, which are not shown.
    padded = f" {line} " if longest else line
    return f"{'`' * (longest + 1)}{padded}{'`' * (longest + 1)}"


def _unbroken(cell: str) -> str:
    return cell.replace(" ", NO_BREAK)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |"
