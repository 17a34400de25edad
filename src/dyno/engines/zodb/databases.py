"""Common parts of ZODB's engines: a database on a storage, and the port `objects` on it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.engine import Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.host import filesystem
from dyno.host.installation import version

REQUIRES = ("ZODB>=6",)
CONNECTIONS = 1_000
"""Number of connections that a database may open before it warns. Each client has two."""
NOT_DATA = (".lock", ".tmp", ".old")
"""Suffixes of files that ZODB keeps beside its current data."""

SHARING = Setting(
    "sharing", choice("processes", "threads"), "processes", "clients: processes, or threads that share one database"
)
"""Option of engines whose clients can be either processes or threads."""


def sharing(options: Mapping[str, Value]) -> str:
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

    def __init__(self, storage: Any) -> None:
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

    def __init__(self, engine: Any) -> None:
        self.database, self.forget = engine.database, engine.forget

    def close(self) -> None:
        pass


class _InMemory(Database):
    def __init__(self, storage: Callable[[], Any], home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(storage())

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds pickles in this process: nothing is written or sent anywhere")


def in_memory(name: str, title: str, storage: Callable[[], Any]) -> EngineSpec:
    """Returns the declaration of an engine on a storage in memory. Its clients are threads that share the
    database."""
    return EngineSpec(
        name=name,
        title=title,
        opener=partial(_InMemory, storage),
        ports={"objects": PortSpec(Objects)},
        tiers={Tier.VOLATILE: {}},
        modules=("ZODB",),
        requires=REQUIRES,
        clients="threads",
        in_memory=True,
    )


def files(*places: Path) -> Iterator[Path]:
    """Yields the files of current data. Each of `places` is a directory, or a path with which files' paths begin."""
    for place in places:
        paths = filesystem.files(place) if place.is_dir() else place.parent.glob(f"{place.name}*")
        yield from (path for path in paths if path.suffix not in NOT_DATA)
