"""Connections to MariaDB or MySQL, through PyMySQL or the C extension of MySQL Connector/Python.

Both libraries insert escaped values into the text of a statement.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.cleanup import finally_
from dyno.contracts.model import Refused
from dyno.contracts.native import load_native
from dyno.contracts.native_load import NATIVE_CLIENT, Exchange, Rows
from dyno.contracts.passwords import mask_password
from dyno.host.installation import version
from dyno.servers import user_server

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

    from dyno.servers.listen import StoreServer

CLIENTS = ("pymysql", "c", NATIVE_CLIENT)
PORT = 3306
MATCHED_ROWS = 2
"""Flag of a connection that counts the rows which an UPDATE matches. By default it counts those that it changes."""
ARGUMENTS = ("unix_socket", "ssl_ca")
"""Arguments that the query part of a URL may have."""
CHARSET = "utf8mb4"
COM_STMT_PREPARE = 0x16
SECONDS = 10
"""Timeout of connecting, in seconds."""
# Later versions of the connector need OpenSSL 3.2. The process has Python's OpenSSL, which is older on Debian 12.
REQUIRES = ("PyMySQL>=1.1", "mysql-connector-python>=9,<10")

ConnectionArguments = Mapping[str, Any]
"""Arguments with which both libraries connect."""


class Result(Protocol):
    """Result of a statement, which is valid until the next one."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Sequence[Any]: ...


class Client:
    """A connection through PyMySQL's cursors. A statement outside a transaction is committed at once."""

    def __init__(self, address: ConnectionArguments, loading: bool, flags: int = 0) -> None:
        import pymysql

        self._connection: Any = pymysql.connect(
            **address,
            charset=CHARSET,
            autocommit=True,
            connect_timeout=SECONDS,
            local_infile=loading,
            client_flag=flags,
        )
        self._cursor = self._connection.cursor()
        self._run = self._cursor.execute

    def execute(self, statement: str, values: Sequence[str | int] = ()) -> Result:
        """Runs a statement, in which %s stands for a value, and %% for % if there are values."""
        self._run(statement, values or None)
        result: Result = self._cursor
        return result

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns of the last statement; None if it returned no rows."""
        description = self._cursor.description
        if description is None:
            return None
        return [column[0] for column in description]

    def call(self, statement: str, values: Sequence[str | int]) -> tuple[str, ...] | None:
        """Calls a procedure; returns its first row."""
        self._run(statement, values)
        row: tuple[str, ...] | None = self._cursor.fetchone()
        while self._cursor.nextset():
            pass
        return row

    def stream_rows(self, statement: str, count: int) -> Iterator[Sequence[tuple[object, ...]]]:
        """Yields `count` rows at a time. Until the end, the connection can't be used for other statements."""
        from pymysql.cursors import SSCursor

        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(count):
                yield rows

    def close(self) -> None:
        self._connection.close()

    @property
    def encrypted(self) -> bool:
        """True if the connection uses TLS."""
        return bool(self._connection._secure)

    @property
    def library(self) -> str:
        """Name and version of the client library."""
        return f"PyMySQL {version('pymysql')}"


class Native(Client):
    """A connection through PyMySQL until native load takes its socket (see `Exchange`), for prepared statements."""

    def __init__(self, address: ConnectionArguments, loading: bool, flags: int = 0) -> None:
        # If the server offers TLS, PyMySQL uses it by default.
        super().__init__(address if "ssl_ca" in address else {**address, "ssl_disabled": True}, loading, flags)
        connection = self._connection._sock
        self.exchange = Exchange("mysql", connection.fileno(), hasattr(connection, "cipher"))
        self._statements: dict[str, tuple[int, list[FieldDescriptorPacket]]] = {}
        self._encode = load_native().mysql

    def execute(self, statement: str, values: Sequence[str | int] = ()) -> Result:
        if not self.exchange.active:
            return super().execute(statement, values)
        number, _ = self.prepare_on_server(statement.replace("%s", "?"))
        return Rows(self.exchange.ask(self._encode(number, values)))

    def call(self, statement: str, values: Sequence[str | int]) -> tuple[str, ...] | None:
        if not self.exchange.active:
            return super().call(statement, values)
        row: tuple[str, ...] | None = self.execute(statement, values).fetchone()
        return row

    def request(self, statement: str, values: Sequence[str | bytes | int | None]) -> bytes:
        """Returns the request that executes a statement, in which ? stands for a value."""
        request: bytes = self._encode(self.prepare_on_server(statement)[0], values)
        return request

    def prepare_on_server(self, statement: str) -> tuple[int, list[FieldDescriptorPacket]]:
        """Returns the server's number of the prepared statement, and the descriptions of its columns. PyMySQL has no
        method for the request."""
        if statement not in self._statements:
            from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

            connection = self._connection
            connection._execute_command(COM_STMT_PREPARE, statement)
            _, number, columns, parameters = struct.unpack_from("<BIHH", connection._read_packet().get_all_data())

            def definitions(count: int, kind: type[MysqlPacket]) -> list[MysqlPacket]:
                described = [connection._read_packet(kind) for _ in range(count)]
                if count:
                    # Skip the packet that ends the definitions.
                    connection._read_packet()
                return described

            definitions(parameters, MysqlPacket)
            self._statements[statement] = number, definitions(columns, FieldDescriptorPacket)
        return self._statements[statement]


