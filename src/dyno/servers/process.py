"""The process of a server, which has its own directory and ends together with the process that started it; and a
cluster of several such servers."""

import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from pwd import getpwnam, struct_passwd
from typing import Generic, TypedDict, TypeVar

from dyno.contracts.engine import Nodes, Server
from dyno.contracts.model import Caveat, Refused, Unavailable
from dyno.host.process import die_with_parent

READY_SECONDS, STOP_SECONDS = 60.0, 60.0
POLL_SECONDS = 0.005
LONGEST_SOCKET = 107
"""Maximum number of bytes in the path of a Unix socket: sun_path of unix(7), less the NUL."""
OUTPUT = "server.log"


class Process:
    """A server that is one program: a complete `dyno.contracts.engine.Server`, or the base class of one.

    `ready` returns whether the server answers. `user` is the user that it runs as; None for this process's user.
    `ending` is the signal that shuts it down. `orphaned` is the signal that it gets when its parent dies.
    `environment` has variables in addition to this process's. `timeout` is in seconds, until it answers. `unix` is
    the path of its Unix socket, if it has one.
    """

    own = True
    left_out: tuple[str, ...] = ()
    """Names of Dyno's own settings that this version of the program doesn't have."""

    def __init__(
        self,
        command: Sequence[str],
        home: Path,
        ready: Callable[[], bool],
        user: struct_passwd | None = None,
        ending: signal.Signals = signal.SIGTERM,
        orphaned: signal.Signals = signal.SIGKILL,
        environment: Mapping[str, str] | None = None,
        timeout: float = READY_SECONDS,
        unix: Path | None = None,
    ) -> None:
        self.command, self.home, self.user = list(command), home, user
        self._environment = {**os.environ, **environment} if environment else None
        self._ready, self._ending, self._orphaned, self._timeout = ready, ending, orphaned, timeout
        self._unix = unix
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def program(self) -> str:
        return Path(self.command[0]).name

    def prepare(self) -> None:
        """Writes what the server needs into its directory, before each start. By default, it needs nothing."""

    def start(self) -> None:
        """Starts the server; returns when it answers. If it doesn't, raises Refused with its last message."""
        from dyno.servers import leftover_processes

        directory(self.home, self.user)
        if self._unix is not None:
            # A killed server leaves its socket, on which a new one may not be able to listen.
            socket(self._unix).unlink(missing_ok=True)
        self.prepare()
        parent = os.getpid()
        # Open the file in this process, because the server's user may not be able to create it.
        with (self.home / OUTPUT).open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    self.command,
                    cwd=self.home,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    # This runs after the change of user, which would reset it.
                    preexec_fn=lambda: die_with_parent(parent, self._orphaned),
                    **as_user(self.user),
                )
            except OSError as error:
                raise Refused(f"{self.program} can't be started: {error}") from None
        leftover_processes.record_process(self.home, self._process.pid)
        deadline = time.monotonic() + self._timeout
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                ended = self._process.poll() is not None
                self.kill()
                if ended:
                    raise Refused(f"{self.program} ended: {self._last_message()}")
                late = f"did not answer in {self._timeout:g} s"
                raise Unavailable(f"{self.program} {late}: {self._last_message()}")
            time.sleep(POLL_SECONDS)

    def stop(self, by: signal.Signals | None = None) -> None:
        """Sends the signal `by`, or the server's ending signal, and waits. Kills the server if it takes too long."""
        if self._process is None:
            return
        from dyno.servers import leftover_processes

        # Collect the descendants before the signal: those that outlive the server get another parent.
        family = leftover_processes.family(self._process.pid)
        self._process.send_signal(by or self._ending)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        leftover_processes.kill(family)
        self.kill()

    def kill(self) -> None:
        """Sends SIGKILL to the server and all its descendants; returns when they are gone."""
        # Import here: this module imports psutil, which `dyno list` doesn't need.
        from dyno.servers import leftover_processes

        if self._process is not None:
            leftover_processes.kill(leftover_processes.family(self._process.pid))
            self._process.wait()
            leftover_processes.forget(self.home)
            self._process = None

    def close(self) -> None:
        self.kill()

    def pids(self) -> Iterable[int]:
        if self._process is None:
            return ()
        return (self._process.pid,)

    def _last_message(self) -> str:
        """Returns the last line of the server's output that reports an error; if there is none, the last line."""
        text = (self.home / OUTPUT).read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # MariaDB's and MySQL's last error says only that the server aborts.
        errors = [
            at
            for at, line in enumerate(lines)
            if re.search(r"\b(FATAL|PANIC|ERROR)\b", line, re.IGNORECASE) and not line.endswith("Aborting")
        ]
        if not errors:
            return (lines or ["it said nothing"])[-1]
        # Servers in Java print the exception on the next line.
        line, *after = lines[errors[-1] : errors[-1] + 2]
        return " ".join([line, *(why for why in after if re.match(r"[\w.$]+(Exception|Error)\b", why))])


