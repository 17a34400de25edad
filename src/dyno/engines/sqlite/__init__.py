"""SQLite through Python's own sqlite3: a B-tree SQL database inside the process."""

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.servers import set_option
from dyno.suites.compute.port import DOUBLES
from dyno.suites.records.port import COLUMNS

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # With a rollback journal in memory, a process that dies inside a commit may leave a torn file.
    Tier.VOLATILE: {"journal_mode": "memory", "synchronous": "off"},
    Tier.PROCESS: {"journal_mode": "wal", "synchronous": "off"},
    # In WAL mode, NORMAL flushes only at checkpoints. FULL flushes the log at every commit.
    Tier.POWER: {"journal_mode": "wal", "synchronous": "full"},
}
PAGE_SIZES = tuple(1 << power for power in range(9, 17))
SYNCHRONOUS = ("off", "normal", "full", "extra")


def page_size(text: str) -> Value:
    """Parses a page size, because SQLite silently ignores a wrong one."""
    number = int(text) if text.isdigit() else 0
    if number not in PAGE_SIZES:
        raise ValueError(f"expected one of {', '.join(map(str, PAGE_SIZES))}")
    return number


OURS = ("journal_mode", "page_size", "cache_size", "mmap_size", "locking_mode", "writable_schema", "key", "rekey")
"""Pragmas that the tier, an option or Dyno itself decides, or that are secrets."""
ACTIONS = (
    *("foreign_key_check", "incremental_vacuum", "integrity_check", "optimize", "quick_check", "shrink_memory"),
    "wal_checkpoint",
)
"""Pragmas that do some work when they are read. They are no settings."""
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
PRAGMA = re.compile(r"[A-Za-z_]{1,64}=[A-Za-z0-9_.-]{1,64}")


def pragmas(text: str) -> Value:
    """Parses the option `set`. Only plain names and values may become part of a statement."""
    parsed = set_option.setting("pragmas", (*OURS, *ACTIONS)).parse(text)
    for name, value in set_option.pairs(text).items():
        if not PRAGMA.fullmatch(f"{name}={value}"):
            raise ValueError("expected PRAGMA=VALUE, of letters and digits")
    return parsed


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    # A journal in memory dies with the process, and then half a commit can't be rolled back.
    if options["journal_mode"] == "memory" and tier is not Tier.VOLATILE:
        return f"journal_mode=memory can't give tier {tier.value}; it gives: volatile"
    needed = durability(tier, str(options["journal_mode"]))["synchronous"]
    chosen = set_option.get_settings(options).get("synchronous", str(needed)).lower()
    if chosen in SYNCHRONOUS:
        level = SYNCHRONOUS.index(chosen)
    elif chosen in "0123":
        level = int(chosen)
    else:
        return f"set.synchronous={chosen}: expected one of {', '.join(SYNCHRONOUS)}"
    if level < SYNCHRONOUS.index(str(needed)):
        return f"set.synchronous={chosen} can't give tier {tier.value}, which needs {needed}"
    return None


def durability(tier: Tier | None, journal: str) -> Mapping[str, Value]:
    """Returns the settings that give the tier with a journal mode; '' is the tier's own mode."""
    if tier is None:
        return TIERS[Tier.VOLATILE]
    if not journal or journal == TIERS[tier]["journal_mode"]:
        return TIERS[tier]
    # Only EXTRA flushes the deletion of a rollback journal, and that deletion is the commit.
    synchronous = "extra" if tier is Tier.POWER else TIERS[tier]["synchronous"]
    return {"journal_mode": journal, "synchronous": synchronous}


