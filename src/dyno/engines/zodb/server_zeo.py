"""A ZEO server that Dyno starts. It has storages in its directory and listens on a socket there, which no other user
may enter.

A server serves only the storages in its configuration. So it has several, each of them a FileStorage, and a store
takes the first free one. Source: Zope Foundation, ZEO documentation, "Running a ZEO server".
"""

import sys
from pathlib import Path
from typing import Any

from dyno.servers.process import Process, accepts, directory, socket

SOCKET, CONFIGURATION = "zeo.sock", "zeo.conf"
STORAGES = 32
"""Number of storages. A trial needs one, and the checks before it need some."""
INVALIDATION_QUEUE = 100
"""Number of transactions whose changes the server remembers for clients that reconnect: the default. The server reads
these transactions when it starts."""
NAME = "storage"
"""Name of the file in a store's home that contains the name of its storage."""
_STORAGE = """<filestorage {name}>
  path {file}
  blob-dir {blobs}
</filestorage>
"""


class ZEO(Process):
    """See `dyno.contracts.engine.Server`."""

    def __init__(self, home: Path, invalidation_queue: int = INVALIDATION_QUEUE) -> None:
        # Clients run in other directories, so the path has to be absolute.
        home = home.absolute()
        self._queue, self.address = invalidation_queue, home / SOCKET
        words = ["-m", "ZEO.runzeo", "-C", str(home / CONFIGURATION)]
        super().__init__([sys.executable, *words], home, lambda: accepts(self.address, greeted=True))

    def start(self) -> None:
        directory(self.home)
        socket(self.address)
        # Remove the socket of a killed server.
        self.address.unlink(missing_ok=True)
        # By default the server writes its process ID below /var.
        configuration = f"<zeo>\n  address {self.address}\n  pid-filename {self.home / 'zeo.pid'}\n"
        configuration += f"  invalidation-queue-size {self._queue}\n</zeo>\n"
        for number in range(STORAGES):
            self._directory(number).mkdir(exist_ok=True)
            configuration += _STORAGE.format(name=number, file=self.file(str(number)), blobs=self.blobs(str(number)))
        (self.home / CONFIGURATION).write_text(configuration)
        super().start()

    def _directory(self, number: int | str) -> Path:
        return self.home / f"{NAME}-{number}"

    def file(self, name: str) -> Path:
        return self._directory(name) / "Data.fs"

    def blobs(self, name: str) -> Path:
        return self._directory(name) / "blobs"

    def storage(self, home: Path) -> str:
        """Returns the name of the storage for the store in `home`. Raises RuntimeError if all storages are taken."""
        file = home / NAME
        if not file.exists():
            for number in range(STORAGES):
                try:
                    (self._directory(number) / "taken").touch(exist_ok=False)
                except FileExistsError:
                    continue
                file.write_text(str(number))
                break
            else:
                raise RuntimeError(f"all {STORAGES} storages of the server are taken")
        return file.read_text()


def open_storage(server: ZEO, home: Path, cache_mib: int) -> Any:
    """Opens the storage of the store in `home` on a running server. Each client has its own cache."""
    import tempfile

    from ZEO import ClientStorage

    name = server.storage(home)
    # The cache is a temporary file, which is deleted with its client. It has to be in `home`, because /tmp may be
    # memory.
    former, tempfile.tempdir = tempfile.tempdir, str(home)
    try:
        return ClientStorage.ClientStorage(
            str(server.address),
            storage=name,
            cache_size=cache_mib << 20,
            # After this many seconds without a connection, an operation fails. 30 s is the default.
            wait_timeout=30,
            # Use the server's own blob directory, because client and server are on this machine.
            blob_dir=str(server.blobs(name)),
            shared_blob_dir=True,
        )
    finally:
        tempfile.tempdir = former
