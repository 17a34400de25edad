"""FerretDB 1.24, MongoDB's protocol over SQLite, by pymongo: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from dyno.engine import EngineSpec, Gap, PortSpec, Seldom, Server
from dyno.model import Caveat, Tier, Value
from dyno.servers import chosen, foreign, given, mongo, namespace
from dyno.servers.ferretdb import KIND, PROGRAM, FerretDB, missing
from dyno.servers.foreign import URL, Foreign
from dyno.settings import Setting, integer
from dyno.suites.records.port import FIELDS

# A commit hands its pages to the kernel in any case. Cheaper would be a rollback journal in memory, but with any of
# those a reader shuts a writer out, and FerretDB reads what it is about to write on another connection.
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"journal_mode": "wal", "synchronous": "off"},
    Tier.PROCESS: {"journal_mode": "wal", "synchronous": "off"},
    # The log is flushed at each commit. It is what FerretDB does where it is told nothing.
    Tier.POWER: {"journal_mode": "wal", "synchronous": "full"},
}
# FerretDB holds one of its 100 connections to SQLite for each document that a message replaces, until the message is
# done, and waits for ever where there is none left: so one document a message, whatever the number of clients.
REPLACED = 1


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return Foreign(str(options[URL]))
    return FerretDB(home, _pragmas(tier, options), chosen.given(options))


def _pragmas(tier: Tier, options: Mapping[str, Value]) -> dict[str, str]:
    settings = {name: str(value) for name, value in TIERS[tier].items()}
    # Negative: in KiB, and not in pages.
    return {**settings, "cache_size": str(-int(options["cache_mib"]) << 10), **given.given(options)}


class Ferret:
    """One database on the server, which is one file of SQLite's; every client process has a client of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._tier, self._options, self._server = tier, options, server
        self._name = namespace.of(home)
        self._client = mongo.connect(server)
        self.database = self._client[self._name]

    def checkpoint(self) -> None:
        """Of SQLite's log, as each thousand pages bring about: FerretDB has no word for it."""
        import sqlite3

        for file in self.files():
            if file.suffix == ".sqlite":
                with closing(sqlite3.connect(file)) as connection:
                    connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def close(self) -> None:
        self._client.close()

    def version(self) -> str:
        return mongo.version(self._client)

    def settings(self) -> Mapping[str, Value | None]:
        """It does not tell SQLite's: they are as they were given."""
        given = _pragmas(self._tier, self._options) if self._server.own else {}
        reached = foreign.transport(self._server, mongo.encrypted(self._client))
        return {**given, **reached, "bson": mongo.bson_code()}

    def files(self) -> Iterable[Path]:
        return self._server.data.glob(f"{self._name}.sqlite*") if self._server.own else ()

    def caveats(self) -> Iterable[Caveat]:
        if self._options[given.SET]:
            yield given.CAVEAT
        yield Caveat("scans", "reads the whole collection for each record that it finds, indexes or not")
        yield Caveat("not-atomic", "has no transactions: one of several records is written message by message")
        if not self._server.own:
            unproven = Caveat("declared", "is your own server, which does not tell its tier: it is not proven")
            yield from foreign.caveats(mongo.encrypted(self._client), unproven)


def records(engine: Ferret, indexed: bool) -> Any:
    from dyno.engines._shared.documents import DocumentRecords

    return DocumentRecords(engine.database, indexed, nullcontext, REPLACED)


RECORDS = PortSpec(
    records,
    gaps=(Gap("atomicity", "unsupported", "FerretDB 1.24 has no transactions of several messages"),),
    caveats=(FIELDS,),
)

ENGINE = EngineSpec(
    name="ferretdb",
    title="FerretDB 1.24, a document server over SQLite (pymongo)",
    opener=Ferret,
    ports={"records": RECORDS},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("pymongo",),
    requires=("pymongo>=4.6",),
    programs=(PROGRAM,),
    options=(
        foreign.setting("mongodb", "mongodb+srv"),
        Setting(
            "cache_mib", integer(1), 256, "SQLite's page cache of each connection, of a server of Dyno's own, in MiB"
        ),
        given.setting("pragmas", (*TIERS[Tier.POWER], "cache_size", "busy_timeout")),
        KIND.setting,
    ),
    refuse=given.refused,
    server=serve,
    seldom=Seldom("checkpoint of the log", Ferret.checkpoint),
    remove=lambda home, options, server: mongo.remove(home, server),
    removal=mongo.removal,
    missing_right=mongo.missing_right,
    needs=lambda options: None if options[URL] else missing(chosen.given(options)),
    clients="processes",
    by_default=False,
)
