"""Imports the user's Python code, in workers only."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from dyno.contracts.model import Refused
from dyno.contracts.settings import unknown_name_message
from dyno.suites.calls import SUFFIX
from dyno.suites.calls.functions import describe_exception

_files: dict[Path, ModuleType] = {}
"""The imported files: the arguments of a function may be in the same file."""


def load(reference: str, directory: Path) -> object:
    """Returns the object FILE.py:NAME or package.module:NAME. Its imports are found in the environment, and then in
    the directory of the file, or for a module in `directory`. Raises Refused, with the exception of the user's
    code."""
    source, _, name = reference.rpartition(":")
    try:
        if source.endswith(SUFFIX):
            value: object = _file(Path(directory, source))
        else:
            value = _module(source, directory)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(f"{source} can't be imported: {describe_exception(error)}") from error
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            names = [each for each in dir(value) if not each.startswith("_")]
            raise Refused(unknown_name_message(f"{source}: name", part, names)) from None
    return value


def _file(path: Path) -> ModuleType:
    if path not in _files:
        _search_last(path.parent)
        # A file may have the name of a module that is imported already, such as json.py.
        if path.stem not in sys.modules:
            name = path.stem
        else:
            name = f"_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} can't be loaded")
        module = importlib.util.module_from_spec(spec)
        # The module must be found by its name while it is executed: dataclasses and pickles need that.
        sys.modules[name] = module
        spec.loader.exec_module(module)
        _files[path] = module
    return _files[path]


def _module(name: str, directory: Path) -> ModuleType:
    _search_last(directory)
    return importlib.import_module(name)


def _search_last(directory: Path) -> None:
    """Installed packages come first: a gate runs one plan with an environment for each side, and a copy of a package
    beside the plan would be measured twice."""
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
