"""Compares the JSON of `dyno compare` and `dyno check` with docs/reference/compare-json.md, key by key."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from documentation import named, read, sections
from facts import differences, keys
from shell import Shell, small

from dyno.cli import commands as cli
from dyno.report.charts.vega import VERDICTS
from dyno.report.tables import comparison

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def runs(shared_shell: Shell) -> tuple[Path, Path]:
    """A run of two rows of one tier in two phases, and a made-up run on another machine, where one row has another
    option."""
    before, after = shared_shell.home / "before.json", shared_shell.home / "after.json"
    chosen = small(param_records=200, samples=3, phases="insert-blind-indices,rand-key")
    ended = shared_shell.dyno("run", "records", "-e", "sqlite,sqlite:cache_mib=8", *chosen, "-o", before)
    assert ended.status == 0, ended
    first, *rest = before.read_text().splitlines()
    header = json.loads(first)
    header["host"]["system"]["kernel"] = "another"
    for cell in header["cells"]:
        if cell["options"]:
            cell["options"] = {"cache_mib": 9}
    after.write_text("\n".join([json.dumps(header), *rest]) + "\n")
    return before, after


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    cli.dyno.main([str(word) for word in words], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def held(found: Any, documented: set[str], filled: Sequence[str]) -> None:
    """Checks that exactly the documented keys exist, and that the named lists were not empty."""
    undocumented, gone = differences(list(keys(found)), documented)
    assert not undocumented and not gone
    assert all(found[name] for name in filled)


def documented(section: str) -> set[str]:
    return set(named(sections(read("reference/compare-json.md"))[section]))


def test_json_keys_of_engine_comparison_are_documented(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data = printed(capsys, "compare", runs[0], "--json")
    held(data, documented("Engines within a run"), ["comparisons"])
    assert len(data["comparisons"]) == 2


def test_json_keys_of_versions_are_documented(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run = runs[0].with_name("versions.json")
    first, *rest = runs[0].read_text().splitlines()
    header = json.loads(first)
    for version, cell in enumerate(header["cells"]):
        if not cell["floor"]:
            cell["options"] = {"version": f"3.{version}"}
    run.write_text("\n".join([json.dumps(header), *rest]) + "\n")
    data = printed(capsys, "compare", run, "--by", "version", "--json")
    held(data, documented("Versions of engines"), ["series"])


def test_json_keys_of_two_runs_are_documented(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    data = printed(capsys, "compare", *runs, "--json")
    held(data, documented("Two runs"), ["differences", "changes", "lost", "new"])


def test_json_keys_of_several_runs_are_documented(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    other = runs[1].with_name("other.json")
    other.write_bytes(runs[1].read_bytes())
    data = printed(capsys, "compare", *runs, other, "--json")
    held({**data, "runs": []}, documented("Several runs"), [])
    assert len(data["runs"]) == 2
    for run in data["runs"]:
        held(run, documented("Two runs"), ["differences", "changes", "lost", "new"])


def test_json_keys_of_the_gate_are_documented(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    data = printed(capsys, "check", runs[1], "--against", runs[0], "--json")
    both = documented("Two runs") | documented("The gate")
    held(data, both, ["differences", "changes", "lost", "new"])
    assert data["before"] == str(runs[0]) and data["passed"] is False


@pytest.mark.parametrize(
    ("key", "values"),
    [("comparisons[].kind", VERDICTS), ("changes[].kind", VERDICTS), ("changes[].state", comparison.STATES)],
)
def test_json_values_of_verdicts_are_documented(key: str, values: Collection[str]) -> None:
    meaning = named(read("reference/compare-json.md"))[key][2]
    assert all(f"`{value}`" in meaning for value in values)
