"""Python environments of engines: their directory, interpreter, and importable modules. `dyno.install` creates
them."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from dyno.host import directories

MARK = "dyno-installed"
"""File that marks a completely installed environment."""
FIND_MISSING = """
import importlib.util, json, sys
def importable(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
print(json.dumps([module for module in sys.argv[1:] if not importable(module)]))
"""
START = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
import dyno
sys.path.remove(sys.argv[1])
sys.argv[:2] = []
runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
"""
"""Code that runs a module of this Dyno. It removes Dyno's path after the import of Dyno, since other modules in that
directory may work only with this interpreter."""
WITH_LIBRARY = """
import runpy, sys
sys.path.insert(1, sys.argv[1])
sys.argv[:2] = []
runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
"""
"""Code that runs a module with a directory of packages that come before the installed ones."""


class Python(NamedTuple):
    """An interpreter, and packages that come before its installed ones."""

    executable: str = sys.executable
    library: str = ""
    """Directory of the packages; empty if there are none."""

    def words(self, module: str, *options: str) -> list[str]:
        """Returns the command that runs a module of this Dyno.

        The Dyno that installed an engine's environment may be another version, or gone.
        """
        command = [self.executable, *options]
        if self.library:
            return [*command, "-c", WITH_LIBRARY, self.library, module]
        if self.executable == sys.executable:
            return [*command, "-m", module]
        return [*command, "-c", START, str(Path(__file__).parents[2]), module]


def home(engine: str, version: str) -> Path:
    """Returns the directory of the engine's environment for Python `version` ('3.10'), which may not exist."""
    return directories.cache() / "interpreters" / f"{engine}-{version}"


def interpreter(engine: str, version: str) -> Path | None:
    """Returns the environment's Python, or None if it isn't installed or links to a Python that is gone."""
    environment = home(engine, version)
    python = environment / "bin" / "python"
    with suppress(OSError):
        if (environment / MARK).exists() and python.exists():
            return python
    return None


def find_missing(
    modules: tuple[str, ...], python: Path | None = None, library: Path | None = None
) -> tuple[str, ...]:
    """Returns the modules that `python` can't import, without importing them. None: this interpreter, with the
    packages in `library`, if it is given."""
    if python is None:
        first = () if library is None else (str(library),)
        return tuple(module for module in modules if not _is_in(module, first) and not _importable(module))
    return _find_missing_in(modules, python)


@cache
def _find_missing_in(modules: tuple[str, ...], python: Path) -> tuple[str, ...]:
    # Look in site-packages first: starting an interpreter would take most of the time of `dyno list`.
    if all(_is_installed(module, python.parents[1]) for module in modules):
        return ()
    done = subprocess.run([python, "-c", FIND_MISSING, *modules], capture_output=True, text=True)
    if done.returncode == 0:
        return tuple(json.loads(done.stdout))
    return modules


def look_again() -> None:
    """Clears the caches of this module after an installation."""
    importlib.invalidate_caches()
    _find.cache_clear()
    _find_missing_in.cache_clear()


def _is_installed(module: str, environment: Path) -> bool:
    """Returns whether the module is in the environment's site-packages."""
    return _is_in(module, map(str, environment.glob("lib/python*/site-packages")))


def _is_in(module: str, directories: Iterable[str] | None) -> bool:
    for name in accumulate(module.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(name, list(directories or ()))
        if spec is None:
            return False
        directories = spec.submodule_search_locations
    return True


def _importable(module: str) -> bool:
    # Finding a submodule imports its package, which may raise any exception.
    with suppress(Exception):
        _find(module)
        return True
    return False


@cache
def _find(module: str) -> None:
    """Raises ModuleNotFoundError. Failures aren't cached: the user may install the module at any time."""
    if importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(module)
