"""Tests that processes started during a trial are killed after it, and no others.

A server that the parent started before the trial survives. So do its children, although they come and go with the
trial's connections, as with PostgreSQL.
"""

from __future__ import annotations

import json
import sys

from shell import Shell

# Server that starts a child for each line of its input, prints the child's pid, and kills all children at the end.
SERVER = """
import subprocess, sys
children = []
for line in sys.stdin:
    children.append(subprocess.Popen(["sleep", "600"]))
    print(children[-1].pid, flush=True)
for child in children:
    child.kill()
"""
PARENT = """
import json, subprocess, sys
import psutil
from dyno.host.process import nothing_left

def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE

with subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=-1, stdout=-1, text=True) as server:
    with nothing_left():
        server.stdin.write("connect\\n")
        server.stdin.flush()
        child = int(server.stdout.readline())
        litter = subprocess.Popen(["sleep", "600"], start_new_session=True).pid
    print(json.dumps({"server": alive(server.pid), "its child": alive(child), "litter": alive(litter)}))
    server.stdin.close()
"""


def left(shell: Shell) -> dict[str, bool]:
    status, out, err = shell.sh(sys.executable, "-c", PARENT, SERVER)
    assert status == 0, err
    found: dict[str, bool] = json.loads(out)
    return found


def test_processes_started_by_trial_are_killed(shell: Shell) -> None:
    assert left(shell)["litter"] is False


def test_earlier_server_and_its_new_children_survive(shell: Shell) -> None:
    found = left(shell)
    assert found["server"] is True
    assert found["its child"] is True
