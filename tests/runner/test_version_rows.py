"""Tests versions of engines in a plan: a row for each installed one, and a line for each that can't be had."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from shell import Shell, small

from dyno.contracts import versions
from dyno.contracts.model import UsageError
from dyno.host.interpreters import Python
from dyno.options import RunRequest
from dyno.runner import plan
from dyno.runner.plan import Plan

DIGEST = "0" * 64


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dyno" / "versions"


def add(engine: str, *named: str, program: str = "") -> None:
    """Makes the cache look as if the versions were installed."""
    for version in named:
        home = versions.home(engine, version)
        home.mkdir(parents=True)
        if program:
            (home / program).write_text("#!/bin/sh\n")
        (home / versions.RECORD).write_text(json.dumps({"program": program, "digests": {engine: DIGEST}}))


def catalog(cache: Path, engine: str, *named: str) -> None:
    (cache / engine).mkdir(parents=True, exist_ok=True)
    (cache / engine / versions.CATALOG).write_text(json.dumps(named))


def make(*engines: Any) -> Plan:
    return plan.make(RunRequest(suite="records", engines=engines))


def labels(run_plan: Plan) -> list[str]:
    return [cell.label for cell in run_plan.cells if not cell.floor]


def test_range_makes_a_row_for_each_version(cache: Path) -> None:
    add("lmdb", "1.6.2", "2.0.0", "2.1.0", "2.1.1")
    run_plan = make("lmdb@1.6..2.1", "lmdb", "one=lmdb@2.0:readahead=no")
    assert labels(run_plan) == ["lmdb 1.6.2", "lmdb 2.0.0", "lmdb 2.1.1", "lmdb", "one"]
    assert [cell.asked for cell in run_plan.cells][:2] == ["lmdb@1.6.2", "lmdb@2.0.0"]
    assert run_plan.cells[4].asked == "lmdb@2.0.0:readahead=no"


def test_printed_name_of_a_row_names_it_again(cache: Path) -> None:
    add("lmdb", "1.6.2")
    (cell,) = (cell for cell in make("lmdb@1.6:readahead=no").cells if not cell.floor)
    assert [each for each in make(cell.asked).cells if not each.floor] == [cell]
    assert labels(make({"name": "lmdb@1.6"})) == labels(make({"name": "lmdb", "version": "1.6"})) == ["lmdb 1.6.2"]


def test_version_runs_with_its_packages_first(cache: Path) -> None:
    add("lmdb", "1.6.2")
    run_plan = make("lmdb@1.6", "lmdb")
    pythons = [run_plan.python(cell) for cell in run_plan.cells]
    assert pythons[0] == Python(sys.executable, str(cache / "lmdb" / versions.home("lmdb", "1.6.2").name))
    assert pythons[1] == Python()


def test_servers_version_is_the_program_that_starts(cache: Path) -> None:
    from dyno import registry

    spec = registry.engine("redis")
    add("redis", "6.2.5", program="redis-server")
    if spec.versions is None:
        pytest.skip("redis has no versions yet")
    resolved = spec.reduce_to_port("records").resolve({"version": "6.2.5"})
    assert resolved["program"] == str(versions.home("redis", "6.2.5") / "redis-server")


def test_version_that_is_absent_is_left_out_by_name(cache: Path) -> None:
    add("lmdb", "1.6.2", "2.0.0")
    catalog(cache, "lmdb", "1.6.2", "1.7.5", "2.0.0", "2.0.1")
    run_plan = make("lmdb@1.6..2.0", "lmdb@3")
    assert labels(run_plan) == ["lmdb 1.6.2", "lmdb 2.0.0"]
    assert run_plan.left_out == (
        "engine lmdb@1.7.5 is not installed: dyno install lmdb@1.7.5",
        "engine lmdb@3 is not installed: dyno install lmdb@3",
    )


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("lmdb@9.9", "engine lmdb@9.9 is not installed: dyno install lmdb@9.9"),
        ("lmdb@new", "engine lmdb@new: expected a version, such as lmdb@1.4"),
        ("memory@1", "engine memory has no versions beside the installed one; these have: "),
        ("lmdb@1.6:version=2", "engine lmdb: its version is given twice: 1.6 and 2"),
        ("lmbd@1.6", "engine lmbd"),
    ],
)
def test_bad_version_is_one_clear_line(cache: Path, engine: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(engine)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_damaged_version_counts_as_absent(cache: Path) -> None:
    add("lmdb", "1.6.2")
    (versions.home("lmdb", "1.6.2") / versions.RECORD).write_text("{")
    with pytest.raises(UsageError, match=r"lmdb@1\.6 is not installed"):
        make("lmdb@1.6")


def test_many_versions_want_confirmation(cache: Path, shell: Shell) -> None:
    add("lmdb", *(f"1.{minor}.0" for minor in range(13)))
    shell.given = {"XDG_CACHE_HOME": str(cache.parents[1])}
    words = ("run", "records", "-e", "lmdb@all", "--samples", "1")
    ended = shell.run_here(*words)
    assert ended.status == 2 and "13 versions of engine lmdb: add --yes to measure, or --dry-run" in ended.err
    assert "lmdb 1.12.0" in shell.run_here(*words, "--dry-run").out
    assert "13 versions of engines in the cache" in shell.run_here("list").out


@pytest.mark.usefixtures("processes")
def test_report_says_which_versions_were_left_out(cache: Path, shell: Shell) -> None:
    shell.given = {"XDG_CACHE_HOME": str(cache.parents[1])}
    ended = shell.dyno("run", "records", "-e", "memory,lmdb@9", *small(), "-o", shell.file)
    assert ended.status == 0, ended.err
    assert "Not measured\n  engine lmdb@9 is not installed: dyno install lmdb@9" in ended.out
