"""Tests that the documentation builds as a site, with every page, link and anchor."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from documentation import DOCS, ROOT
from needed import unavailable
from shell import Shell


def test_the_documentation_builds_without_a_warning(shell: Shell, tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        unavailable("the theme of the site (mkdocs-material) is not installed")
    words = ("build", "--strict", "--config-file", ROOT / "mkdocs.yml", "--site-dir", tmp_path / "site")
    ended = shell.sh(sys.executable, "-m", "mkdocs", *words)
    assert ended.status == 0, ended.out + ended.err
    built = {path.relative_to(tmp_path / "site").with_suffix("") for path in (tmp_path / "site").rglob("*.html")}
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    assert pages <= built
    home = (tmp_path / "site" / "index.html").read_text()
    assert {"tutorials", "explanations", "reference", "contributing"} <= set(re.findall(r"href=\"(\w+)/", home))
    # Names of files outside of docs/ are plain text, not links.
    assert not re.search(r'href="[^"]*\.\./examples', (tmp_path / "site" / "reference" / "ci.html").read_text())
