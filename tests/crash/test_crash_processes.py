"""Tests that killing a child process also kills a server that it started a moment before."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dyno.crash import processes
from dyno.host.process import is_running

pytestmark = pytest.mark.usefixtures("processes")

# Program that starts a server in a session of its own, without recording it.
STARTS = """
import subprocess, sys, time
started = subprocess.Popen(["sleep", "600"], start_new_session=True)
with open(sys.argv[1], "w") as told:
    print(started.pid, file=told, flush=True)
    time.sleep(600)
"""


def test_closing_a_child_kills_its_unrecorded_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "words", lambda target, module, out: [sys.executable, "-c", STARTS, out])
    target: Any = SimpleNamespace(spec=SimpleNamespace(server=object()))
    (tmp_path / "home").mkdir()
    child = processes.CrashProcess(target, "commit", tmp_path / "home")
    server = int(child.line(30.0) or 0)
    assert is_running(server)
    child.close()
    assert not is_running(server)
