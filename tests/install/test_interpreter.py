"""The trials of an engine with a separate interpreter run in that interpreter, and the run file says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from needed import unavailable
from shell import TESTS, Shell, small

from dyno.install import engine
from dyno.install.programs import InstallError

pytestmark = pytest.mark.usefixtures("processes")

VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def another() -> str:
    """An installed version of Python other than the tests' own."""
    for version in VERSIONS:
        if version != "{}.{}".format(*sys.version_info):
            try:
                engine.find(version)
            except InstallError:
                continue
            return version
    pytest.skip("there is no second interpreter here")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dyno's cache directory, shared by these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def elder(shell: Shell, cache: Path) -> str:
    """The version that the engine `elder` requires."""
    version = another()
    shell.plugins = [TESTS / "plugins" / "elder"]
    shell.given = {"XDG_CACHE_HOME": str(cache), "DYNO_TEST_PYTHON": version}
    return version


def test_trials_run_in_the_engines_interpreter(elder: str, shell: Shell, cache: Path) -> None:
    run = ("run", "records", "-e", "elder,sqlite", "-o", shell.file, *small(), "--all")
    assert shell.dyno(*run) == (2, "", f"dyno: engine elder needs Python {elder}: dyno install elder\n")
    status, out, err = shell.dyno("install", "elder")
    if "pip failed" in out:
        unavailable(out)
    assert (status, err) == (0, "")
    first, *_, second, last = out.splitlines()
    assert (first, last) == (f"elder: making an environment of Python {elder}", "elder: ready")
    assert second.startswith("elder: installed ") and " numpy " in second
    assert shell.dyno("install", "elder") == (0, "elder: ready\n", "")

    ended = shell.dyno(*run)
    assert ended.status == 0, ended.out + ended.err
    here = "{}.{}.{}".format(*sys.version_info)
    theirs = {line["loop"]["python"] for line in shell.attempts("elder")}
    assert all(version.startswith(f"{elder}.") for version in theirs) and len(theirs) == 1
    assert {line["loop"]["python"] for line in shell.attempts("sqlite")} == {here}
    assert {line["outcome"] for line in shell.attempts()} == {"ok"}
    (row,) = (line for line in ended.out.splitlines() if line.startswith("elder "))
    assert f"Python {min(theirs)}" in row, "the row says where it was measured"
    (measured,) = (line for line in ended.out.splitlines() if line.startswith("Measured by "))
    assert f" in Python {theirs.pop()} (" in measured and f"Python {here}" not in measured


def test_broken_dyno_link_in_interpreter_is_repaired(elder: str, shell: Shell, cache: Path) -> None:
    (at,) = (cache / "dyno" / "interpreters" / f"elder-{elder}").glob("lib/python*/site-packages/dyno")
    # A broken link, as after moving the checkout.
    at.unlink()
    at.symlink_to(cache / "gone" / "dyno")
    ended = shell.dyno("run", "records", "-e", "elder", "-o", shell.file, *small())
    assert ended.status == 0, ended.out + ended.err


def test_environment_without_python_asks_for_dyno_install(elder: str, shell: Shell, cache: Path) -> None:
    python = cache / "dyno" / "interpreters" / f"elder-{elder}" / "bin" / "python"
    if not python.exists():
        pytest.skip("it was not made")
    python.unlink()
    assert shell.dyno("run", "records", "-e", "elder", *small()).err.endswith(": dyno install elder\n")
