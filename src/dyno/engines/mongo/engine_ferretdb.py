"""FerretDB 1.24, which serves MongoDB's protocol from SQLite, through pymongo: a server that Dyno starts, or the
user's own.

Each database is one SQLite file. The URL of the directory has pragmas for every connection; without them, FerretDB
1.24 has journal_mode=wal and SQLite's default synchronous=full. Source: FerretDB Inc., FerretDB 1.24 documentation,
"Configuration flags", and its `internal/backends/sqlite`.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from dyno.contracts.engine import CrashSpec, Gap, Maintenance, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.programs import GoModule, Program
from dyno.contracts.settings import Setting, integer
from dyno.engines.mongo.store import CLIENT_SETTING, SCHEMES, DocumentRecords, DocumentStore
from dyno.servers import program_option, set_option
from dyno.servers.process import Process, accepts
from dyno.servers.server_engine import server_engine
from dyno.suites.records.port import FIELDS

PINNED = Program(
    "ferretdb",
    "1.24.0",
    GoModule(
        path="github.com/FerretDB/FerretDB",
        version="v1.24.0",
        sum="h1:7WJmezL48Bj9bYWnhT/bEJgX5gjT5s7LFdHTqkN25rA=",
        package="./cmd/ferretdb",
        least="1.22",
        # FerretDB's own build writes these files. Without a version, the program does not start.
        files={
            "build/version/version.txt": "v1.24.0",
            **{f"build/version/{name}.txt": "unknown" for name in ("commit", "branch", "package")},
        },
    ),
)
BUSY_MS = 10_000
"""Milliseconds that a connection waits for another connection's write lock: FerretDB's default."""
PROGRAM = program_option.ServerProgram(
    "FerretDB server",
    r"version: v(\d[\d.]*)",
    least="1.24",
    # Version 2 has no SQLite backend.
    below="2",
    names=("ferretdb",),
    install="dyno install ferretdb",
    needed=f"FerretDB {PINNED.version}",
    pinned=PINNED,
)


class FerretDB(Process):
    """A server on a socket in its directory, which no other user may enter. `pragmas` are SQLite pragmas for every
    connection; `path` is the user's program."""

    def __init__(self, home: Path, pragmas: Mapping[str, str], path: str = "") -> None:
        self.data = home / "data"
        self.path = home / "ferretdb.sock"
        self.address = f"mongodb://{quote(str(self.path), safe='')}/?directConnection=true"
        # The busy timeout comes first, because changing the journal mode takes a lock.
        every = {"busy_timeout": str(BUSY_MS), **pragmas}
        query = "&".join(f"_pragma={name}({value})" for name, value in every.items())
        words = [
            "--handler=sqlite",
            # Use a relative path, because an absolute one may have characters that a URL can't contain.
            f"--sqlite-url=file:data/?{query}",
            "--listen-addr=",
            f"--listen-unix={self.path}",
            "--state-dir=.",
            "--telemetry=disable",
            "--debug-addr=-",
            "--log-level=WARN",
        ]
        super().__init__([PROGRAM.executable(path), *words], home, lambda: accepts(self.path), unix=self.path)

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)


# Every commit writes its pages to the kernel. A rollback journal in memory would be cheaper, but with it a reader
# locks writers out, and FerretDB reads on another connection what it is about to write.
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"journal_mode": "wal", "synchronous": "off"},
    Tier.PROCESS: {"journal_mode": "wal", "synchronous": "off"},
    # FerretDB's default: the log is flushed at each commit.
    Tier.POWER: {"journal_mode": "wal", "synchronous": "full"},
}


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    return FerretDB(home, _pragmas(tier, options), program_option.get_path(options))


def _pragmas(tier: Tier, options: Mapping[str, Value]) -> dict[str, str]:
    # SQLite reads a negative size as KiB, and a positive one as pages.
    return set_option.combine_settings(TIERS[tier], options, cache_size=-int(str(options["cache_mib"])) << 10)


class Ferret(DocumentStore):
    """A store in one database, which is one SQLite file."""

    # For each document that a message replaces, FerretDB holds one of its 100 SQLite connections until the end of the
    # message, and it waits for ever if none is left.
    replaced = 1
    undeclared = Caveat("declared", "is your own server, which does not tell its tier: it is not proven")

    def checkpoint(self) -> None:
        """Checkpoints SQLite's log, as SQLite does after each thousand pages. FerretDB has no command for that."""
        import sqlite3

        for file in self.files():
            if file.suffix == ".sqlite":
                with closing(sqlite3.connect(file)) as connection:
                    connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        # FerretDB does not report SQLite's settings, so return those that Dyno set.
        if self.server.own:
            return {**_pragmas(self.tier, self.options)}
        return {}

    def own_files(self) -> Iterable[Path]:
        return self.server.data.glob(f"{self.name}.sqlite*")  # type: ignore[no-any-return]

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        yield Caveat("scans", "reads the whole collection for each record that it finds, indexes or not")
        yield Caveat("not-atomic", "has no transactions: one of several records is written message by message")


ENGINE = server_engine(
    Ferret,
    name="ferretdb",
    title="FerretDB 1.24, a document server over SQLite (pymongo)",
    schemes=SCHEMES,
    start=start,
    program=PROGRAM,
    settings=set_option.setting("pragmas", (*TIERS[Tier.POWER], "cache_size", "busy_timeout")),
    ports={
        "records": PortSpec(
            DocumentRecords,
            gaps=(Gap("atomicity", "unsupported", "FerretDB 1.24 has no transactions of several messages"),),
            caveats=(FIELDS,),
        )
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    installation=Installation(modules=("pymongo",), requires=("pymongo>=4.6",)),
    options=(
        CLIENT_SETTING,
        Setting(
            "cache_mib", integer(1), 256, "SQLite's page cache of each connection, of a server of Dyno's own, in MiB"
        ),
    ),
    crashes=CrashSpec(Maintenance("checkpoint of the log", Ferret.checkpoint)),
    clients="processes",
)
