"""FerretDB 1.24, MongoDB's protocol over SQLite, by pymongo: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Gap, Maintenance, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.mongo import server_mongo
from dyno.engines.mongo.server_ferretdb import KIND, PROGRAM, FerretDB, missing
from dyno.servers import namespace, program_option, set_option, user_server
from dyno.servers.user_server import URL, UserServer
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
        return UserServer(str(options[URL]))
    return FerretDB(home, _pragmas(tier, options), program_option.given(options))


def _pragmas(tier: Tier, options: Mapping[str, Value]) -> dict[str, str]:
    settings = {name: str(value) for name, value in TIERS[tier].items()}
    # Negative: in KiB, and not in pages.
    return {**settings, "cache_size": str(-int(options["cache_mib"]) << 10), **set_option.given(options)}


class Ferret:
    """One database on the server, which is one file of SQLite's; every client process has a client of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._tier, self._options, self._server = tier, options, server
        self._name = namespace.of(home)
        self._client = server_mongo.connect(server)
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
        return server_mongo.version(self._client)

    def settings(self) -> Mapping[str, Value | None]:
        """It does not tell SQLite's: they are as they were given."""
        set_option = _pragmas(self._tier, self._options) if self._server.own else {}
        reached = user_server.transport(self._server, server_mongo.encrypted(self._client))
        return {**set_option, **reached, "bson": server_mongo.bson_code()}

    def files(self) -> Iterable[Path]:
        return self._server.data.glob(f"{self._name}.sqlite*") if self._server.own else ()

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        yield Caveat("scans", "reads the whole collection for each record that it finds, indexes or not")
        yield Caveat("not-atomic", "has no transactions: one of several records is written message by message")
        if not self._server.own:
            unproven = Caveat("declared", "is your own server, which does not tell its tier: it is not proven")
            yield from user_server.caveats(server_mongo.encrypted(self._client), unproven)


def records(engine: Ferret, indexed: bool) -> Any:
    from dyno.engines.mongo.records import DocumentRecords

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
        user_server.setting("mongodb", "mongodb+srv"),
        Setting(
            "cache_mib", integer(1), 256, "SQLite's page cache of each connection, of a server of Dyno's own, in MiB"
        ),
        set_option.setting("pragmas", (*TIERS[Tier.POWER], "cache_size", "busy_timeout")),
        KIND.setting,
    ),
    refuse=set_option.refused,
    server=serve,
    seldom=Maintenance("checkpoint of the log", Ferret.checkpoint),
    remove=lambda home, options, server: server_mongo.remove(home, server),
    removal=server_mongo.removal,
    missing_right=server_mongo.missing_right,
    needs=lambda options: None if options[URL] else missing(program_option.given(options)),
    clients="processes",
    by_default=False,
)
