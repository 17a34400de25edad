"""MariaDB and MySQL through the port `sql`. Sessions are in UTC, and counts are those of the rows that match."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from dyno.contracts.cleanup import transaction
from dyno.contracts.model import Refused
from dyno.contracts.native_load import NATIVE_CLIENT
from dyno.engines.mysql.client import CHARSET, MATCHED_ROWS, load
from dyno.engines.mysql.engines import InnoDB
from dyno.suites.sql.port import DEFAULT, ISOLATIONS, Session, check_isolation, check_there
from dyno.suites.sql.splitter import quoted, statements
from dyno.suites.sql.tabbed import blocks

ABORTED = (1020, 1205, 1213)
"""Numbers of the errors for a record that has changed, a lock that is not released, and a deadlock."""


class Sql:
    def __init__(self, engine: InnoDB, session: Session = DEFAULT) -> None:
        if engine.options["client"] == NATIVE_CLIENT:
            raise Refused(f"client={NATIVE_CLIENT} is a way to single records: leave it out")
        check_isolation(session.isolation, ISOLATIONS)
        if session.there:
            check_there(session, engine.server, str(engine.server.address.get("database") or ""))
        self._connection = engine.connect(loading=True, flags=MATCHED_ROWS, there=session.there)
        self._database, self._execute = engine.name, self._connection.execute
        self._execute("SET time_zone = '+00:00'")
        if session.isolation:
            level = session.isolation.replace("-", " ").upper()
            self._execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        if session.read_only:
            self._execute("SET SESSION TRANSACTION READ ONLY")

    def define(self, script: str) -> None:
        self._execute(f"ALTER DATABASE {self._database} CHARACTER SET {CHARSET}")
        for statement in statements(script, escaping=True):
            self._execute(statement).fetchall()

    def load(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        count, content = len(next(iter(columns.values()))), b"".join(blocks(columns))
        # Bytes are written as hexadecimal digits, because the file is read as text.
        names = {name: quoted(name, "`") for name in columns}
        binary = [names[name] for name, values in columns.items() if any(type(value) is bytes for value in values)]
        variables = {name: f"@bytes_{number}" for number, name in enumerate(binary)}
        fields = ", ".join(variables.get(name, name) for name in names.values())
        decoded = ", ".join(f"{name} = UNHEX({variable})" for name, variable in variables.items())
        into = f"LOAD DATA LOCAL INFILE '{{path}}' INTO TABLE {quoted(table, '`')} CHARACTER SET {CHARSET} ({fields})"
        with transaction(self._execute):
            loaded = load(self._connection, f"{into} SET {decoded}" if decoded else into, content)
            # The server changes or skips rows that it can't load, with only a warning.
            warnings = self._execute("SHOW WARNINGS LIMIT 1").fetchall()
            if warnings or loaded != count:
                raise ValueError(f"{table}: {loaded} of {count} rows were loaded: {warnings}")

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[Any]], Any]:
        connection = self._connection
        text = "%s".join(piece.replace("%", "%%") for piece in pieces) if len(pieces) > 1 else pieces[0]

        def execute(values: Sequence[Any]) -> Any:
            return connection.execute(text, [str(value) if type(value) is UUID else value for value in values])

        def run(values: Sequence[Any]) -> Any:
            result = execute(values)
            return max(result.rowcount, 0) if connection.columns is None else list(result.fetchall())

        def run_named(values: Sequence[Any]) -> Any:
            result, names = execute(values), connection.columns
            return names or [], list(result.fetchall()) if names else []

        return run_named if named else run

    def rollback(self) -> None:
        self._execute("ROLLBACK")

    def aborted(self, error: Exception) -> bool:
        return getattr(error, "errno", error.args[0] if error.args else None) in ABORTED

    def close(self) -> None:
        self._connection.close()
