"""What all tests share. That this file is here puts its directory on the path, so that tests can import `shell`."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from shell import DISK, Shell

# Where the tests themselves outlive their terminal (nohup), what they start would too, and wait to be ended for ever.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test asserts on wall-clock time, and on a busy machine an example takes what it takes.
settings.register_profile("unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


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
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk, of a short name, that the users whom servers run as may enter."""
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else tmp_path) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def work(place: Path) -> Path:
    """A work directory that is not there yet."""
    return place / "work"


@pytest.fixture
def shell(tmp_path: Path, work: Path) -> Iterator[Shell]:
    """A command line of its own; no process of it outlives the test."""
    made = Shell(tmp_path, work)
    yield made
    made.kill_strays()
