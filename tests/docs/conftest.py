"""A small real run for the tests that compare the documented formats with what Dyno writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def run_file(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Path:
    """A run of two engines and the null engine, with a bulk phase, a phase of operations and a mixed one."""
    place = tmp_path_factory.mktemp("run")
    path = place / "run.json"
    words = [
        *("run", "records", "-e", "sqlite:cache_mib=8,memory", "-p", "records=200", "--samples", "1"),
        *("--phases", "insert-blind-indices,rand-key,mixed", "-o", str(path), "--work", str(place / "work")),
    ]
    done = subprocess.run([sys.executable, "-m", "dyno", *words], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return path
