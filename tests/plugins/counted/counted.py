"""A test engine, not a real one: PostgreSQL, which appends the number of rows of each load to the file in the option
`log`. With the option `link`, its data directory has a symbolic link, so that it can't be sealed. Not for
measurements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Listing, PortSpec
from dyno.contracts.settings import Setting, choice
from dyno.engines import postgresql
from dyno.engines.postgresql.sql import Sql
from dyno.suites.sql.port import DEFAULT, Session


class Counted(Sql):
    def __init__(self, engine: postgresql.Postgres, session: Session = DEFAULT) -> None:
        super().__init__(engine, session)
        # Leave out the brief checks before measuring.
        self._log = Path(str(engine.options["log"])) if engine.home.name == "store" else None
        if engine.options["link"] == "yes":
            with suppress(FileExistsError):
                (engine.server.data / "link").symlink_to("base")

    def load(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        super().load(table, columns)
        if self._log is not None:
            with self._log.open("a") as log:
                log.write(f"{len(next(iter(columns.values())))}\n")


ENGINE = replace(
    postgresql.ENGINE,
    name="counted",
    title="A test engine: PostgreSQL that counts loaded rows",
    listing=Listing(by_default=False),
    ports={"sql": PortSpec(Counted)},
    options=(
        *postgresql.ENGINE.options,
        Setting("log", str, "/dev/null", "file with the numbers of loaded rows"),
        Setting("link", choice("no", "yes"), "no", "whether the data directory has a symbolic link"),
    ),
)
