"""Tests that building a state leaves exactly this state in the directory, whatever was there before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from handmade import PAGE, Tape, states, whole

from dyno.crash.model import State

pytestmark = pytest.mark.usefixtures("processes")

OLD = b"o" * PAGE


def tape() -> Tape:
    made = Tape(f=OLD * 3, g=b"g", log=b"")
    made.create("d", "directory").create("d/new").write("d/new", 0, b"new").link("g", "h").create("s", "symlink", "f")
    for turn in range(6):
        made.write("f", turn % 3 * PAGE, bytes([65 + turn]) * PAGE).write("log", turn * 700, b"l" * 700)
    made.resize("f", PAGE + 5).write("f", 2 * PAGE, b"x" * PAGE).resize("log", 10).rename("d/new", "moved")
    return made.unlink("g")


def there(place: Path) -> dict[str, bytes | str]:
    every = [path for path in place.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        path.relative_to(place).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in every
    }


def expected(state: State) -> dict[str, bytes | str]:
    found = {path: (node.target if file is None else whole(file)) for path, (node, file) in state.files.items()}
    return {path: held for path, held in found.items() if state.files[path][0].kind != "directory"}


@pytest.mark.parametrize("model", ["ext4", "posix"])
def test_directory_holds_the_state_built_last(place: Path, model: str) -> None:
    for state in states(tape(), model, count=60):
        state.build(place / "built")
        assert there(place / "built") == expected(state)


def test_build_undoes_changes_to_the_directory(place: Path) -> None:
    built = place / "built"

    def damage(number: int) -> None:
        for path in [path for path in built.rglob("*") if path.is_file() and not path.is_symlink()]:
            kind = (number + len(path.name)) % 5
            if kind == 0:
                with path.open("r+b") as file:
                    file.write(b"damage")
            elif kind == 1:
                path.unlink()
            elif kind == 2:
                path.rename(path.with_suffix(".away"))
                path.write_bytes(b"another")
            elif kind == 3:
                os.truncate(path, 3)
        (built / "stray").mkdir(exist_ok=True)
        (built / "stray/file").write_bytes(b"stray")

    for number, state in enumerate(states(tape(), "posix", count=60)):
        state.build(built)
        assert there(built) == expected(state)
        damage(number)


def test_states_of_two_records_share_a_directory(place: Path) -> None:
    one, other = states(tape(), "ext4", count=20), states(tape(), "posix", count=20, seed=2)
    for first, second in zip(one, other, strict=True):
        for state in (first, second):
            state.build(place / "built")
            assert there(place / "built") == expected(state)
