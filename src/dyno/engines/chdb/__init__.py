"""chDB: ClickHouse inside the process, with MergeTree tables."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.host import filesystem
from dyno.host.installation import version

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A part is written under a temporary name, and renamed when it is complete.
    Tier.PROCESS: {"fsync_after_insert": 0, "fsync_part_directory": 0},
}
DATABASE = "dyno"


class ChDB(Engine):
    """chDB's session. A process can have only one at a time."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from chdb import session

        self._path, self._tier = home / "chdb", TIERS[tier]
        opened: Any = session.Session
        self.session = opened(str(self._path))
        self.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE} ENGINE = Atomic")
        self.query(f"USE {DATABASE}")
        if options["threads"]:
            self.query(f"SET max_threads = {options['threads']}")
        # Make an update return only when it is complete.
        self.query("SET mutations_sync = 1")

    @property
    def durable(self) -> str:
        """Table settings that give the tier, as SQL."""
        return ", ".join(f"{name} = {value}" for name, value in self._tier.items())

    def query(self, statement: str, form: str = "CSV") -> Any:
        return self.session.query(statement, form)

    def merge(self) -> None:
        """Merges all parts of each table, as ClickHouse eventually does in the background."""
        for name in self._value("SHOW TABLES").splitlines():
            self.query(f"OPTIMIZE TABLE {name} FINAL")

    def close(self) -> None:
        self.session.close()

    def version(self) -> str:
        return f"ClickHouse {self._value('SELECT version()')} (chdb {version('chdb')})"

    def _value(self, statement: str) -> str:
        return str(self.query(statement, "TSVRaw").data()).strip()

    def settings(self) -> Mapping[str, Value | None]:
        threads = self._value("SELECT value FROM system.settings WHERE name = 'max_threads'")
        return {**self._tier, "max_threads": threads}

    def files(self) -> Iterable[Path]:
        """Returns the files of active parts only. Merged parts stay on disk for some minutes, beside system
        tables."""
        parts = self._value(f"SELECT path FROM system.parts WHERE active AND database = '{DATABASE}'")
        return filesystem.files(*map(Path, parts.splitlines()))


ENGINE = EngineSpec(
    name="chdb",
    title="chDB, ClickHouse in the process",
    opener=ChDB,
    ports={
        "arrays": PortSpec(
            "dyno.engines.chdb.tables:Arrays",
            gaps=(
                Gap("atomicity", "unsupported", "each chunk is an insert of its own, and there are no transactions"),
            ),
        ),
        "series": PortSpec("dyno.engines.chdb.tables:Series"),
    },
    tiers=TIERS,
    modules=("chdb", "pandas", "pyarrow"),
    requires=("chdb>=3", "pandas>=2.0", "pyarrow>=15"),
    options=(Setting("threads", integer(0, 1024), 0, "threads of a query; 0 for ClickHouse's default"),),
    seldom=Maintenance("merge of all parts", ChDB.merge),
)
