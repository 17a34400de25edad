"""Selects the tests of a room: a folder of src/dyno, or a module in it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import dyno
from dyno import registry
from dyno.contracts.engine import EngineSpec

TESTS = Path(__file__).parent
SOURCE = Path(dyno.__file__).parent


def deselect_other_rooms(config: pytest.Config, items: list[pytest.Item], room: str) -> None:
    """Keeps a room's own tests, and other rooms' tests that are parametrized with an engine that the room declares.
    Raises UsageError if there is no such room."""
    room = room.strip("/")
    path = SOURCE / room
    if not path.is_dir() and not path.with_suffix(".py").is_file():
        rooms = sorted(each.name for each in SOURCE.iterdir() if (each / "__init__.py").exists())
        raise pytest.UsageError(f"src/dyno has no {room}; a room is a folder or module of it: {', '.join(rooms)}")
    others = list[pytest.Item]()
    own = list[pytest.Item]()
    for item in items:
        if _is_in_room(item, room) or _tests_an_engine_of(item, room):
            own.append(item)
        else:
            others.append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = own


def _is_in_room(item: pytest.Item, room: str) -> bool:
    tests = TESTS / room
    return tests in item.path.parents or item.path == tests.with_name(f"test_{tests.name}.py")


def _tests_an_engine_of(item: pytest.Item, room: str) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    specs = filter(None, map(_find_engine, callspec.params.values()))
    return any(_is_declared_in(spec, room) for spec in specs)


def _find_engine(value: object) -> EngineSpec | None:
    """Returns the engine that a parameter of a test is, has or names."""
    spec = getattr(value, "spec", value)
    if isinstance(value, str):
        spec = registry.attempt("engine", value)
    if isinstance(spec, EngineSpec):
        return spec
    return None


def _is_declared_in(spec: EngineSpec, room: str) -> bool:
    opener = spec.opener
    if isinstance(opener, partial):
        opener = opener.func
    module = ".".join(("dyno", *Path(room).parts))
    return f"{opener.__module__}.".startswith(f"{module}.")
