"""DuckDB through the port `compute`: a table in memory, a column of it for each array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.cleanup import finally_
from dyno.engines.compute.library import Functions
from dyno.engines.duckdb.opener import DuckDB
from dyno.suites.compute.port import columns


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: DuckDB) -> None:
        self._cursor = engine.db.cursor()
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": self._one("SELECT avg(x) FROM numbers"),
            "max": self._one("SELECT max(x) FROM numbers"),
            "sin": self._sines,
            "sum": self._one("SELECT sum(x) FROM numbers"),
            "sum2d": lambda statement: self._cursor.execute(statement).fetchall()[0],
            "corr": self._one("SELECT corr(x, y) FROM numbers"),
        }

    def _one(self, statement: str) -> Callable[[Any], Any]:
        execute = self._cursor.execute
        return lambda _: execute(statement).fetchall()[0][0]

    def _sines(self, _: Any) -> Any:
        return self._cursor.execute("SELECT sin(x) AS sines FROM numbers").fetchnumpy()["sines"]

    def load(self, arrays: Mapping[str, Any]) -> Any:
        """Returns the statement that sums all columns up."""
        import pyarrow as pa

        made = columns(arrays)
        self._cursor.register("handed", pa.table(made))
        with finally_(lambda: self._cursor.unregister("handed")):
            self._cursor.execute("CREATE OR REPLACE TABLE numbers AS SELECT * FROM handed").fetchall()
        return f"SELECT {', '.join(f'sum({name})' for name in made)} FROM numbers"

    def threads(self) -> int | None:
        return int(self._cursor.execute("SELECT current_setting('threads')").fetchall()[0][0])

    def close(self) -> None:
        self._cursor.close()
