"""Parses the documentation for its tests: sections, tables, fenced blocks, links. Doesn't check the contents of a
page.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec
from dyno.contracts.model import STAND_IN_PREFIX

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [*DOCS.rglob("*.md")])

_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    language: str
    text: str


def read(name: str) -> str:
    """The text of docs/`name`."""
    return contents(DOCS / name)


def contents(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """All fenced blocks, in order."""
    return [Block(m[1], m[2]) for m in re.finditer(r"^```(\S*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def sections(text: str, level: int = 2) -> dict[str, str]:
    """Maps the headings of one level, without backticks, to the text below them."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    return {head.replace("`", "").strip(): body for head, body in zip(parts[1::2], parts[2::2], strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without header rows and separators."""
    table: list[list[str]] = []
    body = False
    for line in prose(text).splitlines():
        if not line.startswith("|"):
            body = False
        elif re.fullmatch(r"[|\s:-]+", line):
            body = True
        elif body:
            cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
            table.append([cell.strip().replace("\\|", "|") for cell in cells])
    return table


def named(text: str) -> dict[str, list[str]]:
    """Maps each name in backticks in a row's first cell to the row; several names may share a row."""
    return {name: row for row in rows(text) for name in _CODE.findall(row[0])}


def documented_caveats(engine: str) -> set[str]:
    """The codes of the caveats on the engine's page."""
    return set(named(sections(read(f"reference/engines/{engine}.md")).get("Caveats", "")))


def caveat_codes(spec: EngineSpec, engine: Engine) -> set[str]:
    """The codes of an opened engine's caveats. A stand-in, such as MariaDB for MySQL, is a caveat of the machine and
    not of the engine."""
    caveats = (*spec.caveats, *engine.caveats())
    return {caveat.code for caveat in caveats if not caveat.code.startswith(STAND_IN_PREFIX)}


def links(text: str) -> list[str]:
    """The targets of links to other files and headings."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(text))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """Valid `#...` targets: headings in lower case, with hyphens for blanks and without punctuation."""
    heads = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def files(text: str) -> dict[str, str]:
    """The files that a page tells to save: blocks whose first line is a comment with a file's name."""
    matches = [(re.match(r"# ([\w-]+\.\w+)$", block.text, re.MULTILINE), block.text) for block in blocks(text)]
    return {match[1]: content for match, content in matches if match}


def commands(text: str) -> list[list[str]]:
    """The words after `dyno` of each command in the shell blocks; a backslash continues a line, and a shell
    operator ends it. In a console block, commands follow a dollar sign and other lines are output.
    """
    commands = []
    for block in blocks(text):
        if block.language not in ("sh", "console"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.language == "console" and not line.startswith("$ "):
                continue
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words and words[0] in ("dyno", ".venv/bin/dyno"):
                end = next((at for at, word in enumerate(words) if word in ("|", "||", "&&", ">", ">>")), None)
                commands.append(words[1:end])
    return commands
