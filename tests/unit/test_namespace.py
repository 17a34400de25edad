"""Tests the name of a store on a server. It never changes, is unique, and is valid on every server. On a user's own
server, a name counts as abandoned only if it was made by a dead process of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dyno.servers import namespace

pytestmark = pytest.mark.usefixtures("processes")

# Program that prints the name of the store in its working directory, and runs until its input ends.
ANOTHER = """
import sys
from pathlib import Path
from dyno.servers import namespace
print(namespace.of(Path()), flush=True)
sys.stdin.read()
"""


def another(home: Path) -> tuple[subprocess.Popen[str], str]:
    """Starts a process that makes the name of the store in `home`. Returns the process and the name."""
    home.mkdir(exist_ok=True)
    made = subprocess.Popen(
        [sys.executable, "-c", ANOTHER], cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert made.stdout is not None
    return made, made.stdout.readline().strip()


def test_a_store_keeps_its_name_in_whatever_process(tmp_path: Path) -> None:
    process, name = another(tmp_path)
    with process:
        assert namespace.of(tmp_path) == name
        assert namespace.of(tmp_path) == name
        assert f"_{process.pid}_" in name


def test_no_two_stores_have_the_same_name(tmp_path: Path) -> None:
    homes = [tmp_path / str(number) for number in range(50)]
    for home in homes:
        home.mkdir()
    names = {namespace.of(home) for home in homes}
    assert len(names) == 50
    # All names are of one process, so they differ in the random part.
    assert len({name.rpartition("_")[2] for name in names}) == 50


def test_every_server_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is valid as an unquoted schema, database or prefix, even for a process with the highest possible
    id."""
    monkeypatch.setattr(os, "getpid", lambda: 2**22)
    assert re.fullmatch(r"[a-z][a-z0-9_]{1,39}", namespace.of(tmp_path))


def test_a_name_is_abandoned_when_its_process_is_gone(tmp_path: Path) -> None:
    mine = namespace.of(tmp_path)
    process, name = another(tmp_path / "other")
    with process:
        assert namespace.abandoned([mine, name]) == []
        process.kill()
        # A killed process counts as dead before its parent has waited for it, and afterwards.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert namespace.abandoned([mine, name]) == [name]
        process.wait()
        assert namespace.abandoned([name, mine]) == [name]


def test_what_is_not_surely_of_a_dead_process_of_this_machine_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, name = another(tmp_path / "other")
    process.communicate()
    word, machine, pid, drawn = name.split("_")
    for no_name in (
        "dyno",
        "dyno_users",
        f"x{name}",
        f"{name}x",
        f"{name}\n",
        f"{name}:key",
        name.upper(),
        "_".join((word, machine, pid)),
        "_".join((word, machine, "pid", drawn)),
        "_".join((word, machine[::-1], pid, drawn)),
    ):
        assert namespace.abandoned([no_name]) == [], no_name
    assert namespace.abandoned([name]) == [name]
    monkeypatch.setattr(namespace, "node", lambda: "another-machine")
    assert namespace.abandoned([name]) == []
