"""Tests the record of a server's process. A server that a killed run left behind is killed with all processes that it
started, and its shared memory is removed. A process that has its pid now is left alone, and so is shared memory that
another process still uses."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dyno.host.process import is_running
from dyno.servers import leftover_processes

pytestmark = pytest.mark.usefixtures("processes")

FAMILY = """
import subprocess, sys
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
sys.stdin.read()
"""
SEGMENT = """
import ctypes, sys
print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), flush=True)
sys.stdin.read()
"""
IPC_RMID = 0
Start = Callable[..., "tuple[subprocess.Popen[str], int]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program; returns the process and the number that it prints."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: str) -> tuple[subprocess.Popen[str], int]:
        words = [sys.executable, "-c", program, *arguments]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        out = started[-1].stdout
        assert out is not None
        return started[-1], int(out.readline())

    yield run
    for process in started:
        leftover_processes.kill(leftover_processes.family(process.pid))
        with process:
            pass


CHANGING = """
import os, sys
print(0, flush=True)
while True:
    for number in range(100):
        os.makedirs(f"{sys.argv[1]}/{number}/part")
    for number in range(100):
        os.rmdir(f"{sys.argv[1]}/{number}/part")
        os.rmdir(f"{sys.argv[1]}/{number}")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "run" / "trial" / "server"
    made.mkdir(parents=True)
    return made


def test_recorded_server_is_killed_with_its_children(home: Path, tmp_path: Path, start: Start) -> None:
    server, child = start(FAMILY)
    leftover_processes.record_process(home, server.pid)
    assert [process.pid for process in leftover_processes.find_recorded(tmp_path)] == [server.pid]
    leftover_processes.clear(tmp_path)
    assert server.wait(30) == -signal.SIGKILL
    assert not is_running(child)
    assert list(home.iterdir()) == []


def test_forgotten_server_is_left_running(home: Path, tmp_path: Path, start: Start) -> None:
    server, _ = start(FAMILY)
    leftover_processes.record_process(home, server.pid)
    leftover_processes.forget(home)
    leftover_processes.forget(home)
    assert leftover_processes.find_recorded(tmp_path) == []
    leftover_processes.clear(tmp_path)
    assert server.poll() is None


@pytest.mark.parametrize("later", [-100.0, 100.0])
def test_process_with_reused_pid_is_left_alone(home: Path, tmp_path: Path, start: Start, later: float) -> None:
    process, child = start(FAMILY)
    leftover_processes.record_process(home, process.pid)
    told = json.loads((home / leftover_processes.RECORD).read_text())
    (home / leftover_processes.RECORD).write_text(json.dumps({**told, "born": told["born"] + later}))
    assert leftover_processes.find_recorded(tmp_path) == []
    leftover_processes.clear(tmp_path)
    assert process.poll() is None and is_running(child)
    assert list(home.iterdir()) == [], "which is of no use any more"


def test_ended_server_is_not_recorded(home: Path, tmp_path: Path, start: Start) -> None:
    server, _ = start(FAMILY)
    leftover_processes.record_process(home, server.pid)
    leftover_processes.kill(leftover_processes.family(server.pid))
    server.wait()
    assert leftover_processes.find_recorded(tmp_path) == []
    # All these do nothing for a process that is gone.
    leftover_processes.kill(leftover_processes.family(server.pid))
    leftover_processes.clear(tmp_path)
    leftover_processes.record_process(home, server.pid)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"pid": "x", "born": 1}', '{"pid": 1}', '{"pid": null}'])
