"""Source distributions and wheels of Dyno, built from a copy of the sources alone."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from shell import TESTS, Ended, Shell

REPOSITORY = TESTS.parent
# The files that a build needs, without the products of earlier builds.
PARTS = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE", "src", "rust")
UNWANTED = ("*.so", "*.egg-info", "__pycache__", "target", "build")
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


def copy(target: Path) -> Path:
    """Copies the sources of a checkout, without build products."""
    target.mkdir()
    for name in PARTS:
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, target / name, ignore=shutil.ignore_patterns(*UNWANTED))
        else:
            shutil.copy(path, target)
    return target


def without_cargo() -> str:
    """PATH without the directories that have a Rust toolchain."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not (Path(folder) / "cargo").exists())


def sdist(shell: Shell, place: Path) -> Path:
    """Builds a source distribution with the build back end, and deletes the sources."""
    source, made = copy(place / "source"), place / "sdist"
    made.mkdir()
    ended = shell.sh("sh", "-c", 'cd "$1" && exec "$2" -c "$3" "$4"', "-", source, sys.executable, SDIST, made)
    assert ended.status == 0, ended.err
    shutil.rmtree(source)
    (found,) = made.iterdir()
    return found


def wheel(shell: Shell, source: Path, place: Path) -> Ended:
    """Builds a wheel into `place` with the packages installed here, without network access."""
    words = ("--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", place)
    return shell.sh(sys.executable, *PIP, "wheel", source, *words)