class Thin(Client):
    """A connection through the C extension, without the connector's cursors, which are in Python. See `Client`."""

    def __init__(self, address: ConnectionArguments, loading: bool, flags: int = 0) -> None:
        try:
            # Load all of Python's OpenSSL first (`hashlib` loads half): the extension's own copy conflicts with it.
            import ssl  # noqa: F401

            import _mysql_connector
        except ImportError as error:
            raise Refused(
                f"client=c can't load MySQL Connector/Python's C extension ({error}): it needs {REQUIRES[1]}"
            ) from None
        connection = _mysql_connector.MySQL(
            buffered=True,
            raw=False,
            use_unicode=True,
            charset_name=CHARSET,
            connection_timeout=SECONDS,
            # This directory has the plug-in for MariaDB's authentication method.
            plugin_dir=str(Path(_mysql_connector.__file__).parent / "mysql" / "vendor" / "plugin"),
        )
        # By default the extension uses no TLS, while PyMySQL uses TLS if the server has it.
        connection.connect(**{"ssl_disabled": False, **address}, local_infile=int(loading), client_flags=flags)
        connection.autocommit(True)
        # The library requests a collation that MariaDB does not know, so the connection would get latin1.
        connection.query(f"SET NAMES {CHARSET}".encode())
        self._connection = connection
        self._query = connection.query
        self._quoted = connection.convert_to_mysql
        self._row = connection.fetch_row
        self._free = connection.free_result
        self._statements: dict[str, bytes] = {}

    def execute(self, statement: str, values: Sequence[str | int] = ()) -> Thin:
        encoded = self._statements.get(statement)
        if encoded is None:
            encoded = self._statements[statement] = statement.encode()
        self._query(encoded % tuple(self._quoted(*values)) if values else encoded)
        return self

    def call(self, statement: str, values: Sequence[str | int]) -> tuple[str, ...] | None:
        row: tuple[str, ...] | None = self.execute(statement, values).fetchone()
        while self._connection.more_results():
            self._connection.next_result()
            self._free()
        return row

    def stream_rows(self, statement: str, count: int) -> Iterator[Sequence[tuple[object, ...]]]:
        self._query(statement.encode(), buffered=False)
        rows = iter(self._row, None)
        with finally_(self._free):
            while piece := list(islice(rows, count)):
                yield piece

    @property
    def columns(self) -> list[str] | None:
        connection = self._connection
        if connection.have_result_set:
            return [field[4] for field in connection.fetch_fields()]
        return None

    @property
    def rowcount(self) -> int:
        return int(self._connection.affected_rows())

    def fetchone(self) -> tuple[str, ...] | None:
        row: tuple[str, ...] | None = self._row()
        self._free()
        return row

    def fetchall(self) -> list[tuple[str, ...]]:
        rows = list(iter(self._row, None))
        self._free()
        return rows

    @property
    def encrypted(self) -> bool:
        return bool(self._connection.get_ssl_cipher())

    @property
    def library(self) -> str:
        return f"MySQL Connector/Python's C extension {self._connection.get_client_info()}"


def load(client: Client, statement: str, content: ReadableBuffer) -> int:
    """Loads rows by LOAD DATA, which both vendors recommend for many rows; returns the number of rows. The rows are
    in a file in memory, whose path replaces {path} in `statement`."""
    with os.fdopen(os.memfd_create("rows"), "wb") as file:
        file.write(memoryview(content))
        file.flush()
        return int(client.execute(statement.format(path=f"/proc/self/fd/{file.fileno()}")).rowcount)


def connect(server: StoreServer[ConnectionArguments], client: str, loading: bool = False, flags: int = 0) -> Client:
    """Returns a connection to the server, with flags such as MATCHED_ROWS. If `loading`, it may load files of the
    client. Raises Refused."""
    address = server.address
    try:
        connection = {"c": Thin, NATIVE_CLIENT: Native}.get(client, Client)(address, loading, flags)
        if "ssl_ca" in address and not connection.encrypted:
            # Without TLS on the server, PyMySQL before 1.2 and the extension connect unencrypted.
            connection.close()
            raise ConnectionError("the server has no TLS, which ssl_ca asks for")
        return connection
    except Refused:
        raise
    except Exception as error:
        # Each library has its own errors, and PyMySQL raises a RuntimeError for a password that it can't encrypt.
        raise user_server.unreachable_error(server, error, error_text(error)) from None


def error_text(error: Exception) -> str:
    """Returns an error message of either library in one line, without the error number."""
    return " ".join(str(error.args[-1] if error.args else error).split())


def parse_address(url: str) -> dict[str, object]:
    """Returns the arguments with which both libraries connect to the server at this URL. Raises Refused."""
    parts = urlsplit(url)
    arguments = dict(parse_qsl(parts.query))
    if unknown := [name for name in arguments if name not in ARGUMENTS]:
        raise Refused(f"{mask_password(url)}: {unknown[0]} is not known; there are: {', '.join(ARGUMENTS)}")
    optional: Iterable[tuple[str, str]] = (
        ("user", unquote(parts.username or "")),
        ("password", unquote(parts.password or "")),
        ("database", unquote(parts.path.strip("/"))),
    )
    if "unix_socket" in arguments:
        host = {}
    else:
        host = {"host": parts.hostname or "localhost", "port": parts.port or PORT}
    # If the user names a certificate authority, verify the server's certificate.
    if "ssl_ca" in arguments:
        checked = {"ssl_verify_cert": True}
    else:
        checked = {}
    return {**host, **arguments, **checked, **{name: value for name, value in optional if value}}
