"""MongoDB: a mongod of its own, reached by a socket in its directory, that nobody else may enter.

It is the only member of a replica set, for transactions need one. What a tier changes is said by the client with each
write; what an option changes is given, and the rest is the server's default, but for how long a transaction may last
and how long it waits before it stops. MongoDB Inc., MongoDB Manual, "mongod" and "mongod Parameters".
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Socket
from typing import Any

from dyno.contracts.model import Refused
from dyno.engines.mongo import server_mongo
from dyno.servers import program_option, user_server
from dyno.servers.process import READY_SECONDS, Process, Served, directory, program, socket

INSTALL = "install MongoDB Community Edition from its vendor's packages"
KIND = program_option.Kind("MongoDB server", r"db version v(\d[\d.]*)", least="5.0")
SET = "dyno"
PARAMETERS = {
    # A transaction of this suite may be as long as its phase. The default is 60 s.
    "transactionLifetimeLimitSeconds": 86_400,
    # There is no other member that could take over. The default is 15 s.
    "shutdownTimeoutMillisForSignaledShutdown": 0,
}


def missing(path: str = "") -> str | None:
    """What is not here, and what to do; None where all is. `path`: of a program of the user's choice."""
    if path:
        return KIND.wrong(path)
    return None if program("mongod") else user_server.lacking("mongod", INSTALL)


class MongoDB(Served):
    """See `dyno.contracts.engine.Server`. `path` is that of another program."""

    def __init__(self, home: Path, cache_mib: int, path: str = "") -> None:
        found = path or program("mongod")
        if found is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home, self.data = home, home / "data"
        # The name that it gives to its socket for this port, so that it makes no second one elsewhere.
        self.path = socket(home / "mongodb-27017.sock")
        parameters = [word for name, value in PARAMETERS.items() for word in ("--setParameter", f"{name}={value}")]
        self._process = Process(
            [
                found,
                "--dbpath",
                str(self.data),
                # A database's files are told from others' by their directory.
                "--directoryperdb",
                "--replSet",
                SET,
                "--bind_ip",
                str(self.path),
                "--unixSocketPrefix",
                str(home),
                "--wiredTigerCacheSizeGB",
                str(cache_mib / 1024),
                *parameters,
            ],
            home,
            self._answers,
        )

    @property
    def address(self) -> str:
        """How its client library reaches it."""
        return server_mongo.socket_address(self.path)

    def start(self) -> None:
        directory(self._home, None)
        new = not self.data.exists()
        self.data.mkdir(exist_ok=True)
        self.path.unlink(missing_ok=True)
        self._process.start()
        try:
            with closing(server_mongo.connect(self)) as client:
                if new:
                    member = {"_id": 0, "host": str(self.path)}
                    client.admin.command("replSetInitiate", {"_id": SET, "members": [member]})
                _await_primary(client)
        except BaseException:
            self.kill()
            raise

    def _answers(self) -> bool:
        with suppress(OSError), closing(Socket(AF_UNIX)) as probe:
            probe.connect(str(self.path))
            return True
        return False


def _await_primary(client: Any) -> None:
    """Until it has elected itself: before that it takes no write."""
    deadline = time.monotonic() + READY_SECONDS
    while not client.admin.command("hello").get("isWritablePrimary"):
        if time.monotonic() > deadline:
            raise Refused(f"mongod did not become the primary of its replica set in {READY_SECONDS:g} s")
        time.sleep(0.01)
