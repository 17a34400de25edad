"""What all tests share. That this file is here puts its directory on the path, so that tests can import `shell`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import DISK, Shell


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
