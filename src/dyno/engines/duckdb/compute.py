"""DuckDB through the port `compute`: a table in memory, with a column for each array."""

from dyno.contracts.cleanup import finally_
from dyno.engines.compute.library import FunctionPort
from dyno.engines.duckdb import DuckDB
from dyno.suites.compute.port import Arrays, Operation, columns


def compute(engine: DuckDB) -> FunctionPort:
    cursor = engine.db.cursor()
    execute = cursor.execute

    def value(statement: str) -> Operation:
        return lambda _: execute(statement).fetchall()[0][0]

    def load(arrays: Arrays) -> str:
        """Loads the arrays; returns the statement that adds up every column."""
        import pyarrow as pa

        by_name = columns(arrays)
        cursor.register("arrow", pa.table(by_name))
        with finally_(lambda: cursor.unregister("arrow")):
            execute("CREATE OR REPLACE TABLE numbers AS SELECT * FROM arrow").fetchall()
        return f"SELECT {', '.join(f'sum({name})' for name in by_name)} FROM numbers"

    operations: dict[str, Operation] = {
        "avg": value("SELECT avg(x) FROM numbers"),
        "max": value("SELECT max(x) FROM numbers"),
        "sin": lambda _: execute("SELECT sin(x) AS sines FROM numbers").fetchnumpy()["sines"],
        "sum": value("SELECT sum(x) FROM numbers"),
        "sum2d": lambda statement: execute(statement).fetchall()[0],
        "corr": value("SELECT corr(x, y) FROM numbers"),
    }
    threads = int(execute("SELECT current_setting('threads')").fetchall()[0][0])
    return FunctionPort(operations, load, threads, cursor.close)
