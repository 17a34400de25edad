"""Finds suites and engines: ours by looking in their folders, plug-ins' by entry point.

The only place that knows what there is. It imports a declaration when it is asked for by name, and never an
engine's library: those are imported by an engine's opener, inside a worker. A plug-in that can't be imported is
reported with its error and hides nobody else.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import dyno.engines
import dyno.suites
from dyno.contracts.declarations import exception_text
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import UsageError
from dyno.contracts.plugin_types import type_errors
from dyno.contracts.settings import unknown
from dyno.contracts.suite import Suite
from dyno.text.sanitize import is_unsafe, sanitize

GROUPS = {"engine": "dyno.engines", "suite": "dyno.suites"}
KINDS: dict[str, type] = {"engine": EngineSpec, "suite": Suite}
_OURS = tuple(f"{package}." for package in GROUPS.values())
MEMBER, MEMBERS = "engine_", "engines"
INFO = (".dist-info", ".egg-info")
"""Directories in which a distribution says what it is."""


@cache
def _sources(kind: str) -> dict[str, str]:
    """Name to 'module:attribute', ours first: a plug-in can't take the name of one of ours."""
    found = own(kind)
    for name, value in _plugins(GROUPS[kind]):
        found.setdefault(name, value)
    return found


def own(kind: str) -> dict[str, str]:
    """Name to 'module:attribute' of the engines or suites that come with Dyno."""
    package = dyno.engines if kind == "engine" else dyno.suites
    return dict(_declarations(package, kind.upper()))


def _declarations(package: ModuleType, attribute: str) -> Iterator[tuple[str, str]]:
    """Name and 'module:attribute' of each of our suites or engines.

    A family of engines is a package with a module `engine_NAME` per engine, or a module `engines` with several: its
    `ENGINES` in `__init__.py` has their names, and NAME is declared as an attribute of that name in capitals. Any
    other module or package is named after the one suite or engine that it declares."""
    for found in pkgutil.iter_modules(package.__path__):
        if found.name.startswith("_"):
            continue
        module = f"{package.__name__}.{found.name}"
        within = pkgutil.iter_modules([f"{path}/{found.name}" for path in package.__path__]) if found.ispkg else ()
        members = [each.name for each in within if each.name.startswith(MEMBER) or each.name == MEMBERS]
        if not members:
            yield found.name, f"{module}:{attribute}"
        for member in members:
            if member == MEMBERS:
                names = importlib.import_module(module).ENGINES
                yield from ((name, f"{module}.{MEMBERS}:{name.upper()}") for name in names)
            else:
                yield member.removeprefix(MEMBER), f"{module}.{member}:{attribute}"


def _plugins(group: str) -> Iterable[tuple[str, str]]:
    """Name and 'module:attribute' of each entry point. That there are none is found out by a look at the files where
    there would be some: to import what reads them takes longer than most commands, and few have plug-ins."""
    if not any(group.encode() in text for text in _declared(tuple(sys.path))):
        return ()
    from importlib.metadata import entry_points

    return [(entry.name, entry.value) for entry in entry_points(group=group)]


@cache
def _declared(path: tuple[str, ...]) -> list[bytes]:
    """The entry points of every distribution that is installed there, as they are written. Of an archive on the path
    all groups, as only the library looks inside."""
    found = list[bytes]()
    for place in map(Path, path):
        if place.is_file():
            return [" ".join(GROUPS.values()).encode()]
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith(INFO):
                    with suppress(OSError):
                        found.append(Path(entry.path, "entry_points.txt").read_bytes())
    return found


def names(kind: str) -> list[str]:
    """Of all engines or suites, in order, whether or not they can be imported: nothing is."""
    return sorted(_sources(kind))


def _load(kind: str, name: str) -> Any:
    known = _sources(kind)
    if name not in known:
        kin = _kin(name) if kind == "engine" else []
        raise UsageError(unknown(kind, name, known, kin))
    module, _, attribute = known[name].partition(":")
    where = sanitize(f"{kind} {name} ({known[name]})", keep="")
    try:
        found = getattr(importlib.import_module(module), attribute)
        if found.name != name:
            raise ValueError(f"it calls itself {found.name}; the names must be the same")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(f"{where} can't be imported: {_named(error)}") from error
    try:
        if not module.startswith(_OURS):
            # Our own are checked by a test: they are many, and this is where a start spends its time.
            check_types(found, kind)
        if kind == "engine":
            found.check(_ports())
        if not module.startswith(_OURS):
            check_texts(where, found, kind)
    except UsageError as error:
        line = str(error)
        raise UsageError(line if line.startswith(where) else sanitize(f"{where}: {line}", keep="")) from None
    except Exception as error:
        raise UsageError(f"{where} is no {KINDS[kind].__name__}: {_named(error)}") from None
    return found


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {sanitize(' '.join(exception_text(error).split()))}"