def test_invalid_records_are_skipped_and_removed(home: Path, tmp_path: Path, start: Start, text: str) -> None:
    """A run that was killed while it wrote the record may leave such text."""
    for name in ("a", "z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / leftover_processes.RECORD).write_text(text)
    server, _ = start(FAMILY)
    leftover_processes.record_process(home, server.pid)
    assert [process.pid for process in leftover_processes.find_recorded(tmp_path)] == [server.pid]
    leftover_processes.clear(tmp_path)
    assert server.wait(30) == -signal.SIGKILL
    assert list(tmp_path.rglob(leftover_processes.RECORD)) == []


def by_another_user(record: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a file to another user")
    os.chown(record, 65_534, 65_534)


def writable_by_others(record: Path) -> None:
    record.chmod(0o666)


def linked(record: Path) -> None:
    record.rename(record.with_name("elsewhere"))
    record.symlink_to("elsewhere")


def linked_hard(record: Path) -> None:
    record.with_name("elsewhere").hardlink_to(record)


@pytest.mark.parametrize("planted", [by_another_user, writable_by_others, linked, linked_hard])
def test_untrusted_record_kills_no_process(
    home: Path, tmp_path: Path, start: Start, planted: Callable[[Path], None]
) -> None:
    process, child = start(FAMILY)
    leftover_processes.record_process(home, process.pid)
    planted(home / leftover_processes.RECORD)
    assert leftover_processes.find_recorded(tmp_path) == []
    leftover_processes.clear(tmp_path)
    assert process.poll() is None and is_running(child)


def test_a_record_is_not_written_through_a_link(home: Path, tmp_path: Path, start: Start) -> None:
    """The server's user owns the directory, and could create such a link."""
    (tmp_path / "precious").write_text("precious")
    (home / leftover_processes.RECORD).symlink_to(tmp_path / "precious")
    server, _ = start(FAMILY)
    leftover_processes.record_process(home, server.pid)
    assert (tmp_path / "precious").read_text() == "precious"
    assert [process.pid for process in leftover_processes.find_recorded(tmp_path)] == [server.pid]


def test_zombie_process_counts_as_ended(start: Start) -> None:
    process, child = start(FAMILY)
    assert is_running(process.pid)
    leftover_processes.kill(leftover_processes.family(child))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.pid_exists(process.pid)
    assert not is_running(process.pid)
    process.wait()
    assert not is_running(process.pid)


# -- shared memory ----------------------------------------------------------------------------------------------


def there(segment: int) -> bool:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return str(segment) in {line.split()[1] for line in lines}


@pytest.fixture
def system_v(start: Start) -> Iterator[Start]:
    """Starts a process that makes a segment of shared memory. Segments that are left are removed after the test."""
    if not Path("/proc/sysvipc/shm").exists():
        pytest.skip("this kernel does not tell of shared memory")
    made: list[int] = []

    def run(program: str = SEGMENT) -> tuple[subprocess.Popen[str], int]:
        process, segment = start(program)
        assert segment >= 0 and there(segment)
        made.append(segment)
        return process, segment

    yield run
    for segment in made:
        ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)


@pytest.mark.parametrize("gone", [False, True], ids=["running", "gone"])
def test_shared_memory_of_leftover_server_is_removed(home: Path, tmp_path: Path, system_v: Start, gone: bool) -> None:
    """Shared memory outlives SIGKILL, so it must be removed. The segment of another process stays."""
    server, segment = system_v()
    _, others = system_v()
    leftover_processes.record_process(home, server.pid)
    if gone:
        server.kill()
        server.wait()
        assert there(segment)
    leftover_processes.clear(tmp_path)
    assert not there(segment)
    assert there(others)


def test_shared_memory_in_use_is_kept(home: Path, tmp_path: Path, system_v: Start) -> None:
    library = ctypes.CDLL(None)
    library.shmat.restype = ctypes.c_void_p
    server, segment = system_v()
    address = library.shmat(segment, None, 0)
    leftover_processes.record_process(home, server.pid)
    leftover_processes.clear(tmp_path)
    assert server.wait(30) == -signal.SIGKILL
    # If the segment were marked as removed, it would be gone after its last user detaches.
    library.shmdt(ctypes.c_void_p(address))
    assert there(segment)


def test_record_is_found_while_directory_changes(start: Start, home: Path) -> None:
    """An embedded engine changes its directory until it is killed, for example because it merges files."""
    server, _ = start(FAMILY)
    leftover_processes.record_process(home, server.pid)
    start(CHANGING, str(home.parent))
    for _ in range(300):
        assert [found.pid for found in leftover_processes.find_recorded(home.parent)] == [server.pid]
    leftover_processes.clear(home.parent)
    assert server.wait() == -signal.SIGKILL
