"""A small real run for the tests that compare the documented formats with what Dyno writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Shell


@pytest.fixture(scope="session")
def run_file(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Path:
    """A run of two engines and the null engine, with a bulk phase, a phase of operations and a mixed one."""
    place = tmp_path_factory.mktemp("run")
    shell = Shell(place, place / "work")
    words = ("records", "-e", "sqlite:cache_mib=8,memory", "-p", "records=200", "--samples", "1")
    ended = shell.dyno("run", *words, "--phases", "insert-blind-indices,rand-key,mixed", "-o", shell.file)
    assert ended.status == 0, ended.err
    return shell.file
