"""The promise of 0.1.0: run files of every schema since then stay readable, with the figures that they had.

tests/data has a run file of each schema, written by the version that introduced it, and run-facts.json the medians
that it showed then. A new schema needs a new file; the older files and their facts never change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shell import TESTS, Shell, is_one_line

from dyno.results import READABLE, SCHEMA

pytestmark = pytest.mark.usefixtures("processes")

DATA = TESTS / "data"
FACTS: dict[str, Any] = json.loads((DATA / "run-facts.json").read_text())
RUNS = [f"run-schema-{SCHEMA}.json"]


def facts(shell: Shell, file: Path) -> dict[str, list[Any]]:
    """The unit, the median and the 50th percentile of each row of a run."""
    shown = shell.dyno("show", file, "--json")
    assert shown.status == 0, shown.err
    cells = json.loads(shown.out)["cells"]
    return {
        f"{cell['engine']} {cell['phase']} {cell['tier']}": [
            cell["throughput"]["unit"],
            round(cell["throughput"]["median"]),
            cell["latency_ns"]["p50"],
        ]
        for cell in cells
    }


@pytest.mark.parametrize("name", RUNS)
def test_run_files_of_every_schema_keep_their_figures(shell: Shell, name: str) -> None:
    assert json.loads((DATA / name).open().readline())["schema"] == int(name[11])
    assert facts(shell, DATA / name) == FACTS[name] and len(FACTS[name]) > 4


@pytest.mark.parametrize("name", RUNS)
def test_each_command_reads_run_files_of_every_schema(shell: Shell, name: str) -> None:
    file = DATA / name
    for words in (
        ("compare", file, file),
        ("check", file, "--against", file),
        ("report", file, "-o", "page.html"),
        ("plot", file, "-o", "charts/"),
        ("site", file, "-o", "site"),
        ("show", file, "-o", "run.csv"),
        ("export", file, "--format", "bmf", "-o", "bmf.json"),
    ):
        ended = shell.dyno(*words)
        assert ended.status == 0, (words, ended.err)
    assert (shell.home / "page.html").stat().st_size > 100_000


def test_run_file_of_newer_schema_is_refused(shell: Shell) -> None:
    first, *rest = (DATA / RUNS[-1]).read_text().splitlines()
    newer = {**json.loads(first), "schema": READABLE[-1] + 1}
    shell.file.write_text("\n".join([json.dumps(newer), *rest]) + "\n")
    ended = shell.dyno("show", shell.file)
    assert ended.status == 2 and is_one_line(ended.err)
    assert f"schema {READABLE[-1] + 1}" in ended.err and "newer" in ended.err
