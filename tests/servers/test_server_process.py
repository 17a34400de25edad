"""Tests how a server's program is started and ended. It ends by the requested signal together with all processes that
it started, and when its parent ends. A server that can't start is reported in one line.

The program is a small real one, which writes to its directory how it ended.
"""

from __future__ import annotations

import os
import signal
import socket as sockets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from pwd import getpwnam

import psutil
import pytest
from shell import wait_for

from dyno.contracts.model import Refused
from dyno.host.process import is_running
from dyno.servers import leftover_processes
from dyno.servers import process as module
from dyno.servers.process import OUTPUT, Process, as_user, directory, program, socket, unprivileged

pytestmark = pytest.mark.usefixtures("processes")

# On a signal, records its name, kills a child that has its own session, and exits. Writes the child's pid to `ready`.
PROGRAM = """
import os, signal, subprocess, sys
from pathlib import Path
def end(number, frame):
    Path(signal.Signals(number).name).touch()
    child.kill()
    sys.exit()
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, end)
print("hello", sys.stdin.read() == "", os.getuid(), flush=True)
Path("coming").write_text(str(child.pid))
Path("coming").rename("ready")
while True:
    signal.pause()
"""
STUBBORN = """
import signal
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path("ready").touch()
signal.pause()
"""
# Program for a user who may have no access to this Python. It writes its user, its group and its other groups.
SHELL = "id -u > told; id -g >> told; id -G >> told; sleep 600 & echo $! > coming; mv coming ready; wait"
# Program that starts a server in a directory, as a run does, and prints the server's pid.
PARENT = """
import signal, sys
from pathlib import Path
from dyno.servers.process import Process
home, command, orphaned = Path(sys.argv[1]), sys.argv[3:], signal.Signals(int(sys.argv[2]))
server = Process(command, home, (home / "ready").exists, orphaned=orphaned)
server.start()
print(*server.pids(), flush=True)
signal.pause()
"""
Serve = Callable[..., Process]


@pytest.fixture
def home(place: Path) -> Path:
    made = place / "server"
    made.mkdir()
    return made


@pytest.fixture
def serve(home: Path) -> Iterator[Serve]:
    """Creates processes that are ready when their program has written `ready`. They are closed at the end of the
    test."""
    made: list[Process] = []

    def run(program: str = PROGRAM, **how: object) -> Process:
        command = [sys.executable, "-c", program]
        made.append(Process(command, home, (home / "ready").exists, **how))  # type: ignore[arg-type]
        return made[-1]

    yield run
    for process in made:
        process.close()


def files(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def test_server_runs_in_its_directory_and_is_recorded(home: Path, serve: Serve) -> None:
    server = serve()
    assert list(server.pids()) == []
    server.start()
    (pid,) = server.pids()
    assert psutil.Process(pid).cwd() == str(home)
    assert os.getsid(pid) == pid != os.getsid(0)
    assert [process.pid for process in leftover_processes.find_recorded(home)] == [pid]
    assert (home / OUTPUT).read_text() == f"hello True {os.getuid()}\n"
    server.kill()
    assert files(home) == {"ready", OUTPUT}


def test_server_stops_by_signal_or_kill_and_restarts(home: Path, serve: Serve) -> None:
    server = serve(ending=signal.SIGINT)
    for end, noted in (
        (server.stop, {"SIGINT"}),
        (lambda: server.stop(signal.SIGQUIT), {"SIGQUIT"}),
        (server.kill, set()),
        (server.close, set()),
    ):
        server.start()
        (pid,), child = server.pids(), int((home / "ready").read_text())
        end()
        assert files(home) == {"ready", OUTPUT, *noted}
        assert not psutil.pid_exists(pid) and not is_running(child)
        assert list(server.pids()) == []
        for name in ("ready", *noted):
            (home / name).unlink()
    # If no server runs, ending it has no effect.
    for end in (server.stop, server.kill, server.close):
        end()


def test_a_server_that_does_not_stop_is_killed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    server = serve(STUBBORN)
    server.start()
    (pid,) = server.pids()
    server.stop()
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("import sys; print('first'); sys.exit('no such setting \\n\\n')", "ended: no such setting"),
        ("", "ended: it said nothing"),
        (
            "print('ERROR at startup\\nan.OddException: no peers\\n at A.java')",
            "ended: ERROR at startup an.OddException: no peers",
        ),
        ("print('ERROR at startup\\nit goes on')", "ended: ERROR at startup"),
        ("import os; os.write(1, b'\\xff bad\\n')", "ended: \ufffd bad"),
    ],
)
def test_early_exit_is_refused_with_last_output(home: Path, serve: Serve, does: str, words: str) -> None:
    server = serve(does)
    with pytest.raises(Refused) as refused:
        server.start()
    assert str(refused.value) == f"{Path(sys.executable).name} {words}"
    assert list(server.pids()) == []
    assert leftover_processes.RECORD not in files(home)


def test_program_that_fails_to_start_is_refused(home: Path) -> None:
    (home / "program").write_text("not executable")
    server = Process([str(home / "program")], home, lambda: False)
    with pytest.raises(Refused, match=r"program can't be started: .*Permission denied"):
        server.start()
    assert list(server.pids()) == []
    server.close()


