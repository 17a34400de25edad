"""Common parts of ZODB's engines: a database on a storage, the port `objects` on it, and the ZEO server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.engine import Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers.process import Process, accepts

if TYPE_CHECKING:
    from ZEO.ClientStorage import ClientStorage
    from ZODB.interfaces import IStorage

REQUIRES = ("ZODB>=6",)
CONNECTIONS = 1_000
"""Number of connections that a database may open before it warns. Each client has two."""
NOT_DATA = (".lock", ".tmp", ".old")
"""Suffixes of files that ZODB keeps beside its current data."""

SHARING = Setting(
    "sharing", choice("processes", "threads"), "processes", "clients: processes, or threads that share one database"
)
"""Option of engines whose clients can be either processes or threads."""


def get_sharing(options: Mapping[str, Value]) -> str:
    """See `dyno.contracts.engine.EngineSpec.sharing`."""
    return str(options[SHARING.name])


APPENDED = Maintenance(
    "every commit is added at the end of its file; a pack, which writes it anew, is its administrator's to begin"
)
PACK = Maintenance("pack", lambda engine: engine.database.pack(), every=30)
"""A pack discards old states of objects: it writes a new file, which replaces the old one."""


class Database(Engine):
    """A ZODB database on a storage, which is closed with it; base of the engines."""

    distributions: ClassVar[tuple[str, ...]] = ()
    """Names of distributions besides ZODB whose versions are reported."""

    def __init__(self, storage: IStorage) -> None:
        import ZODB

        with undo_on_error(storage.close):
            self.database = ZODB.DB(storage, pool_size=CONNECTIONS)

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        """Empties the storage's cache. Does nothing here, because most storages have none."""

    def version(self) -> str:
        return ", ".join(f"{name} {version(name)}" for name in ("ZODB", *self.distributions))


class Objects:
    """See `dyno.suites.objects.transactions.Objects`."""

    def __init__(self, engine: Database) -> None:
        self.database, self.forget = engine.database, engine.forget

    def close(self) -> None:
        pass


class _InMemory(Database):
    def __init__(self, storage: Callable[[], IStorage], home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(storage())

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds pickles in this process: nothing is written or sent anywhere")


def in_memory(name: str, title: str, storage: Callable[[], IStorage]) -> EngineSpec:
    """Returns the declaration of an engine in memory. Its clients are threads that share the database."""
    return EngineSpec(
        name=name,
        title=title,
        opener=partial(_InMemory, storage),
        ports={"objects": PortSpec(Objects)},
        tiers={Tier.VOLATILE: {}},
        installation=Installation(modules=("ZODB",), requires=REQUIRES),
        clients="threads",
        in_memory=True,
    )


def files(*places: Path) -> Iterator[Path]:
    """Yields the files of current data. Each of `places` is a directory, or a path with which files' paths begin."""
    for place in places:
        paths = filesystem.files(place) if place.is_dir() else place.parent.glob(f"{place.name}*")
        yield from (path for path in paths if path.suffix not in NOT_DATA)


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
    """A ZEO server on a socket in its directory, which no other user may enter.

    A server serves only the storages in its configuration. So it has several, each of them a FileStorage, and a store
    takes the first free one. Source: Zope Foundation, ZEO documentation, "Running a ZEO server".
    """

    def __init__(self, home: Path, invalidation_queue: int = INVALIDATION_QUEUE) -> None:
        # Clients run in other directories, so the path has to be absolute.
        home = home.absolute()
        self._queue, self.address = invalidation_queue, home / SOCKET
        words = ["-m", "ZEO.runzeo", "-C", str(home / CONFIGURATION)]
        super().__init__(
            [sys.executable, *words], home, lambda: accepts(self.address, greeted=True), unix=self.address
        )

    def prepare(self) -> None:
        # By default the server writes its process ID below /var.
        configuration = f"<zeo>\n  address {self.address}\n  pid-filename {self.home / 'zeo.pid'}\n"
        configuration += f"  invalidation-queue-size {self._queue}\n</zeo>\n"
        for number in range(STORAGES):
            self._directory(number).mkdir(exist_ok=True)
            configuration += _STORAGE.format(name=number, file=self.file(str(number)), blobs=self.blobs(str(number)))
        (self.home / CONFIGURATION).write_text(configuration)

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


def open_storage(server: ZEO, home: Path, cache_mib: int) -> ClientStorage:
    """Opens the storage of the store in `home` on a running server. Each client has its own cache."""
    import tempfile

    from ZEO import ClientStorage

    name = server.storage(home)
    # The cache is a temporary file, deleted with its client. It is put into `home`, because /tmp may be memory.
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