class SQLite(Engine):
    """A SQLite database file, to which each client has its own connection. Without a tier, for a port that stores
    nothing, each connection has its own database in memory."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._path, self._options = home / "records.sqlite", options
        if tier is None:
            self._database = ":memory:"
        else:
            self._database = str(self._path)
        self._durability = durability(tier, str(options["journal_mode"]))
        self.connection = self.connect()

    def connect(self) -> sqlite3.Connection:
        # Use autocommit, because the ports execute BEGIN themselves.
        connection = sqlite3.connect(self._database, isolation_level=None, timeout=60, cached_statements=64)
        connection.execute(f"PRAGMA page_size={self._options['page_size']}")
        connection.execute(f"PRAGMA journal_mode={self._durability['journal_mode']}")
        connection.execute(f"PRAGMA synchronous={self._durability['synchronous']}")
        connection.execute(f"PRAGMA cache_size=-{int(self._options['cache_mib']) * 1024}")
        connection.execute(f"PRAGMA mmap_size={int(self._options['mmap_mib']) * (1 << 20)}")
        for name, value in set_option.get_settings(self._options).items():
            connection.execute(f"PRAGMA {name}={value}")
            # SQLite silently ignores an unknown pragma.
            if connection.execute(f"PRAGMA {name}").fetchone() is None:
                raise Refused(f"set.{name}: this SQLite has no pragma of this name that can be read back")
        return connection

    def close(self) -> None:
        self.connection.close()

    def intact(self) -> str | None:
        (message,) = self.connection.execute("PRAGMA integrity_check(1)").fetchone()
        if message == "ok":
            return None
        return str(message)

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def settings(self) -> Mapping[str, Value | None]:
        def read(name: str) -> Any:
            # For a database in memory, PRAGMA mmap_size returns no row.
            return (self.connection.execute(f"PRAGMA {name}").fetchone() or (None,))[0]

        names = ("journal_mode", "page_size", "wal_autocheckpoint", "mmap_size", *set_option.to_read(self._options))
        settings = {name: read(name) for name in names if name != "synchronous"}
        return {"synchronous": SYNCHRONOUS[read("synchronous")], "cache_kib": -read("cache_size"), **settings}

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            return (set_option.CAVEAT,)
        return ()


NO_CORRELATION = Gap("corr", "unsupported", "SQLite has no aggregate for a correlation")
NO_SINE = Gap("sin", "unsupported", "this SQLite was built without its math functions")


def gaps() -> tuple[Gap, ...]:
    """Gaps of the port `compute` with this machine's SQLite."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("SELECT sin(1)")
        except sqlite3.OperationalError:
            return NO_CORRELATION, NO_SINE
    return (NO_CORRELATION,)


ENGINE = EngineSpec(
    name="sqlite",
    title="SQLite, a B-tree SQL database in the process (sqlite3)",
    opener=SQLite,
    ports={
        "records": PortSpec("dyno.engines.sqlite.tables:Records", caveats=(COLUMNS,)),
        "arrays": PortSpec(
            "dyno.engines.sqlite.tables:Arrays",
            installation=Installation(modules=("pandas",), requires=("pandas>=2.0",)),
            clients="one",
        ),
        "series": PortSpec("dyno.engines.sqlite.tables:Series", clients="one"),
        "sql": PortSpec("dyno.engines.sqlite.sql:Sql"),
        "compute": PortSpec(
            "dyno.engines.sqlite.compute:compute", clients="one", tiers={}, gaps=gaps(), caveats=(DOUBLES,)
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    refuse=refuse,
    # SQLite does this by itself after 1,000 pages.
    crashes=CrashSpec(
        Maintenance("checkpoint of the log", lambda engine: engine.connection.execute(CHECKPOINT).fetchall()),
        intact=SQLite.intact,
    ),
    installation=Installation(modules=("sqlite3",)),
    # Python's module by the same interface, named and numbered after the SQLite that it has.
    versions=Versions((Wheel("sqlean.py", replaces=("sqlite3", "sqlean"), earliest="3.45"),)),
    options=(
        Setting(
            "journal_mode",
            choice("", "wal", "delete", "truncate", "persist", "memory"),
            "",
            "journal mode; by default the tier's own (wal, or memory for volatile)",
        ),
        Setting("cache_mib", integer(1), 256, "page cache of each connection, in MiB"),
        Setting("page_size", page_size, 4096, "page size, in bytes"),
        Setting("mmap_mib", integer(0), 0, "how much of the file to map, in MiB (SQLite's default: none)"),
        Setting(set_option.SET, pragmas, "", "pragmas, written set.NAME=VALUE"),
    ),
    clients="processes",
)
