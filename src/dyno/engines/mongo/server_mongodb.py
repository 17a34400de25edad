"""A MongoDB server that Dyno starts: a mongod that listens on a socket in its directory, which no other user may
enter.

The server is the only member of a replica set, because transactions need a replica set. The client requests the tier
with each write. Settings that this module doesn't set have their defaults. Source: MongoDB Inc., MongoDB Manual,
"mongod" and "mongod Parameters".
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dyno.contracts.model import Refused
from dyno.engines.mongo.store import connect
from dyno.servers import program_option
from dyno.servers.process import READY_SECONDS, Process, accepts, directory, socket

PROGRAM = program_option.ServerProgram(
    *("MongoDB server", r"db version v(\d[\d.]*)"),
    least="5.0",
    names=("mongod",),
    install="install MongoDB Community Edition from its vendor's packages",
)
SET = "dyno"
PARAMETERS = {
    # A transaction may take as long as its phase. The default is 60 s.
    "transactionLifetimeLimitSeconds": 86_400,
    # By default, shutdown waits 15 s for another member to take over.
    "shutdownTimeoutMillisForSignaledShutdown": 0,
}


class MongoDB(Process):
    """See `dyno.contracts.engine.Server`. `path` is the user's program."""

    def __init__(self, home: Path, cache_mib: int, path: str = "") -> None:
        self.data = home / "data"
        # Use mongod's default name for this port. Otherwise it would create a second socket elsewhere.
        self.path = socket(home / "mongodb-27017.sock")
        # Connect directly: the client need not look for other members of the replica set.
        self.address = f"mongodb://{quote(str(self.path), safe='')}/?directConnection=true"
        words = [word for name, value in PARAMETERS.items() for word in ("--setParameter", f"{name}={value}")]
        # Give each database its own directory, so that its files can be counted.
        words += ["--dbpath", str(self.data), "--directoryperdb", "--replSet", SET, "--bind_ip", str(self.path)]
        words += ["--unixSocketPrefix", str(home), "--wiredTigerCacheSizeGB", str(cache_mib / 1024)]
        super().__init__([PROGRAM.executable(path), *words], home, lambda: accepts(self.path))

    def start(self) -> None:
        directory(self.home)
        new = not self.data.exists()
        self.data.mkdir(exist_ok=True)
        self.path.unlink(missing_ok=True)
        super().start()
        try:
            with closing(connect(self)) as client:
                if new:
                    member = {"_id": 0, "host": str(self.path)}
                    client.admin.command("replSetInitiate", {"_id": SET, "members": [member]})
                _await_primary(client)
        except BaseException:
            self.kill()
            raise


def _await_primary(client: Any) -> None:
    """Waits until the server has elected itself primary. Before that it refuses writes."""
    deadline = time.monotonic() + READY_SECONDS
    while not client.admin.command("hello").get("isWritablePrimary"):
        if time.monotonic() > deadline:
            raise Refused(f"mongod did not become the primary of its replica set in {READY_SECONDS:g} s")
        time.sleep(0.01)