def test_unresponsive_program_is_refused_and_ended(home: Path, serve: Serve) -> None:
    seen: list[int] = []

    def never() -> bool:
        seen.extend(process.pid for process in leftover_processes.find_recorded(home) if process.pid not in seen)
        return False

    server = Process([sys.executable, "-c", PROGRAM], home, never, timeout=0.1)
    with closing(server), pytest.raises(Refused, match=r"did not answer in 0\.1 s"):
        server.start()
    (pid,) = seen
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux alone does it")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGQUIT])
def test_server_ends_when_its_parent_is_killed(home: Path, by: signal.Signals) -> None:
    """The server ends even if its parent was killed, by the signal that the server requested."""
    words = [sys.executable, "-c", PARENT, str(home), str(int(by)), sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    try:
        assert wait_for(lambda: not is_running(pid), seconds=10)
        assert ("SIGQUIT" in files(home)) == (by is signal.SIGQUIT)
    finally:
        # A killed server could not end its child.
        leftover_processes.kill(leftover_processes.family(pid))
        leftover_processes.kill(leftover_processes.family(int((home / "ready").read_text())))


def test_program_is_found_on_path_or_given_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("path/one", "place/one", "place/two", "place/not-executable"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o644 if name.endswith("not-executable") else 0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    places = [tmp_path / "place"]
    assert program("one", places=places) == str(tmp_path / "path" / "one")
    assert program("absent", "two", "one", places=places) == str(tmp_path / "place" / "two")
    assert program("two") is None
    assert program("not-executable", places=places) is None


def test_socket_path_beyond_kernel_limit_is_refused(tmp_path: Path) -> None:
    long = Path("/tmp") / ("x" * (107 - len("/tmp/")))
    assert socket(long) == long
    for path in (Path(f"{long}x"), Path("/tmp") / ("é" * 55)):
        with pytest.raises(Refused, match=rf"{len(os.fsencode(path))} .*107 is the most.*--work"):
            socket(path)
        with sockets.socket(sockets.AF_UNIX) as one, pytest.raises(OSError, match="too long"):
            one.bind(str(path))


# -- as another user --------------------------------------------------------------------------------------------

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start something as another user")


@pytest.mark.skipif(os.geteuid() == 0, reason="this is root")
def test_server_runs_as_current_user_without_root() -> None:
    assert unprivileged("nobody") is None
    assert as_user(None) == {}


@as_root
def test_root_uses_first_existing_unprivileged_user() -> None:
    assert unprivileged("no-such-user", "daemon", "nobody") == getpwnam("daemon")
    assert unprivileged("no-such-user") == getpwnam("nobody")


@as_root
def test_server_has_only_uid_and_groups_of_user(home: Path) -> None:
    user = getpwnam("daemon")
    directory(home, user)
    server = Process(["sh", "-c", SHELL], home, (home / "ready").exists, user)
    with closing(server):
        server.start()
        child = int((home / "ready").read_text())
        assert set(psutil.Process(child).uids()) == {user.pw_uid}
        assert (home / "told").read_text().split() == [str(user.pw_uid), str(user.pw_gid), str(user.pw_gid)]
    assert not is_running(child)


@as_root
@pytest.mark.parametrize(
    ("group", "mode", "enters"),
    [
        ("root", 0o700, False),
        ("root", 0o710, False),
        ("root", 0o711, True),
        ("daemon", 0o710, True),
        # A member of the group has the rights of the group, not those of others.
        ("daemon", 0o701, False),
        ("root", 0o766, False),
    ],
)
def test_users_directory_is_private_or_refused_if_unreachable(
    place: Path, group: str, mode: int, enters: bool
) -> None:
    user, above = getpwnam("daemon"), place / "above"
    above.mkdir()
    os.chown(above, 0, getpwnam(group).pw_gid)
    above.chmod(mode)
    wanted = above / "deep" / "home"
    (above / "inside").mkdir()
    # The kernel agrees about who may enter.
    assert subprocess.run(["test", "-d", str(above / "inside")], **as_user(user)).returncode == (0 if enters else 1)
    if not enters:
        with pytest.raises(Refused, match=rf"user daemon, who may not enter {above}; .*--work"):
            directory(wanted, user)
        return
    assert directory(wanted, user) == wanted
    found = wanted.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (user.pw_uid, user.pw_gid, 0o700)


def test_directory_is_private_without_another_user(place: Path) -> None:
    made = directory(place / "deep" / "home", None)
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.stat().st_uid == os.geteuid()


# Program that writes the values of two variables.
VARIABLES = """
import os, signal
from pathlib import Path
Path("coming").write_text(os.environ["DYNO_HERE"] + os.environ["DYNO_ITS"])
Path("coming").rename("ready")
signal.pause()
"""


def test_server_environment_adds_to_current_environment(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNO_HERE", "here and ")
    serve(VARIABLES, environment={"DYNO_ITS": "its"}).start()
    assert (home / "ready").read_text() == "here and its"
    assert "DYNO_ITS" not in os.environ
