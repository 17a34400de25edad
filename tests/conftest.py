"""What all tests share. That this file is here puts its directory on the path, so that tests can import `shell`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from shell import DISK, Shell


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Writes a tree of kernel files, and gives its root."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            file = tmp_path / "root" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "root"

    return write


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A work directory that is not there yet, on a disk."""
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else tmp_path) as place:
        yield Path(place) / "work"


@pytest.fixture
def shell(tmp_path: Path, work: Path) -> Iterator[Shell]:
    """A command line of its own; no process of it outlives the test."""
    made = Shell(tmp_path, work)
    yield made
    made.kill_strays()
