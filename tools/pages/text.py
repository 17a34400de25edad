"""Markdown for the pages that follow from declarations: tables, code, generated blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WRITTEN = "<!-- Written by tools/reference.py: change {0} and run `make reference`. -->"
BLOCK = re.compile(r"(?<!```markdown\n)<!-- generated: ([\w-]+)((?: [\w-]+)*) -->\n(.*?)<!-- end -->", re.DOTALL)
"""A generated part of a page that people write: the name of what makes it, and its arguments. Examples in code aren't
generated."""
PRINTED = re.compile(r"<!-- ([\w-]+) -->\n.*?<!-- /\1 -->", re.DOTALL)
"""A part of a page that a command of Dyno printed, such as `dyno selftest --tiers --markdown`."""
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(*words: str) -> str:
    return ", ".join(f"`{word}`" for word in words if word)


def filled(text: str, blocks: Mapping[str, Callable[..., str]]) -> str:
    """The text of a page with its generated blocks made anew."""

    def block(match: re.Match[str]) -> str:
        name, words = match[1], match[2].split()
        return f"<!-- generated: {match[1]}{match[2]} -->\n{blocks[name](*words).strip()}\n<!-- end -->"

    return BLOCK.sub(block, text)


def by_hand(text: str) -> str:
    """The text of a page without what a tool or a command wrote."""
    return "" if text.startswith(WRITTEN[:20], text.find("<!--")) else PRINTED.sub("", BLOCK.sub("", text))


def moved(text: str, source: Path, page: Path) -> str:
    """The text with its relative links, which start at `source`, made to start at `page`."""

    def link(match: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / match[2])
        return match[1] + os.path.relpath(target, page.parent)

    return LINK.sub(link, text)


def nested(text: str, title: str = "") -> str:
    """The text of a document one level deeper, with another title or none."""
    body = re.sub(r"^# .*\n+", "", text)
    return (f"## {title}\n\n" if title else "") + re.sub(r"^(#+ )", r"#\1", body, flags=re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The parts of a document below its headings of level 2; the part before them is named by an empty string."""
    head, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {"": head, **dict(zip(parts[::2], parts[1::2], strict=True))}


def sentence(text: str) -> str:
    """The text as a sentence: with a capital letter and a full stop."""
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")
