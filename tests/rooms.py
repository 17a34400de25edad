"""Selects the tests of a room: a folder of src/dyno, or a module in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import dyno
from dyno.contracts.engine import EngineSpec

TESTS = Path(__file__).parent
SOURCE = Path(dyno.__file__).parent


def deselect_other_rooms(config: pytest.Config, items: list[pytest.Item], room: str) -> None:
    """Keeps a room's own tests, and other rooms' tests that are parametrized with an engine that the room declares.
    Raises UsageError if there is no such room."""
    room = room.strip("/")
    path = SOURCE / room
    if not path.is_dir() and not path.with_suffix(".py").is_file():
        rooms = sorted(each.name for each in SOURCE.iterdir() if each.is_dir() and (TESTS / each.name).is_dir())
        raise pytest.UsageError(f"src/dyno has no {room}; a room is a folder or module of it: {', '.join(rooms)}")
    own = [item for item in items if _is_in_room(item, room) or _tests_an_engine_of(item, room)]
    config.hook.pytest_deselected(items=[item for item in items if item not in own])
    items[:] = own


def _is_in_room(item: pytest.Item, room: str) -> bool:
    return (TESTS / room) in item.path.parents or item.path == TESTS / Path(
        room
    ).parent / f"test_{Path(room).name}.py"


def _tests_an_engine_of(item: pytest.Item, room: str) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    module = ".".join(("dyno", *Path(room).parts))
    for value in callspec.params.values():
        spec = getattr(value, "spec", value)
        if isinstance(spec, EngineSpec):
            opener = spec.opener.__module__
            if opener == module or opener.startswith(module + "."):
                return True
    return False
