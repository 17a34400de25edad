"""Tests that the pages of docs/results/ are what their run files say, and that their prose invents no number."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from documentation import ROOT
from shell import Ended, Shell

from dyno import registry, results
from dyno.contracts.cell import Cell
from dyno.contracts.model import VERSION
from dyno.contracts.safe_read import toml
from dyno.contracts.versions import VERSIONED, choose

FILES = ("tools/results.py", "tools/pages", "docs/results")


def check(shell: Shell, root: Path) -> Ended:
    return shell.sh(sys.executable, root / "tools" / "results.py", "--check")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in FILES:
        copier = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(exist_ok=True)
        copier(ROOT / name, tmp_path / name)
    return tmp_path


def test_results_pages_match_their_run_files(shell: Shell) -> None:
    ended = check(shell, ROOT)
    assert (ended.status, ended.err) == (0, "")
    # Two columns of its table have the same heading: the published rate, and ours.
    page = (ROOT / "docs" / "results" / "acid-batch-2013.md").read_text()
    assert "| 108131.95 |" in page and "| 106,747 |" in page


def test_check_reports_unmeasured_figure_and_page_without_run(copy: Path, shell: Shell) -> None:
    results = copy / "docs" / "results"
    page = results / "acid-batch-2013.md"
    text = page.read_text()
    page.write_text(text.replace("<!-- measured -->", "It is 987.6 times as fast.\n\n<!-- measured -->"))
    (results / "forgotten.md").write_text("# Nothing\n")
    ended = check(shell, copy)
    assert ended.status == 1 and len(ended.err.splitlines()) == 2
    assert (
        "acid-batch-2013.md: its measured part has no 987.6" in ended.err
        and "forgotten.md has no run file" in ended.err
    )


def test_check_reports_hand_edited_page(copy: Path, shell: Shell) -> None:
    page = copy / "docs" / "results" / "acid-batch-2013.md"
    text = page.read_text()
    changed = text.replace("confirmed", "contradicted", 1)
    assert changed != text
    page.write_text(changed)
    ended = check(shell, copy)
    assert ended.status == 1 and "acid-batch-2013.md is not what its run file says" in ended.err


def test_results_page_shows_its_replicate_command_and_preset() -> None:
    page = (ROOT / "docs" / "results" / "hypertable-2009.md").read_text()
    assert "`dyno replicate hypertable-2009 --preset half-hour`" in page and "preset half-hour;" in page
    page = (ROOT / "docs" / "results" / "acid-batch-2013.md").read_text()
    assert "`dyno replicate acid-batch-2013`" in page


def test_added_run_is_smaller_and_shows_the_same(copy: Path, shell: Shell) -> None:
    original = ROOT / "tests" / "data" / "run-schema-3.json"
    added = copy / "docs" / "results" / "added.json"
    ended = shell.sh(sys.executable, copy / "tools" / "results.py", "--add", original, "added")
    assert (ended.status, ended.err) == (0, "")
    assert added.stat().st_size < original.stat().st_size * 0.8
    for options in (["--all"], ["--csv"], ["--csv", "--samples"]):
        assert shell.run_here("show", *options, added).out == shell.run_here("show", *options, original).out


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.toml")), ids=lambda path: path.stem)
def test_published_run_matches_its_plan_file(path: Path) -> None:
    """Compares what the plan file says with the run, without asking what is installed here."""
    run, plan = results.load(path.with_suffix(".json")), toml(path)
    assert run.plan.suite == plan["suite"] and run.complete
    cells = [cell for cell in run.cells if not cell.floor]
    asked = {str(each.get("label", each["name"]) if isinstance(each, dict) else each) for each in plan["engine"]}
    # A range of versions has several rows.
    ranges = {each for each in asked if VERSIONED in each}
    named = {cell.label for cell in cells if VERSION not in cell.options}
    assert asked - ranges - named - {cell.engine for cell in run.cells} == set()
    assert named <= asked
    versioned = [cell for cell in cells if VERSION in cell.options]
    chosen = [list_versions(versioned, each) for each in ranges]
    assert all(chosen)
    assert {each for of in chosen for each in of} == {(cell.engine, cell.options[VERSION]) for cell in versioned}
    for name, value in plan.get("param", {}).items():
        assert {cell.params[name] for cell in cells} == set(value if isinstance(value, list) else [value])
    for name in ("samples", "budget"):
        assert name not in plan or run.recorded["plan"][name] == plan[name]


def list_versions(cells: Sequence[Cell], text: str) -> set[tuple[str, str]]:
    """Returns engine and version of each row that a text such as 'duckdb@1.0..2.0' names."""
    engine, _, version = text.partition(VERSIONED)
    line = registry.versions_of(registry.engine(engine)).line
    measured = [str(cell.options[VERSION]) for cell in cells if cell.engine == engine]
    return {(engine, each) for each in choose(engine, version, measured, line)}
