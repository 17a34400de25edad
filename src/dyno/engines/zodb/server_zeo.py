"""ZEO: a server of its own with storages in its directory, reached by a socket there, that nobody else may enter.

A server of ZEO's serves the storages that its configuration names, and no others. So this one has some to give away,
each a FileStorage: the store in a home is the first that nobody has. Zope Foundation, ZEO documentation, "Running a
ZEO server".
"""

from __future__ import annotations

import socket as sockets
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from dyno.servers.process import Process, Served, directory, socket

SOCKET, CONFIGURATION = "zeo.sock", "zeo.conf"
STORAGES = 32
"""That there are: a trial has one, and some for the checks before it."""
INVALIDATION_QUEUE = 100
"""Transactions of which the server remembers what they changed, for clients that come back: its default. It reads so
many whole when it starts."""
NAME = "storage"
"""The file in a home that says which of them is its own."""
_STORAGE = """<filestorage {name}>
  path {file}
  blob-dir {blobs}
</filestorage>
"""


class ZEO(Served):
    """See `dyno.contracts.engine.Server`."""

    def __init__(self, home: Path, invalidation_queue: int = INVALIDATION_QUEUE) -> None:
        self._queue = invalidation_queue
        # The client finds it from any directory.
        self._home = home.absolute()
        self.address = self._home / SOCKET
        words = ["-m", "ZEO.runzeo", "-C", str(self._home / CONFIGURATION)]
        self._process = Process([sys.executable, *words], self._home, self._answers)

    def start(self) -> None:
        directory(self._home, None)
        socket(self.address)
        # Of one that was killed.
        self.address.unlink(missing_ok=True)
        (self._home / CONFIGURATION).write_text("".join(self._configured()))
        self._process.start()

    def _configured(self) -> Iterator[str]:
        # It writes the number of its process into /var otherwise, or where it is started.
        yield f"<zeo>\n  address {self.address}\n  pid-filename {self._home / 'zeo.pid'}\n"
        yield f"  invalidation-queue-size {self._queue}\n</zeo>\n"
        for number in range(STORAGES):
            self._of(number).mkdir(exist_ok=True)
            yield _STORAGE.format(name=number, file=self.file(str(number)), blobs=self.blobs(str(number)))

    def _of(self, number: int | str) -> Path:
        return self._home / f"{NAME}-{number}"

    def file(self, name: str) -> Path:
        return self._of(name) / "Data.fs"

    def blobs(self, name: str) -> Path:
        return self._of(name) / "blobs"

    def storage(self, home: Path) -> str:
        """The name of the storage that is the store in `home`, for good. Raises RuntimeError where all are taken."""
        told = home / NAME
        if not told.exists():
            for number in range(STORAGES):
                try:
                    (self._of(number) / "taken").touch(exist_ok=False)
                except FileExistsError:
                    continue
                told.write_text(str(number))
                break
            else:
                raise RuntimeError(f"all {STORAGES} storages of the server are taken")
        return told.read_text()

    def _answers(self) -> bool:
        # It greets who connects, with the version of its protocol.
        with closing(sockets.socket(sockets.AF_UNIX)) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.address))
                return bool(client.recv(1))
            except OSError:
                return False
