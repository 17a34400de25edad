"""Finds suites and engines: Dyno's own in their packages, and plug-ins by entry points.

A declaration is imported when it is requested by name. That does not import an engine's library: the engine's opener
does, inside a worker. A plug-in that can't be imported is reported with its error and doesn't affect the others.
"""

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import dyno.engines
import dyno.suites
from dyno.contracts.declarations import exception_text, type_errors
from dyno.contracts.engine import EngineSpec, moved_field
from dyno.contracts.model import BASE, VARIANT, UsageError
from dyno.contracts.roles import define_suite, variants_of
from dyno.contracts.sanitize import sanitize, unsafe_texts
from dyno.contracts.settings import Setting, choice, unknown_name_message
from dyno.contracts.suite import Suite
from dyno.contracts.versions import Versions

GROUPS = {"engine": "dyno.engines", "suite": "dyno.suites"}
KINDS: dict[str, type] = {"engine": EngineSpec, "suite": Suite}
MEMBER, MEMBERS = "engine_", "engines"
INFO = (".dist-info", ".egg-info")
"""Suffixes of directories that have the metadata of a distribution."""


@cache
def _sources(kind: str) -> dict[str, str]:
    """Returns 'module:attribute' by name. A plug-in can't replace one of Dyno's own suites or engines."""
    return {**dict(_plugins(GROUPS[kind])), **find_own(kind)}


def find_own(kind: str) -> dict[str, str]:
    """Returns 'module:attribute' by name of the engines or suites that come with Dyno.

    A family of engines is a package with several engines. A module `engine_NAME` declares one of them. A module
    `engines` declares several, each as an attribute with its name in capitals, and `ENGINES` in the package has their
    names. Any other module or package declares one suite or engine and is named after it.
    """
    package, attribute = (dyno.engines if kind == "engine" else dyno.suites), kind.upper()
    sources: dict[str, str] = {}
    for entry in pkgutil.iter_modules(package.__path__):
        if entry.name.startswith("_"):
            continue
        module = f"{package.__name__}.{entry.name}"
        inside = pkgutil.iter_modules([f"{path}/{entry.name}" for path in package.__path__]) if entry.ispkg else ()
        members = [inner.name for inner in inside if inner.name.startswith(MEMBER) or inner.name == MEMBERS]
        if not members:
            sources[entry.name] = f"{module}:{attribute}"
        for member in members:
            if member == MEMBERS:
                names = importlib.import_module(module).ENGINES
                sources |= {name: f"{module}.{MEMBERS}:{name.upper()}" for name in names}
            else:
                sources[member.removeprefix(MEMBER)] = f"{module}.{member}:{attribute}"
    return sources


def _plugins(group: str) -> Iterable[tuple[str, str]]:
    """Returns name and 'module:attribute' of each entry point. If several have the same name, the first comes last.

    First searches the files of all distributions for the name of the group: importing `importlib.metadata` takes
    longer than most commands, and few installations have plug-ins.
    """
    if not any(group.encode() in text for text in _entry_points(tuple(sys.path))):
        return ()
    from importlib.metadata import entry_points

    return [(entry.name, entry.value) for entry in entry_points(group=group)][::-1]


@cache
def _entry_points(path: tuple[str, ...]) -> list[bytes]:
    """Returns the text of every entry_points.txt on the path. An archive on the path counts as having every group."""
    texts = list[bytes]()
    for directory in map(Path, path):
        if directory.is_file():
            return [" ".join(GROUPS.values()).encode()]
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith(INFO):
                    with suppress(OSError):
                        texts.append(Path(entry.path, "entry_points.txt").read_bytes())
    return texts


def names(kind: str) -> list[str]:
    """Returns the names of all engines or suites, sorted, without importing any."""
    return sorted(_sources(kind))


def _load(kind: str, name: str) -> object:
    known = _sources(kind)
    if name not in known:
        # Also suggest engines by title: no engine is called 'zodb', but several titles have that word.
        titles = {}
        if kind == "engine":
            titles = {spec.name: spec.title.lower().replace("'s", "") for spec in engines()}
        kin = [other for other, title in titles.items() if name.lower() in re.findall(r"[\w.]+", title)]
        raise UsageError(unknown_name_message(kind, name, known, kin))
    module, _, attribute = known[name].partition(":")
    where = sanitize(f"{kind} {name} ({known[name]})", keep="")
    try:
        declaration = getattr(importlib.import_module(module), attribute)
        if declaration.name != name:
            raise ValueError(f"it calls itself {declaration.name}; the names must be the same")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(f"{where} can't be imported: {moved_field(error) or _describe_error(error)}") from error
    # Check only plug-ins here. Tests check Dyno's own declarations, which are so many that each start would be
    # slower.
    plugin = not module.startswith(tuple(f"{package}." for package in GROUPS.values()))
    try:
        if plugin:
            check_types(declaration, kind)
        if kind == "engine":
            declaration.check(_ports())
        if plugin:
            check_texts(where, declaration, kind)
    except UsageError as error:
        line = str(error)
        raise UsageError(line if line.startswith(where) else sanitize(f"{where}: {line}", keep="")) from None
    except Exception as error:
        raise UsageError(f"{where} is no {KINDS[kind].__name__}: {_describe_error(error)}") from None
    return declaration


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {sanitize(' '.join(exception_text(error).split()))}"


