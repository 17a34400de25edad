"""Tests the name of a store on a server. It never changes, is unique, and is valid on every server. On a user's own
server, a name counts as abandoned only if it was made by a dead process of this machine, or long ago by another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from platform import node

import pytest

from dyno.servers import namespace

pytestmark = pytest.mark.usefixtures("processes")

# Program that prints the name of the store in its working directory, and runs until its input ends.
ANOTHER = """
import sys
from pathlib import Path
from dyno.servers import namespace
print(namespace.store_name(Path()), flush=True)
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


def test_store_name_is_the_same_in_every_process(tmp_path: Path) -> None:
    process, name = another(tmp_path)
    with process:
        assert namespace.store_name(tmp_path) == name
        assert namespace.store_name(tmp_path) == name
        assert f"_{process.pid}_" in name


def test_store_names_are_unique(tmp_path: Path) -> None:
    homes = [tmp_path / str(number) for number in range(50)]
    for home in homes:
        home.mkdir()
    names = {namespace.store_name(home) for home in homes}
    assert len(names) == 50
    # All names are of one process, so they differ in the random part.
    assert len({name.rpartition("_")[2] for name in names}) == 50


def test_store_name_is_valid_on_every_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is valid as an unquoted schema, database or prefix, even for a process with the highest possible
    id."""
    monkeypatch.setattr(namespace, "_birth", lambda: 2**32 - 1)
    monkeypatch.setattr(os, "getpid", lambda: 2**22)
    assert re.fullmatch(r"[a-z][a-z0-9_]{1,39}", namespace.store_name(tmp_path))


def test_name_of_dead_process_is_abandoned(tmp_path: Path) -> None:
    mine = namespace.store_name(tmp_path)
    process, name = another(tmp_path / "other")
    with process:
        assert namespace.find_abandoned([mine, name]) == []
        process.kill()
        # A killed process counts as dead before its parent has waited for it, and afterwards.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert namespace.find_abandoned([mine, name]) == [name]
        process.wait()
        assert namespace.find_abandoned([name, mine]) == [name]


def test_only_complete_names_count_as_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, name = another(tmp_path / "other")
    process.communicate()
    word, machine, pid, birth, drawn = name.split("_")
    for no_name in (
        "",
        "dyno",
        "dyno_users",
        f"x{name}",
        f"{name}x",
        f"{name}\n",
        f"{name}:key",
        name.upper(),
        "_".join((word, machine, pid)),
        "_".join((word, machine, pid, birth, drawn, drawn)),
        "_".join((word, machine, "pid", birth, drawn)),
        "_".join((word, machine, 20 * "9", birth, drawn)),
        "_".join((word, machine[::-1], pid, birth, drawn)),
    ):
        assert namespace.find_abandoned([no_name]) == [], no_name
    # Names of version 0.1.0 have the digest of the host name, and no birth.
    first = "_".join((word, namespace._digest(node()), pid, drawn))
    assert namespace.find_abandoned([name, first]) == [name, first]
    monkeypatch.setattr(namespace, "node", lambda: "another-machine")
    assert namespace.find_abandoned([name, first]) == []


def test_name_of_reused_process_id_is_abandoned(tmp_path: Path) -> None:
    """Another process has the ID now. In a container, this is the usual case."""
    word, machine, pid, birth, drawn = namespace.store_name(tmp_path).split("_")
    earlier = "_".join((word, machine, pid, f"{int(birth, 16) - 100:08x}", drawn))
    assert namespace.find_abandoned([namespace.store_name(tmp_path), earlier]) == [earlier]


def test_store_of_another_machine_is_abandoned_when_old(tmp_path: Path) -> None:
    word, machine, pid, _, drawn = namespace.store_name(tmp_path).split("_")

    def others(age: int) -> str:
        return "_".join((word, machine[::-1], pid, f"{int(time.time()) - age:08x}", drawn))

    old = others(namespace.OTHERS_SECONDS + 60)
    assert namespace.find_abandoned([others(-60), others(0), others(namespace.OTHERS_SECONDS - 3_600), old]) == [old]


@pytest.mark.parametrize("file", ["/etc/machine-id", "/proc/self/ns/pid"])
def test_clones_and_containers_are_other_machines(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have the host name of this machine, and its process IDs mean nothing here."""
    own = namespace._machine()
    exists = Path(file).exists()
    monkeypatch.setattr(namespace, "Path", lambda path: Path("/nowhere") if path == file else Path(path))
    assert (namespace._machine() != own) == exists


@pytest.mark.parametrize("text", ["", "d", "dyno_01234567_1_012", "public", "%"])
def test_truncated_file_names_no_store(tmp_path: Path, text: str) -> None:
    """A kill or a full disk may cut the file short. VictoriaMetrics deleted all of the user's own series for an empty
    name."""
    (tmp_path / namespace.FILE).write_text(text)
    assert namespace.stores(tmp_path) == {}
    name = namespace.store_name(tmp_path)
    assert name.startswith(f"dyno_{namespace._machine()}_{os.getpid()}_")
    assert namespace.store_name(tmp_path) == name
    assert namespace.stores(tmp_path) == {name: tmp_path}
