"""What the engines of the port `objects` share: the database over a storage, and what is told of both.

What is done with the database may not be put here: that is the suite's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Maintenance
from dyno.contracts.model import Caveat, Value
from dyno.contracts.settings import Setting, choice
from dyno.host import filesystem
from dyno.host.installation import version

REQUIRES = ("ZODB>=6",)
CONNECTIONS = 1_000
"""That a database keeps open at most before it warns: each client has two."""
LEFT = (".lock", ".tmp", ".old")
"""Of what ZODB has beside its data: not the data that it has now."""


SHARING = Setting(
    "sharing", choice("processes", "threads"), "processes", "clients: processes, or threads that share one database"
)
"""Of an engine that both can use."""


def sharing(options: Mapping[str, Value]) -> str:
    """See `dyno.contracts.engine.EngineSpec.sharing`."""
    return str(options[SHARING.name])


APPENDED = Maintenance(
    "every commit is added at the end of its file; a pack, which writes it anew, is its administrator's to begin"
)
PACK = Maintenance("pack", lambda engine: engine.database.pack(), every=30)
"""Old states of objects are thrown away: the file is written anew and takes the old one's place."""


class Objects:
    """The port: see `dyno.suites.objects.transactions.Objects`."""

    def __init__(self, engine: Any) -> None:
        self.database, self.forget = engine.database, engine.forget

    def close(self) -> None:
        pass


def database(storage: Any) -> Any:
    """A database over a storage, which is closed with it, and where there is none to be had."""
    import ZODB

    try:
        return ZODB.DB(storage, pool_size=CONNECTIONS)
    except BaseException:
        storage.close()
        raise


class InMemory:
    """An engine's opener over a storage that lives as long as the database over it."""

    def __init__(self, storage: Any) -> None:
        self.database = database(storage)

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        """It has no cache."""

    def version(self) -> str:
        return versions()

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds pickles in this process: nothing is written or sent anywhere")


def versions(*distributions: str) -> str:
    """'ZODB 6.4, ZEO 6.2'."""
    return ", ".join(f"{name} {version(name)}" for name in ("ZODB", *distributions))


def files(*places: Path) -> Iterable[Path]:
    """The files below, or beginning with, these paths that hold data now."""
    return (path for place in places for path in _at(place) if path.suffix not in LEFT)


def _at(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from filesystem.files(place)
    else:
        yield from place.parent.glob(f"{place.name}*")