def check_types(declaration: object, kind: str) -> None:
    """Raises UsageError for the first field of a declaration that is missing or has the wrong type."""
    if kind == "engine" and not isinstance(declaration, EngineSpec):
        raise UsageError(f"it is a {type(declaration).__name__}, expected an EngineSpec")
    for line in type_errors(declaration, KINDS[kind]):
        raise UsageError(line)


def check_texts(where: str, declaration: object, kind: str) -> None:
    """Raises UsageError for a text in a declaration that is not one printable line."""
    parts = {name: getattr(declaration, name, ()) for name in Suite.__annotations__}
    for name, part in ({"": declaration} if kind == "engine" else parts).items():
        for field, text in unsafe_texts(part, name):
            raise UsageError(f"{where}: {field}: {text:.80} is not one line of text that can be shown")


@cache
def _ports() -> tuple[str, ...]:
    return tuple(dict.fromkeys(port for suite in suites() for port in suite.ports))


def prepare(name: str) -> None:
    """Finds all declarations, and imports the suite and the module `workload` of its package, but no engine.
    Processes that are forked from this one inherit all of it."""
    for kind in GROUPS:
        _sources(kind)
    # The checks of an engine's declaration need the ports.
    _ports()
    # If a module can't be imported, the trial that needs it reports that.
    with suppress(Exception, SystemExit):
        module = f"{type(suite(name)).__module__}.workload"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)


def conformance(suite: Suite) -> ModuleType:
    """Returns the module that may have the suite's checks: `conformance` in its package, or else `workload`, or else
    the suite's own module."""
    package = type(suite).__module__
    if hasattr(sys.modules[package], "__path__"):
        for name in (f"{package}.conformance", f"{package}.workload"):
            if importlib.util.find_spec(name) is not None:
                return importlib.import_module(name)
    return sys.modules[package]


@cache
def engine(name: str) -> EngineSpec:
    """Returns an engine's declaration. Raises UsageError, with the nearest name, if there is no such engine."""
    return cast(EngineSpec, _load("engine", name))


@cache
def _suite(name: str) -> Suite:
    return cast(Suite, _load("suite", name))


def suite(name: str, definition: Mapping[str, object] | None = None) -> Suite:
    """Returns a suite, made by the user's definition if there is one. Raises UsageError, with the nearest name, if
    there is no such suite."""
    declared = _suite(name)
    if definition is None:
        return declared
    return define_suite(declared, definition)


def versions_of(spec: EngineSpec) -> Versions:
    """Returns where the engine's other versions come from. Raises UsageError if there are none."""
    if spec.versions is None:
        able = ", ".join(each.name for each in engines() if each.versions is not None)
        raise UsageError(f"engine {spec.name} has no versions beside the installed one; these have: {able}")
    return spec.versions


def engines() -> Iterator[EngineSpec]:
    """Yields every engine that can be imported, in the order of names."""
    return (spec for name in names("engine") if not isinstance(spec := attempt("engine", name), str))


def suites() -> Iterator[Suite]:
    """Yields every suite that can be imported, in the order of names."""
    return (suite for name in names("suite") if not isinstance(suite := attempt("suite", name), str))


def attempt(kind: str, name: str) -> Any:
    """Returns the declaration; if it can't be imported, a line with the reason."""
    try:
        if kind == "engine":
            return engine(name)
        return suite(name)
    except UsageError as error:
        return str(error)


def list_broken() -> list[str]:
    """Returns a line with the reason for each engine or suite that can't be imported."""
    attempts = (attempt(kind, name) for kind in GROUPS for name in names(kind))
    return [line for line in attempts if isinstance(line, str)]


def engines_for(suite: Suite) -> list[EngineSpec]:
    """Returns the engines that implement one of the suite's ports, each reduced to that port."""
    return [spec for each in engines() if (spec := reduce_to_suite(suite, each)) is not None]


def reduce_to_suite(suite: Suite, spec: EngineSpec) -> EngineSpec | None:
    """Returns the engine reduced to the first of the suite's ports that it implements; None if it implements none. If
    the suite has variants, the engine has the option that chooses one."""
    reduced = next((spec.reduce_to_port(port) for port in suite.ports if port in spec.ports), None)
    variants = variants_of(suite)
    if reduced is None or not variants:
        return reduced
    setting = Setting(VARIANT, choice(BASE, *variants), BASE, "variant of the definition")
    return replace(reduced, options=(*reduced.options, setting))
