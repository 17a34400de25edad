"""The servers Redis and Valkey: one of Dyno's own, reached by a socket in its directory that no other user may enter.

This module sets what all tiers share; a tier adds its settings, and everything else is the server's default. No
configuration file is read. Redis Ltd., Redis documentation, "Redis configuration file example".
"""

from __future__ import annotations

import socket as sockets
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dyno.servers.process import Process, directory, socket
from dyno.servers.program_option import ServerProgram

LEAST = "7"
"""The first version whose log is a directory of files."""
SETTINGS = {
    # No network.
    "port": "0",
    "unixsocketperm": "700",
    # No snapshots, which would fall into random phases.
    "save": "",
    # Size of the log at which it is rewritten. The default is 64 MiB; all servers' logs may have 1 GiB here.
    "auto-aof-rewrite-min-size": "1gb",
    # Valkey counts a transaction, which waits until EXEC, as a part of this buffer; the default is 1 GiB.
    "client-query-buffer-limit": "64gb",
}
OURS = ("port", "unixsocket", "unixsocketperm", "save", "dir", "appenddirname", "appendfilename", "daemonize")
"""Settings that users may not change."""


class Redis(Process):
    """See `dyno.contracts.engine.Server`. `settings` are those of redis.conf; `path` is the user's program."""

    def __init__(self, program: ServerProgram, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.address = home / "redis.sock"
        self.log = home / "appendonlydir"
        """The directory of its append-only files."""
        settings = {**SETTINGS, "unixsocket": self.address.name, **settings}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        super().__init__([program.executable(path), *words], home, self._answers)

    def start(self) -> None:
        directory(self.home)
        socket(self.address)
        super().start()

    def _answers(self) -> bool:
        # While it loads its log, it answers with an error.
        with closing(sockets.socket(sockets.AF_UNIX)) as client:
            try:
                client.connect(str(self.address))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False
