"""A wheel of Dyno works without the repository."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from shell import TESTS, Shell, small

REPOSITORY = TESTS.parent
# What a build takes; of the sources, not what was built before.
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src", "rust")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


@pytest.fixture
def installed(shell: Shell, tmp_path: Path) -> Path:
    """A directory with nothing but the wheel in it, installed. Without the native loop, which takes long to build."""
    source = tmp_path / "source"
    source.mkdir()
    for name in PARTS:
        path = REPOSITORY / name
        unwanted = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__", "target")
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=unwanted)
        else:
            shutil.copy(path, source)
    without = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "cargo").exists()
    )
    shell.given = {"PATH": without}
    wheels, target = tmp_path / "wheels", tmp_path / "installed"
    built = shell.sh(*PIP, "wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    assert built.status == 0, built.err
    (wheel,) = wheels.iterdir()
    assert wheel.name.startswith("dyno_bench-")
    assert shell.sh(*PIP, "install", "--no-deps", "--no-index", "--target", target, wheel).status == 0
    shutil.rmtree(source)
    return target


def test_a_wheel_lists_runs_and_reports_without_the_repository(installed: Path, shell: Shell) -> None:
    # Before all others on the path, that of an editable installation too.
    shell.given["PYTHONPATH"] = str(installed)
    where = shell.sh(sys.executable, "-c", "import dyno; print(dyno.__file__)").out
    assert where.strip() == str(installed / "dyno" / "__init__.py")
    for words in (
        ("list",),
        ("run", "records", "-e", "sqlite,memory", "-o", shell.file, *small()),
        ("report", shell.file, "-o", "r.html"),
        ("site", shell.home, "-o", "site"),
        ("replicate", "acid-2013", "--help"),
    ):
        ended = shell.dyno(*words)
        assert ended.status == 0, ended.err
    assert (shell.home / "r.html").stat().st_size > 100_000
    assert (installed / "dyno" / "published" / "acid-2013.toml").exists()
