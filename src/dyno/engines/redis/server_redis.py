"""A Redis or Valkey server that Dyno starts. It listens on a socket in its directory, which no other user may enter.

This module sets what all tiers share. A tier adds its settings, and all others have the server's defaults. The server
reads no configuration file. Source: Redis Ltd., Redis documentation, "Redis configuration file example".
"""

import socket as sockets
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dyno.servers.process import Process, directory, socket
from dyno.servers.program_option import ServerProgram

LEAST = "7"
"""The first version whose log is a directory of files."""
SETTINGS = {
    # Don't listen on the network.
    "port": "0",
    "unixsocketperm": "700",
    # Don't make snapshots, which would fall into random phases.
    "save": "",
    # The server rewrites its log at this size. Redis's default is 64 MiB, but all of Dyno's servers may have logs of
    # 1 GiB.
    "auto-aof-rewrite-min-size": "1gb",
    # Raise the limit of this buffer from 1 GiB: Valkey counts a transaction that waits for EXEC as part of it.
    "client-query-buffer-limit": "64gb",
}
OURS = ("port", "unixsocket", "unixsocketperm", "save", "dir", "appenddirname", "appendfilename", "daemonize")
"""Settings that users may not change."""


class Redis(Process):
    """See `dyno.contracts.engine.Server`. `settings` become command-line options, with their names in redis.conf;
    `path` is the user's program."""

    def __init__(self, program: ServerProgram, home: Path, settings: Mapping[str, str], path: str = "") -> None:
        self.address = home / "redis.sock"
        self.log = home / "appendonlydir"
        """The directory of the append-only files."""
        settings = {**SETTINGS, "unixsocket": self.address.name, **settings}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        super().__init__([program.executable(path), *words], home, self._answers)

    def start(self) -> None:
        directory(self.home)
        socket(self.address)
        super().start()

    def _answers(self) -> bool:
        # While the server loads its log, it answers with an error.
        with closing(sockets.socket(sockets.AF_UNIX)) as client:
            try:
                client.connect(str(self.address))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False
