"""Describes the user's code that this process has imported for a function."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path

from dyno.contracts.imported_code import ImportedCode, ImportedModule
from dyno.suites.calls import SUFFIX

DIGITS = 16


def imported_code(reference: str, directory: Path) -> ImportedCode:
    """Returns the code of the function FILE.py:NAME or package.module:NAME, which must have been imported. With a
    file, that is also what the file imports, directly or by modules outside the environment; without the standard
    library."""
    source = reference.rpartition(":")[0]
    by_path = source.endswith(SUFFIX)
    own = source
    if by_path:
        own = _name_of(Path(directory, source))
    modules: dict[str, ImportedModule] = {}
    pending = [own]
    while pending:
        name = pending.pop()
        package = name.partition(".")[0]
        known = package in sys.stdlib_module_names or package == "dyno"
        if package in modules or (known and not (by_path and name == own)):
            files = {}
        else:
            files = _files(package)
        if not files:
            continue
        file = files.get(name) or next(iter(files.values()))
        modules[package] = ImportedModule(name, str(file), _hash(files))
        if by_path and not file.is_relative_to(sys.prefix):
            pending += [each for path in files.values() for each in _imports(path)]
    return ImportedCode(sys.prefix, tuple(modules.values()))


def also_beside(code: ImportedCode, reference: str, directory: Path) -> list[str]:
    """Returns the imported packages of which another copy, which was not imported, is beside the function's file or,
    for a module, in the directory."""
    source = reference.rpartition(":")[0]
    place = directory
    if source.endswith(SUFFIX):
        place = Path(directory, source).parent
    names = []
    for module in code.modules:
        package = module.name.partition(".")[0]
        spec = None
        with suppress(OSError):
            # The function may have left no file descriptors.
            spec = PathFinder.find_spec(package, [str(place)])
        file = getattr(sys.modules.get(package), "__file__", None)
        if file and spec is not None and spec.origin and Path(spec.origin).resolve() != Path(file).resolve():
            names.append(package)
    return names


def _name_of(path: Path) -> str:
    names = (name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None) == str(path))
    return next(names, path.stem)


def _files(package: str) -> dict[str, Path]:
    """Returns the files of the package's imported modules by name, in the order of names."""
    files = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and (name == package or name.startswith(f"{package}.")):
            files[name] = Path(file)
    return files


def _hash(files: dict[str, Path]) -> str:
    hashed = sha256()
    for name, path in files.items():
        with suppress(OSError):
            hashed.update(name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()[:DIGITS]


def _imports(path: Path) -> Iterator[str]:
    """Yields the names of the modules that a source file imports, also inside functions."""
    if path.suffix != SUFFIX:
        return
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node.module
