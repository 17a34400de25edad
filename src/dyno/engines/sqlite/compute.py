"""SQLite through the port `compute`: a table in memory, with a column for each array."""

from dyno.engines.compute.library import FunctionPort
from dyno.engines.sqlite import NO_SINE, SQLite, gaps
from dyno.suites.compute.port import Arrays, Operation, columns


def compute(engine: SQLite) -> FunctionPort:
    connection = engine.connect()
    execute = connection.execute

    def value(statement: str) -> Operation:
        return lambda _: execute(statement).fetchone()[0]

    def load(arrays: Arrays) -> str:
        """Loads the arrays; returns the statement that adds up every column."""
        by_name = columns(arrays)
        execute("DROP TABLE IF EXISTS numbers")
        execute(f"CREATE TABLE numbers (id INTEGER PRIMARY KEY, {', '.join(f'{name} REAL' for name in by_name)})")
        insert = f"INSERT INTO numbers ({', '.join(by_name)}) VALUES ({', '.join('?' * len(by_name))})"
        execute("BEGIN")
        # Insert numbers one by one, because lists of them would take four times as much memory at once.
        connection.executemany(insert, zip(*(map(float, array) for array in by_name.values()), strict=True))
        execute("COMMIT")
        return f"SELECT {', '.join(f'sum({name})' for name in by_name)} FROM numbers"

    operations = {
        "avg": value("SELECT avg(x) FROM numbers"),
        "max": value("SELECT max(x) FROM numbers"),
        "sum": value("SELECT sum(x) FROM numbers"),
        "sum2d": lambda statement: execute(statement).fetchone(),
    }
    if NO_SINE not in gaps():
        operations["sin"] = lambda _: execute("SELECT sin(x) FROM numbers").fetchall()
    return FunctionPort(operations, load, close=connection.close)
