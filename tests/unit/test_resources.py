"""The watch over a trial's processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from dyno.run.resources import descendants

COMING_AND_GOING = """
import os
while True:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
"""
LOOKS = 5_000
"""Some 10 of these meet a process that goes between two looks at it."""


@pytest.fixture
def restless() -> Iterator[int]:
    """A process whose children end as soon as they begin, as a server's may."""
    with subprocess.Popen([sys.executable, "-c", COMING_AND_GOING]) as process:
        yield process.pid
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="by the kernel's list of children")
def test_a_process_that_goes_while_it_is_looked_at_is_nobodys_error(restless: int) -> None:
    deadline = time.monotonic() + 30
    while not list(descendants(restless)) and time.monotonic() < deadline:
        pass
    for _ in range(LOOKS):
        list(descendants(restless))
