"""Two runs with an environment each must not have run the same files; the place of the user's code is no part of the
work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from madeup import reads

from dyno.contracts.imported_code import ImportedCode, ImportedModule
from dyno.contracts.model import UsageError
from dyno.report.tables import comparison
from dyno.results import Run
from dyno.stats.two_runs import compare_runs


def a_side(
    name: str, environment: str, version: str = "Python 3.12.1", sha256: str = "0123456789abcdef", **files: str
) -> Run:
    """A run of `sqlite` and `lmdb`, as if they were functions whose module has this file, by engine name."""
    run = reads(**dict.fromkeys(files, (100,) * 3))
    attempts = []
    for attempt in run.attempts:
        engine = run.cells[attempt.cell].engine
        code = ImportedCode(environment, (ImportedModule("shop.core", files[engine], sha256),))
        attempts.append(replace(attempt, facts=code.to_facts(), version=version))
    return replace(run, path=Path(name), attempts=tuple(attempts))


def test_same_file_in_two_environments_is_refused() -> None:
    before = a_side("base.json", "/venv-base", sqlite="/head/shop/core.py")
    after = a_side("head.json", "/venv-head", sqlite="/head/shop/core.py")
    with pytest.raises(UsageError) as refusal:
        compare_runs(before, after)
    expected = "base.json and head.json ran the same code, /head/shop/core.py, in two environments, /venv-base and"
    assert str(refusal.value).startswith(expected) and "\n" not in str(refusal.value)


def test_same_file_with_another_content_is_compared() -> None:
    before = a_side("base.json", "/venv-base", sqlite="/checkout/shop/core.py")
    after = a_side("head.json", "/venv-head", sha256="fedcba9876543210", sqlite="/checkout/shop/core.py")
    assert compare_runs(before, after).changes


def test_same_file_in_one_environment_is_compared() -> None:
    run = a_side("base.json", "/venv", sqlite="/checkout/shop/core.py")
    assert compare_runs(run, replace(run, path=Path("head.json"))).changes


def test_same_file_under_another_python_is_compared() -> None:
    before = a_side("base.json", "/venv-base", sqlite="/head/shop/core.py")
    after = a_side("head.json", "/venv-head", "Python 3.13.0", sqlite="/head/shop/core.py")
    assert compare_runs(before, after).changes


def test_gate_names_the_file_that_each_side_ran() -> None:
    before = a_side("base.json", "/venv-base", sqlite="/venv-base/shop/core.py", lmdb="/head/bench.py")
    after = a_side("head.json", "/venv-head", sqlite="/venv-head/shop/core.py", lmdb="/head/bench.py")
    compared = compare_runs(before, after)
    files = [(each.before, each.after) for each in compared.differences if each.what == "imported.shop.core.file"]
    assert files == [("/venv-base/shop/core.py", "/venv-head/shop/core.py")]
    assert comparison.list_lost_rows([compared]) == [
        "Both sides ran /head/bench.py, though their environments differ."
    ]


def test_code_directory_does_not_distinguish_works() -> None:
    run = reads(sqlite=(100,) * 3)
    here, there = (
        replace(run, recorded={**run.recorded, "definition": {"directory": each, "reference": "bench.py:f"}})
        for each in (".", "../checkout")
    )
    assert compare_runs(here, there).changes
