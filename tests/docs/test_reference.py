"""Tests that the generated reference is current, and that it changes when a declaration does."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from documentation import DOCS, ROOT, caveat_codes, documented_caveats, rows, sections
from shell import Shell

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.suite import Job
from dyno.servers import set_option

TOOL = ROOT / "tools" / "reference.py"
MOST_WORDS = 250
SERIES_SERVERS = ("cassandra", "clickhouse", "influxdb", "questdb", "victoriametrics")


def readmes() -> Iterator[Path]:
    engines = ROOT / "src" / "dyno" / "engines"
    yield from engines.glob("*.md")
    yield from engines.glob("*/README.md")


def test_reference_pages_match_declarations(shell: Shell) -> None:
    ended = shell.sh(sys.executable, TOOL, "--check")
    assert (ended.status, ended.err) == (0, ""), "run `make reference`"


def test_reference_tool_detects_and_applies_changed_option(shell: Shell, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for part in ("src", "docs", "tools", "README.md"):
        copier = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copier(ROOT / part, copy / part)
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    declaration = copy / "src" / "dyno" / "engines" / "lmdb.py"
    changed = declaration.read_text().replace('"readahead"', '"read_ahead"')
    assert changed != declaration.read_text()
    declaration.write_text(changed)
    shell.given = {"PYTHONPATH": str(copy / "src")}
    page = copy / "docs" / "reference" / "engines" / "lmdb.md"
    ended = shell.sh(sys.executable, copy / "tools" / "reference.py", "--check")
    assert ended.status == 1 and "reference/engines/lmdb.md" in ended.err and "make reference" in ended.err
    assert shell.sh(sys.executable, copy / "tools" / "reference.py").status == 0
    assert "`read_ahead`" in page.read_text()


def test_every_engine_and_suite_has_a_reference_page() -> None:
    for kind in ("engine", "suite"):
        pages = {page.stem for page in (DOCS / "reference" / f"{kind}s").glob("*.md")} - {"index"}
        assert pages == set(registry.find_own(kind))


@pytest.mark.parametrize("page", sorted(readmes()), ids=lambda page: page.parent.name + "/" + page.name)
def test_engine_readme_is_short_and_cites_sources(page: Path) -> None:
    text = page.read_text()
    assert len(text.split()) <= MOST_WORDS
    if "## Measured settings" in text:
        table = rows(sections(text)["Measured settings"])
        assert table
        for row in table:
            assert re.search(r"\d\.\d\d \(\d\.\d\d–\d\.\d\d\)", " ".join(row)), row
        assert re.search(r"Sources?: .*\b20\d\d\b", text, re.DOTALL)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", sorted(registry.find_own("engine")))
def test_caveats_of_opened_engine_are_on_its_page(name: str, place: Path) -> None:
    engine: EngineSpec = registry.engine(name)
    if lacking := engine.explain_unavailability():
        pytest.skip(lacking)
    if engine.installation.python:
        pytest.skip(f"engine {engine.name} is opened in Python {engine.installation.python} only")
    if name in SERIES_SERVERS:
        pytest.skip("tests/suites/series/test_archive_servers.py checks it on the server that it starts")
    tier, options = engine.default_tier, engine.resolve({})
    with ExitStack() as open_:
        server = engine.create_server(place / "server", tier, options, 1)
        if server:
            open_.enter_context(closing(server)).start()
        opened = Job(engine, place, tier, options, {}, seed=1, clients=1, server=server or None).open(place)
        codes = caveat_codes(engine, open_.enter_context(closing(opened)))
    assert codes <= documented_caveats(name)
    assert set_option.SET not in codes
