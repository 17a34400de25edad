"""SQLite by Python's own sqlite3: a B-tree SQL database inside the process."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.servers import set_option

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A rollback journal in memory: a process that dies inside a commit may leave a torn file.
    Tier.VOLATILE: {"journal_mode": "memory", "synchronous": "off"},
    Tier.PROCESS: {"journal_mode": "wal", "synchronous": "off"},
    # In WAL mode, NORMAL flushes at checkpoints only; FULL flushes the log at every commit.
    Tier.POWER: {"journal_mode": "wal", "synchronous": "full"},
}
PAGE_SIZES = tuple(1 << power for power in range(9, 17))
SYNCHRONOUS = ("off", "normal", "full", "extra")


def page_size(text: str) -> Value:
    """SQLite passes over a page size that it does not take, so it is refused here."""
    number = int(text) if text.isdigit() else 0
    if number not in PAGE_SIZES:
        raise ValueError(f"wants one of {', '.join(map(str, PAGE_SIZES))}")
    return number


OURS = ("journal_mode", "page_size", "cache_size", "mmap_size", "locking_mode", "writable_schema", "key", "rekey")
"""Pragmas that a tier, an option or Dyno itself decides; or that are secrets."""
ACTIONS = (
    *("foreign_key_check", "incremental_vacuum", "integrity_check", "optimize", "quick_check", "shrink_memory"),
    "wal_checkpoint",
)
"""Pragmas that are no settings: they do work whenever they are read."""
PRAGMA = re.compile(r"[A-Za-z_]{1,64}=[A-Za-z0-9_.-]{1,64}")


def pragmas(text: str) -> Value:
    """What `set` takes: nothing that is more than a name and a value may get into a statement."""
    found = set_option.setting("pragmas", (*OURS, *ACTIONS)).parse(text)
    for name, value in set_option.pairs(text).items():
        if not PRAGMA.fullmatch(f"{name}={value}"):
            raise ValueError("wants PRAGMA=VALUE, of letters and digits")
    return found


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    """A journal in memory dies with the process, and with it the way back from half a commit."""
    if options["journal_mode"] == "memory" and tier is not Tier.VOLATILE:
        return f"journal_mode=memory can't give tier {tier.value}; it gives: volatile"
    wanted = durability(tier, str(options["journal_mode"]))["synchronous"]
    chosen = set_option.given(options).get("synchronous", str(wanted)).lower()
    level = SYNCHRONOUS.index(chosen) if chosen in SYNCHRONOUS else int(chosen) if chosen in "0123" else None
    if level is None:
        return f"set.synchronous={chosen}: wants one of {', '.join(SYNCHRONOUS)}"
    if level < SYNCHRONOUS.index(str(wanted)):
        return f"set.synchronous={chosen} can't give tier {tier.value}, which wants {wanted}"
    return None


def durability(tier: Tier | None, journal: str) -> Mapping[str, Value]:
    """The settings that give the tier with the journal mode that was asked for ('' for the tier's own)."""
    if tier is None:
        return TIERS[Tier.VOLATILE]
    if not journal or journal == TIERS[tier]["journal_mode"]:
        return TIERS[tier]
    # Without EXTRA the deletion of a rollback journal, which is the commit, may not reach the device.
    synchronous = "extra" if tier is Tier.POWER else TIERS[tier]["synchronous"]
    return {"journal_mode": journal, "synchronous": synchronous}


class SQLite:
    """One database file; every client has a connection of its own. Through a port that stores nothing there is no
    file: each connection has a database in memory."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._path, self._options = home / "records.sqlite", options
        self._database = ":memory:" if tier is None else str(self._path)
        self._durability = durability(tier, str(options["journal_mode"]))
        self._connection = self.connect()

    def connect(self) -> sqlite3.Connection:
        # Autocommit: transactions begin where this file says BEGIN.
        connection = sqlite3.connect(self._database, isolation_level=None, timeout=60, cached_statements=64)
        connection.execute(f"PRAGMA page_size={self._options['page_size']}")
        connection.execute(f"PRAGMA journal_mode={self._durability['journal_mode']}")
        connection.execute(f"PRAGMA synchronous={self._durability['synchronous']}")
        connection.execute(f"PRAGMA cache_size=-{int(self._options['cache_mib']) * 1024}")
        connection.execute(f"PRAGMA mmap_size={int(self._options['mmap_mib']) * (1 << 20)}")
        for name, value in set_option.given(self._options).items():
            connection.execute(f"PRAGMA {name}={value}")
            # SQLite passes over one that it does not know.
            if connection.execute(f"PRAGMA {name}").fetchone() is None:
                raise Refused(f"set.{name}: this SQLite has no such pragma to be read back")
        return connection

    def close(self) -> None:
        self._connection.close()

    def checkpoint(self) -> None:
        """Of the log, as SQLite does it by itself after 1,000 pages; of a rollback journal there is none."""
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def intact(self) -> str | None:
        (told,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        return None if told == "ok" else str(told)

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def settings(self) -> Mapping[str, Value | None]:
        def read(name: str) -> Any:
            # Nothing is mapped of a database in memory, and no row says so.
            return (self._connection.execute(f"PRAGMA {name}").fetchone() or (None,))[0]

        shown = ("journal_mode", "page_size", "wal_autocheckpoint", "mmap_size")
        told = {name: read(name) for name in (*shown, *set_option.to_read(self._options)) if name != "synchronous"}
        return {"synchronous": SYNCHRONOUS[read("synchronous")], "cache_kib": -read("cache_size"), **told}

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")

    def caveats(self) -> Iterable[Caveat]:
        return (set_option.CAVEAT,) if self._options[set_option.SET] else ()