def check_types(found: Any, kind: str) -> None:
    """Raises UsageError for the first field of a declaration that is missing or of another type."""
    if kind == "engine" and not isinstance(found, EngineSpec):
        raise UsageError(f"it is a {type(found).__name__}, expected an EngineSpec")
    for line in type_errors(found, KINDS[kind]):
        raise UsageError(line)


def check_texts(where: str, found: Any, kind: str) -> None:
    """What a declaration says is shown as it stands. Raises UsageError."""
    parts = {"": found} if kind == "engine" else {name: getattr(found, name, ()) for name in Suite.__annotations__}
    for field, shown in chain.from_iterable(is_unsafe(part, name) for name, part in parts.items()):
        raise UsageError(f"{where}: {field}: {shown:.80} is not one line of text that can be shown")


def _kin(word: str) -> list[str]:
    """The engines whose titles have it for a word: no engine is called 'zodb', and several are of it."""
    wanted = word.lower()
    return [spec.name for spec in engines() if wanted in re.findall(r"[\w.]+", spec.title.lower().replace("'s", ""))]


@cache
def _ports() -> tuple[str, ...]:
    """All that there are: each is some suite's."""
    return tuple(dict.fromkeys(port for suite in suites() for port in suite.ports))


def prepare(name: str) -> None:
    """Finds out what there is, and imports what trials of a suite need: its declaration, and its package's module
    `workload` if it has one. Processes that are forked from this one need not do it again. No engine is imported.
    """
    for kind in GROUPS:
        _sources(kind)
    # An engine's declaration is held to them.
    _ports()
    try:
        module = f"{type(suite(name)).__module__}.workload"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    except (Exception, SystemExit):
        # The trial that needs it reports what is wrong with it.
        return


def conformance(suite: Suite) -> ModuleType | None:
    """Returns the module of the suite's package that has its checks: `conformance`, or else `workload`. None if there
    is neither."""
    package = type(suite).__module__
    if hasattr(sys.modules[package], "__path__"):
        for name in (f"{package}.conformance", f"{package}.workload"):
            if importlib.util.find_spec(name) is not None:
                return importlib.import_module(name)
    return None


@cache
def engine(name: str) -> EngineSpec:
    """The declaration of one engine. Raises UsageError, with the nearest name, for an unknown one."""
    return cast(EngineSpec, _load("engine", name))


@cache
def suite(name: str) -> Suite:
    """One suite. Raises UsageError, with the nearest name, for an unknown one."""
    return cast(Suite, _load("suite", name))


def engines() -> Iterator[EngineSpec]:
    """Every engine that can be imported, in order of name."""
    return (spec for name in names("engine") if isinstance(spec := attempt("engine", name), EngineSpec))


def suites() -> Iterator[Suite]:
    """Every suite that can be imported, in order of name."""
    for name in names("suite"):
        found = attempt("suite", name)
        if not isinstance(found, str):
            yield found


def attempt(kind: str, name: str) -> Any:
    """The declaration, or the one line that says why it can't be had."""
    try:
        return engine(name) if kind == "engine" else suite(name)
    except UsageError as error:
        return str(error)


def broken() -> list[str]:
    """One line for each engine or suite that can't be imported."""
    found = (attempt(kind, name) for kind in GROUPS for name in names(kind))
    return [line for line in found if isinstance(line, str)]


def runs_here(name: str) -> bool:
    """Whether there is such an engine and nothing that it needs is missing."""
    found = attempt("engine", name)
    return isinstance(found, EngineSpec) and not found.lacking()


def engines_for(wanted: Suite) -> list[EngineSpec]:
    """The engines that implement one of the suite's ports, each as it is through that port."""
    return [spec for each in engines() if (spec := through(wanted, each)) is not None]


def through(wanted: Suite, spec: EngineSpec) -> EngineSpec | None:
    """The engine as it is through the first of the suite's ports that it implements; None where it has none."""
    return next((spec.through(port) for port in wanted.ports if port in spec.ports), None)
