"""chDB: ClickHouse inside the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.model import Caveat, Tier, Value
from dyno.host import tree
from dyno.host.versions import version

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A part is written under another name, and gets its own when it is whole.
    Tier.PROCESS: {"fsync_after_insert": 0, "fsync_part_directory": 0},
}
DATABASE = "dyno"


class ChDB:
    """One session, which has the process's engine: there can be no other at the time."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from chdb import session

        self._path, self._tier = home / "chdb", TIERS[tier]
        opened: Any = session.Session
        self.session = opened(str(self._path))
        self.ask(f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Atomic")
        self.ask(f"USE {DATABASE}")
        if options["threads"]:
            self.ask(f"SET max_threads = {options['threads']}")
        # An update returns when it is done.
        self.ask("SET mutations_sync = 1")

    @property
    def durable(self) -> str:
        """The settings of a table that give the tier."""
        return ", ".join(f"{name} = {value}" for name, value in self._tier.items())

    def ask(self, statement: str, form: str = "CSV") -> Any:
        return self.session.query(statement, form)

    def merge(self) -> None:
        """All parts of each table into one, as is done in the background some time."""
        for name in self._one("SHOW TABLES").splitlines():
            self.ask(f"OPTIMIZE TABLE {name} FINAL")

    def close(self) -> None:
        self.session.close()

    def version(self) -> str:
        return f"ClickHouse {self._one('SELECT version()')} (chdb {version('chdb')})"

    def _one(self, statement: str) -> str:
        return str(self.ask(statement, "TSVRaw").data()).strip()

    def settings(self) -> Mapping[str, Value | None]:
        threads = self._one("SELECT value FROM system.settings WHERE name = 'max_threads'")
        return {**self._tier, "max_threads": threads}

    def files(self) -> Iterable[Path]:
        """Of the parts that hold the data now: those that were merged into others stay for some minutes, and what the
        server logs and knows of itself is beside them."""
        told = self._one(f"SELECT path FROM system.parts WHERE active AND database = '{DATABASE}'")
        return tree.files(*map(Path, told.splitlines()))

    def caveats(self) -> Iterable[Caveat]:
        return ()
