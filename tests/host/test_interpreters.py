"""Tests the search for modules of another interpreter, which is started only if some of them are not found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dyno.host import interpreters


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Environment with a package, a namespace package and a module, whose Python fails when it is started."""
    packages = tmp_path / "lib" / "python3.10" / "site-packages"
    for name in ("whole/__init__.py", "whole/part.py", "shared/inside/__init__.py", "single.py"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).touch()
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    interpreters.look_again()
    return python


@pytest.mark.parametrize("module", ["whole", "whole.part", "shared", "shared.inside", "single"])
def test_present_module_is_found_without_starting_interpreter(environment: Path, module: str) -> None:
    assert interpreters.find_missing((module,), environment) == ()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("module", ["other", "whole.other", "shared.other", "single.other", "other.whole"])
def test_absent_module_is_checked_by_the_interpreter(environment: Path, module: str) -> None:
    assert interpreters.find_missing((module, "whole"), environment) == (module, "whole"), "it could not be started"
    environment.unlink()
    environment.symlink_to(sys.executable)
    interpreters.look_again()
    assert interpreters.find_missing((module, "json"), environment) == (module,)


def test_look_again_finds_newly_installed_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert interpreters.find_missing(("thisone",)) == ("thisone",)
    (tmp_path / "thisone.py").touch()
    interpreters.look_again()
    assert interpreters.find_missing(("thisone",)) == ()
