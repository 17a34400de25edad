"""Checks that a tag can be released; without a tag, prints the version.

The tag names the version in src/dyno/__init__.py, the changelog has a dated section for it, and pyproject.toml states
the repository's address. Needs no package, so that a workflow can run it before it installs anything.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def version(root: Path = ROOT) -> str:
    """Returns Dyno's version. Its only place is src/dyno/__init__.py."""
    match = re.search(r'^__version__ = "(.+)"$', (root / "src" / "dyno" / "__init__.py").read_text(), re.MULTILINE)
    assert match, "src/dyno/__init__.py has no __version__"
    return match[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Returns what has to be done before the tag can be released."""
    wanted, found = version(root), []
    if tag != f"v{wanted}":
        found.append(f"tag {tag}: src/dyno/__init__.py has version {wanted}; tag v{wanted}, or change the version")
    heading = rf"^## {re.escape(wanted)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(), re.MULTILINE):
        found.append(f"CHANGELOG.md: no heading '## {wanted} (YEAR-MONTH-DAY)'; date the section of this release")
    if not re.search(r"^\[project\.urls\]$", (root / "pyproject.toml").read_text(), re.MULTILINE):
        found.append("pyproject.toml: [project.urls] is a comment; state the repository's address there")
    return found


def main(words: list[str]) -> int:
    if not words:
        print(version())
        return 0
    found = problems(words[0])
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
