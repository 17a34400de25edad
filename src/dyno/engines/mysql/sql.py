"""MariaDB and MySQL through the port `sql`. Sessions are in UTC, averages of decimals are about as exact as doubles,
and counts are those of the rows that match.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dyno.contracts.cleanup import transaction
from dyno.contracts.native_load import Exchange
from dyno.engines.mysql.client import CHARSET, MATCHED_ROWS, Native, Result, load
from dyno.engines.mysql.engines import InnoDB
from dyno.engines.mysql.rights import read_rights
from dyno.suites.sql.language.splitter import quote_name, statements
from dyno.suites.sql.native import NativeStatement
from dyno.suites.sql.port import DEFAULT, ISOLATIONS, Protection, Session, check_isolation, check_there
from dyno.suites.sql.tabbed import blocks

if TYPE_CHECKING:
    from pymysql.protocol import FieldDescriptorPacket

ABORTED = (1020, 1205, 1213)
"""Numbers of the errors for a record that has changed, a lock that is not released, and a deadlock."""

BEGIN = "START TRANSACTION READ ONLY"
"""Ends the open transaction too. Nothing that one has done which only reads could stay."""
COM_QUERY = 3
SENT = (str, bytes, int, bool, type(None))
"""Types of parameters that native load encodes."""
BINARY = 63
"""Number of the character set of columns without one."""
DAY, SECONDS = struct.Struct("<HBB"), struct.Struct("<BBB")
DIGITS = 16
"""Digits that a quotient or an average has more than its operands. The server's default, 4, is less exact than the
comparison of answers."""


class Sql:
    aborts = tuple(map(str, ABORTED))

    def __init__(self, engine: InnoDB, session: Session = DEFAULT) -> None:
        check_isolation(session.isolation, ISOLATIONS)
        if session.there:
            check_there(session, engine.server, str(engine.server.address.get("database") or ""))
        # A server may ask the client for any file if it may load files.
        loading = not (session.there and session.read_only)
        self._connection: Any = engine.connect(loading, MATCHED_ROWS, session.there)
        self._database, self._execute = engine.name, self._connection.execute
        self._execute("SET time_zone = '+00:00'")
        self._execute(f"SET div_precision_increment = {DIGITS}")
        if session.isolation:
            level = session.isolation.replace("-", " ").upper()
            self._execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        if session.read_only:
            self._execute("SET SESSION TRANSACTION READ ONLY")
        self.protection = Protection(
            begin=lambda: self._execute(BEGIN),
            request=struct.pack("<IB", len(BEGIN) + 1, COM_QUERY) + BEGIN.encode(),
            rights=partial(read_rights, self._execute),
            pasted=True,
        )

    def define(self, script: str) -> None:
        self._execute(f"ALTER DATABASE {self._database} CHARACTER SET {CHARSET}")
        for statement in statements(script, escaping=True):
            self._execute(statement).fetchall()

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        count, content = len(next(iter(columns.values()))), b"".join(blocks(columns))
        # Bytes are written as hexadecimal digits, because the file is read as text.
        names = {name: quote_name(name, "`") for name in columns}
        binary = [names[name] for name, values in columns.items() if any(type(value) is bytes for value in values)]
        variables = {name: f"@bytes_{number}" for number, name in enumerate(binary)}
        fields = ", ".join(variables.get(name, name) for name in names.values())
        decoded = ", ".join(f"{name} = UNHEX({variable})" for name, variable in variables.items())
        target = quote_name(table, "`")
        into = f"LOAD DATA LOCAL INFILE '{{path}}' INTO TABLE {target} CHARACTER SET {CHARSET} ({fields})"
        with transaction(self._execute):
            loaded = load(self._connection, f"{into} SET {decoded}" if decoded else into, content)
            # The server changes or skips rows that it can't load, with only a warning.
            warnings = self._execute("SHOW WARNINGS LIMIT 1").fetchall()
            if warnings or loaded != count:
                raise ValueError(f"{table}: {loaded} of {count} rows were loaded: {warnings}")

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], object]:
        connection = self._connection
        if len(pieces) > 1:
            text = "%s".join(piece.replace("%", "%%") for piece in pieces)
        else:
            text = pieces[0]

        def execute(values: Sequence[object]) -> Result:
            result: Result = connection.execute(text, [str(v) if type(v) is UUID else v for v in values])
            return result

        def run(values: Sequence[object]) -> object:
            result = execute(values)
            if connection.columns is None:
                return max(result.rowcount, 0)
            return list(result.fetchall())

        def run_named(values: Sequence[object]) -> object:
            result, names = execute(values), connection.columns
            return names or [], list(result.fetchall()) if names else []

        if named:
            return run_named
        return run

    @property
    def exchange(self) -> Exchange:
        exchange: Exchange = self._connection.exchange
        return exchange

    def native_statement(self, pieces: Sequence[str], named: bool) -> NativeStatement:
        connection: Native = self._connection
        text = "?".join(pieces)

        def request(values: Sequence[Any]) -> bytes:
            # The other types are sent as texts, as PyMySQL does, except float and Decimal, which it writes unquoted.
            return connection.request(text, [one if type(one) in SENT else str(one) for one in values])

        def answer(response: int | Sequence[Sequence[object]]) -> object:
            columns = connection.prepare_on_server(text)[1]
            if isinstance(response, int):
                if named:
                    return ([], [])
                return response
            rows = [tuple(map(convert_value, columns, row)) for row in response]
            if named:
                return ([column.name for column in columns], rows)
            return rows

        return NativeStatement(request, answer)

    def rollback(self) -> None:
        self._execute("ROLLBACK")

    def aborted(self, error: Exception) -> bool:
        return getattr(error, "errno", error.args[0] if error.args else None) in ABORTED

    def close(self) -> None:
        self._connection.close()


def convert_value(column: FieldDescriptorPacket, value: Any) -> Any:
    """Returns a value of a binary result in PyMySQL's type for the column. PyMySQL reads only text results, so times
    are written as text for its converters. Raises ValueError."""
    from pymysql.constants import FIELD_TYPE as KIND
    from pymysql.converters import decoders

    kind = column.type_code
    if value is None or type(value) in (int, float):
        return value
    if kind in (KIND.DATE, KIND.DATETIME, KIND.TIMESTAMP):
        return decoders[kind](_moment(value, kind == KIND.DATE))
    if kind == KIND.TIME:
        return decoders[kind](_duration(value))
    if kind in (KIND.DECIMAL, KIND.NEWDECIMAL, KIND.LONG, KIND.LONGLONG, KIND.DOUBLE):
        # A number whose type depends on the parameters' types may be a decimal.
        return decoders[KIND.NEWDECIMAL](value.decode() if type(value) is bytes else value)
    if type(value) is bytes and column.charsetnr != BINARY:
        raise ValueError(f"column {column.name}: its type depends on a parameter: use --load library")
    return value


def _moment(content: bytes, is_date: bool) -> str:
    """Returns a date or time of a binary result as text. Parts at the end that are zero are missing."""
    year, month, day = DAY.unpack_from(content.ljust(4, b"\0"))
    text = f"{year:04}-{month:02}-{day:02}"
    if is_date:
        return text
    hour, minute, second = SECONDS.unpack_from(content.ljust(7, b"\0"), 4)
    micros = int.from_bytes(content[7:11], "little")
    return f"{text} {hour:02}:{minute:02}:{second:02}.{micros:06}"


def _duration(content: bytes) -> str:
    sign, days = "-" if content[:1] == b"\1" else "", int.from_bytes(content[1:5], "little")
    hours, minutes, seconds = SECONDS.unpack_from(content.ljust(8, b"\0"), 5)
    micros = int.from_bytes(content[8:12], "little")
    return f"{sign}{24 * days + hours:02}:{minutes:02}:{seconds:02}.{micros:06}"
