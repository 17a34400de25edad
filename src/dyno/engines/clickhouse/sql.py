"""ClickHouse through the port `sql`, for statements that read. The driver writes parameters into the text."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, ParamSpec, TypeVar

from dyno.contracts.model import Refused
from dyno.engines.clickhouse import Click
from dyno.suites.sql.language.splitter import quote_name, statements
from dyno.suites.sql.port import DEFAULT, READER, Protection, Rights, Session, check_isolation, check_there
from dyno.suites.sql.times import without_zone

P = ParamSpec("P")
T = TypeVar("T")
TRANSACTION = re.compile(r"\s*(BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK)\b", re.I)
UTC = ("UTC", "Etc/UTC", "Etc/UCT", "GMT", "Zulu", "Universal")
VALUES = re.compile(r"\s*INSERT\b(?!.*\bSELECT\b)", re.I | re.S)
"""Matches an insertion for which the driver would wait for rows from its caller, for ever."""
TEXT = re.compile(r"\bString\b")
"""Matches the type of a column of texts."""
READING = ("SELECT", "SHOW", "dictGet", "USAGE")
"""Beginnings of the rights that change nothing."""
COLUMNS = re.compile(r"\([^)]*\)")
ZONED = re.compile(r"DateTime.*'")
"""Matches a column's type that has a time zone."""


class Literal:
    """A value that the driver writes as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def literal(value: Any) -> object:
    """Returns a value that the driver writes in a form that compares with columns of its type."""
    kind = type(value)
    if kind is bool:
        return int(value)
    if kind is bytes:
        return Literal(f"unhex('{value.hex()}')")
    if kind is Decimal:
        # Plain digits would be a float, with which old servers compare no decimals.
        return Literal(f"toDecimal128('{value:f}', {max(0, -value.as_tuple().exponent)})")
    # The driver would write a time without its microseconds.
    if kind is datetime and value.microsecond:
        return str(value)
    return value


def as_texts(values: Sequence[object]) -> Sequence[object]:
    """Returns the values of a column of texts, such as one for times with microseconds on old servers."""
    return [each if type(each) in (str, bytes, type(None)) else str(each) for each in values]


def without_trace(execute: Callable[P, T]) -> Callable[P, T]:
    """Returns the client's function, whose errors lack the server's stack trace."""
    from clickhouse_driver.errors import ServerException

    def execute_without_trace(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return execute(*arguments, **named)
        except ServerException as error:
            error.message = error.message.partition(" Stack trace:")[0]
            raise

    return execute_without_trace


def read_rights(execute: Callable[[str], Sequence[Sequence[str]]], database: str) -> Rights:
    """Returns the rights of a login whose profile lets it write."""
    from clickhouse_driver.errors import ServerException

    remedy = (
        f"CREATE USER {READER} IDENTIFIED BY 'choose one'",
        f"GRANT SELECT ON {database}.* TO {READER}",
        f"ALTER USER {READER} SETTINGS readonly = 2",
    )
    try:
        lines = [line for (line,) in execute("SHOW GRANTS")]
    except ServerException:
        # Users by SQL came with version 20.4.
        return Rights("its profile lacks readonly", ("readonly = 2 in its profile in users.xml",))
    for line in lines:
        rights, _, place = COLUMNS.sub("", line).removeprefix("GRANT ").partition(" ON ")
        if others := [right for right in rights.split(", ") if not right.startswith(READING)]:
            return Rights(f"{others[0]} on {place.partition(' ')[0]}" if place else f"role {others[0]}", remedy)
    return Rights()


class Sql:
    def __init__(self, engine: Click, session: Session = DEFAULT) -> None:
        check_isolation(session.isolation)
        # A login that only reads may not change this setting.
        ((profile,),) = engine.client.execute("SELECT value FROM system.settings WHERE name = 'readonly'")
        settings = {"readonly": 2} if session.read_only and profile == "0" else {}
        database = engine.name
        if session.there:
            database = "" if engine.server.own else engine.server.address.path.strip("/")
            check_there(session, engine.server, database)
        else:
            engine.create_database()
        self._client = engine.open_client(engine.server, engine.options, database=database, settings=settings)
        self._execute = without_trace(self._client.execute)
        ((zone,),) = self._execute("SELECT timezone()")
        if zone not in UTC:
            self._client.close()
            raise Refused(f"the server's time zone is {zone}, in which it reads and writes times: set it to UTC")
        rights = Rights if profile != "0" else partial(read_rights, engine.client.execute, database)
        self.protection = Protection(rights=rights, pasted=True)

    def define(self, script: str) -> None:
        for statement in statements(script, escaping=True):
            self._execute(statement)

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        names = ", ".join(quote_name(name, "`") for name in columns)
        described = self._execute(f"DESCRIBE TABLE {quote_name(table, '`')}")
        kinds = {name.lower(): kind for name, kind, *_ in described}
        lists = [
            as_texts(values) if TEXT.search(kinds.get(name.lower(), "")) else values
            for name, values in columns.items()
        ]
        self._execute(f"INSERT INTO {quote_name(table, '`')} ({names}) VALUES", lists, columnar=True)

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], object]:
        if TRANSACTION.match(pieces[0]):
            raise Refused("ClickHouse has no transactions: leave BEGIN and COMMIT out")
        if VALUES.match("?".join(pieces)):
            raise Refused("the driver sends rows of values only in bulk: load them, or use INSERT ... SELECT")
        names = [f"p{number}" for number in range(1, len(pieces))]
        if names:
            text = pieces[0].replace("%", "%%")
        else:
            text = pieces[0]
        text += "".join(
            f"%({name})s" + piece.replace("%", "%%") for name, piece in zip(names, pieces[1:], strict=True)
        )
        execute = self._execute

        def run_named(values: Sequence[object]) -> tuple[list[str], Sequence[tuple[object, ...]]]:
            given = dict(zip(names, map(literal, values), strict=True)) or None
            rows, columns = execute(text, given, with_column_types=True)
            zoned = [at for at, (_, kind) in enumerate(columns) if ZONED.search(kind)]
            return [name for name, _ in columns], without_zone(rows, zoned)

        def run(values: Sequence[object]) -> object:
            names, rows = run_named(values)
            # The server does not count changed rows.
            if names:
                return rows
            return 0

        if named:
            return run_named
        return run

    def rollback(self) -> None:
        """There are no transactions."""

    def aborted(self, error: Exception) -> bool:
        return False

    def close(self) -> None:
        self._client.close()
