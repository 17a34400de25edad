"""Hook for MkDocs: the navigation, by folder, and links to files outside of docs/, which become plain text."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")
ORDER = {
    "tutorials": (),
    "explanations": ("what-is-timed", "tiers", "statistics", "cold", "floors-and-doubts", "why", "power-cuts"),
    "reference": (
        *("commands", "run-options", "plan-files", "servers", "reports", "ci", "library", "prices"),
        *(
            "published-experiments",
            "doubts",
            "caveats",
            "tier-proofs",
            "crash-findings",
            "claims",
            "run-file",
            "measured-quantities",
            "engine-counters",
            "show-json",
        ),
        *("compare-json", "why-json", "bisect-json", "columns"),
    ),
    "results": (),
    "contributing": ("an-engine", "a-suite", "house", "glossary", "releases"),
}
"""Tabs, with the pages that come first; the others follow by name."""


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    tabs = [{folder.capitalize(): section(docs, folder, first)} for folder, first in ORDER.items()]
    config["nav"] = [{"Home": "index.md"}, *tabs]
    return config


def section(docs: Path, folder: str, first: tuple[str, ...]) -> list[Any]:
    """The pages of a folder, its index first, then its folders."""
    before = ("index", *first)
    names = sorted(page.stem for page in (docs / folder).glob("*.md"))
    names.sort(key=lambda name: before.index(name) if name in before else len(before))
    below = sorted(path.name for path in (docs / folder).iterdir() if path.is_dir() and any(path.glob("*.md")))
    folders = [{name.capitalize(): section(docs, f"{folder}/{name}", ())} for name in below]
    return [*(f"{folder}/{name}.md" for name in names), *folders]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def replacement(link: re.Match[str]) -> str:
        outside = posixpath.normpath(posixpath.join(folder, link[2])).startswith("..")
        return link[1] if outside else link[0]

    return LINK.sub(replacement, markdown)
