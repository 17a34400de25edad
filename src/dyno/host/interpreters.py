"""An interpreter of Python of an engine's own: where its environment is, and what can be imported there.

How one is made may not be put here: that is `dyno.install`.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from dyno.host import directories

MARK = "dyno-installed"
"""A file in an environment that was made to its end."""
LOOK = """
import importlib.util, json, sys
def there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
print(json.dumps([module for module in sys.argv[1:] if not there(module)]))
"""
START = "; ".join(
    (
        "import runpy, sys",
        "sys.path.insert(0, sys.argv[1])",
        "import dyno",
        "sys.path.remove(sys.argv[1])",
        "sys.argv[:2] = []",
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)",
    )
)
"""Beside Dyno may be modules that are for this interpreter alone."""


def home(engine: str, version: str) -> Path:
    """The directory of the engine's environment for Python `version` ('3.10'), whether or not it is there."""
    return directories.cache() / "interpreters" / f"{engine}-{version}"


def interpreter(engine: str, version: str) -> Path | None:
    """The Python of that environment; None where it was not made, or what it was made from is gone."""
    made = home(engine, version)
    python = made / "bin" / "python"
    with suppress(OSError):
        return python if (made / MARK).exists() and python.exists() else None
    return None


def words(python: str, module: str, *options: str) -> list[str]:
    """The command by which `python` runs a module of this Dyno's, and not of the one that its environment was made
    by, which may be another by now, or gone."""
    if python == sys.executable:
        return [python, *options, "-m", module]
    return [python, *options, "-c", START, str(Path(__file__).parents[2]), module]


def missing(modules: tuple[str, ...], python: Path | None = None) -> tuple[str, ...]:
    """Those of the modules that `python` (None: this one) can't import, found without importing them."""
    if python is None:
        return tuple(module for module in modules if not _importable(module))
    return _missing(modules, python)


@cache
def _missing(modules: tuple[str, ...], python: Path) -> tuple[str, ...]:
    # To start it takes longer than all else of `dyno list`: it is only asked what is not where pip puts it.
    if all(_installed(module, python.parents[1]) for module in modules):
        return ()
    ran = subprocess.run([python, "-c", LOOK, *modules], capture_output=True, text=True)
    return tuple(json.loads(ran.stdout)) if ran.returncode == 0 else modules


def look_again() -> None:
    """Forgets what could be imported: something was installed."""
    importlib.invalidate_caches()
    _find.cache_clear()
    _missing.cache_clear()


def _installed(module: str, environment: Path) -> bool:
    """Whether it is in the packages of that environment."""
    directories: Iterable[str] | None = [str(place) for place in environment.glob("lib/python*/site-packages")]
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        found = PathFinder.find_spec(".".join(parts[:depth]), list(directories or ()))
        if found is None:
            return False
        directories = found.submodule_search_locations
    return True


def _importable(module: str) -> bool:
    try:
        _find(module)
    except Exception:
        # The package that it would be a part of is imported for this, and may raise anything.
        return False
    return True


@cache
def _find(module: str) -> None:
    """Raises ModuleNotFoundError, which is not kept: in a notebook that goes on, it may be installed at any time."""
    # Raises it, too, where the package that the module would be a part of is not there.
    if importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(module)