def unprivileged(*names: str) -> struct_passwd | None:
    """Returns the first of these users that exists, or nobody, if this process is root's; None otherwise."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        with suppress(KeyError):
            return getpwnam(name)
    raise Refused(f"root may not run it, and there is no user {names[0]} or nobody to run it as")


class UserArguments(TypedDict, total=False):
    """Arguments of `subprocess`, as `as_user` returns them."""

    user: int
    group: int
    extra_groups: list[str | int]


def as_user(user: struct_passwd | None) -> UserArguments:
    """Returns the arguments with which `subprocess` starts a program as that user."""
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def directory(home: Path, user: struct_passwd | None = None) -> Path:
    """Creates `home` for the user alone. Raises Refused if the user may not enter a directory above it."""
    home.mkdir(parents=True, exist_ok=True)
    if user is not None:
        shutil.chown(home, user.pw_uid, user.pw_gid)
        if closed := first_closed(home, user):
            raise Refused(
                f"it runs as user {user.pw_name}, who may not enter {closed}; name another work directory,"
                " such as --work /var/tmp/dyno"
            )
    home.chmod(0o700)
    return home


def first_closed(path: Path, user: struct_passwd) -> Path | None:
    """Returns the first directory above `path`, or above what it links to, that the user may not enter; else None."""
    for place in dict.fromkeys([*path.absolute().parents, *path.resolve().parents]):
        status = place.stat()
        if status.st_gid == user.pw_gid:
            others_right = stat.S_IXGRP
        else:
            others_right = stat.S_IXOTH
        if not status.st_mode & (stat.S_IXUSR if status.st_uid == user.pw_uid else others_right):
            return place
    return None


def socket(path: Path) -> Path:
    """Returns `path`, which is for a Unix socket. Raises Refused if it is longer than the kernel allows."""
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise Refused(
            f"the path of its socket is {len(os.fsencode(path))} bytes long, and {LONGEST_SOCKET} is the most: name a"
            " shorter work directory with --work"
        )
    return path


def accepts(path: Path, greeted: bool = False) -> bool:
    """Returns whether a server accepts connections at this Unix socket, and greets the client if `greeted`."""
    from socket import AF_UNIX, SOCK_STREAM
    from socket import socket as Socket

    with suppress(OSError), Socket(AF_UNIX, SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(str(path))
        return not greeted or bool(client.recv(1))
    return False


def program(*names: str, places: Iterable[Path] = ()) -> str | None:
    """Returns the path of the first of these programs on the PATH, in /usr/sbin or in `places`; None if none is."""
    # /usr/sbin is not on every user's PATH.
    searched = os.pathsep.join(
        [os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", *map(str, places)]
    )
    return next((path for name in names if (path := shutil.which(name, path=searched))), None)


Node = TypeVar("Node", bound=Server)
KEEPS = Caveat("node", "keeps what it acknowledged when one of its nodes dies for good, at any tier")
"""Caveat of a cluster whose `dyno.contracts.engine.Nodes.survives` is true."""


class Cluster(Nodes, Generic[Node]):
    """See `dyno.contracts.engine.Nodes`. The next node is started when the one before answers."""

    own = True

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.left_out: tuple[str, ...] = getattr(self.nodes[0], "left_out", ())

    def start(self) -> None:
        """Starts the nodes that don't run. If a node doesn't start, kills all nodes and raises Refused."""
        try:
            # Start nodes in this thread, because the kernel kills a process when the thread that started it ends.
            for node in self.starting_order():
                if not list(node.pids()):
                    node.start()
        except BaseException:
            self.kill()
            raise

    def starting_order(self) -> Sequence[Node]:
        """Returns the nodes in the order in which they are started."""
        return self.nodes

    def stop(self) -> None:
        self._call_all(lambda node: node.stop())

    def kill(self) -> None:
        self._call_all(lambda node: node.kill())

    def close(self) -> None:
        self._call_all(lambda node: node.close())

    def _call_all(self, action: Callable[[Node], object], nodes: Sequence[Node] | None = None) -> None:
        """Calls `action` for all nodes at the same time, because each takes a while to end."""
        # Import here: this module imports logging, which `dyno list` doesn't need.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(action, self.nodes if nodes is None else nodes))

    def pids(self) -> Iterable[int]:
        return chain.from_iterable(node.pids() for node in self.nodes)

    @property
    def count(self) -> int:
        return len(self.nodes)

    def lose(self, number: int) -> None:
        self.nodes[number].kill()
