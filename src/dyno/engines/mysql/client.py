"""A client's connection to MariaDB or MySQL: by PyMySQL, or by the C extension of MySQL Connector/Python.

Both libraries put the values into a statement themselves, escaped. What a statement is about may not be put here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.cleanup import finally_
from dyno.contracts.model import Refused
from dyno.host.installation import version
from dyno.servers import user_server
from dyno.text.passwords import mask_password

CLIENTS = ("pymysql", "c")
PORT = 3306
ARGUMENTS = ("unix_socket", "ssl_ca")
"""What may follow a question mark in the address of a user's own server."""
CHARSET = "utf8mb4"
SECONDS = 10
"""To connect in."""
# Later versions of the second want OpenSSL 3.2 in the process, which is Python's, and what Debian 12 has is older.
REQUIRES = ("PyMySQL>=1.1", "mysql-connector-python>=9,<10")


class Client(Protocol):
    """One connection, on which every statement is committed where no transaction was begun."""

    def execute(self, statement: str, values: Sequence[str | int] = ()) -> Any:
        """Returns what has `fetchone`, `fetchall` and `rowcount`, until the next statement. %s stands for a value."""

    def call(self, statement: str, values: Sequence[str | int]) -> tuple[str, ...] | None:
        """Calls a procedure: the first row that it gives."""

    def streamed(self, statement: str, count: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        """What it finds, so many rows at a time, and never all of them in memory. Until its end the connection is
        for nothing else."""

    def close(self) -> None: ...

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""

    @property
    def library(self) -> str:
        """Its name and version."""


class Cursor:
    """See `Client`: by PyMySQL, as its users do it."""

    def __init__(self, address: Mapping[str, Any], loading: bool) -> None:
        import pymysql

        self._connection = pymysql.connect(
            **address, charset=CHARSET, autocommit=True, connect_timeout=SECONDS, local_infile=loading
        )
        self._cursor = self._connection.cursor()
        self._run = self._cursor.execute

    def execute(self, statement: str, values: Sequence[str | int] = ()) -> Any:
        self._run(statement, values)
        return self._cursor

    def call(self, statement: str, values: Sequence[str | int]) -> tuple[str, ...] | None:
        self._run(statement, values)
        row: tuple[str, ...] | None = self._cursor.fetchone()
        while self._cursor.nextset():
            pass
        return row

    def streamed(self, statement: str, count: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        from pymysql.cursors import SSCursor

        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(count):
                yield rows

    def close(self) -> None:
        self._connection.close()

    @property
    def encrypted(self) -> bool:
        return bool(self._connection._secure)

    @property
    def library(self) -> str:
        return f"PyMySQL {version('pymysql')}"


class Thin:
    """See `Client`: by the C extension alone, without the cursors of its library, which are Python again."""

    def __init__(self, address: Mapping[str, Any], loading: bool) -> None:
        try:
            # Python's OpenSSL, of which `hashlib` has loaded one half: the extension's own does not go with that.
            import ssl  # noqa: F401

            import _mysql_connector
        except ImportError as error:
            raise Refused(
                f"client=c can't load MySQL Connector/Python's C extension ({error}): it wants {REQUIRES[1]}"
            ) from None
        connection = _mysql_connector.MySQL(
            buffered=True,
            raw=False,
            use_unicode=True,
            charset_name=CHARSET,
            connection_timeout=SECONDS,
            # Where it brings the way in which MariaDB asks who one is.
            plugin_dir=str(Path(_mysql_connector.__file__).parent / "mysql" / "vendor" / "plugin"),
        )
        # Its default is no TLS. PyMySQL's is TLS if the server has it.
        connection.connect(**{"ssl_disabled": False, **address}, local_infile=int(loading))
        connection.autocommit(True)
        # A MySQL library names a collation that MariaDB does not know, and would be left with latin1.
        connection.query(f"SET NAMES {CHARSET}".encode())
        self._connection = connection
        self._query, self._quoted, self._row = connection.query, connection.convert_to_mysql, connection.fetch_row
        self._free = connection.free_result
        self._statements: dict[str, bytes] = {}

    def execute(self, statement: str, values: Sequence[str | int] = ()) -> Thin:
        told = self._statements.get(statement)
        if told is None:
            told = self._statements[statement] = statement.encode()
        self._query(told % tuple(self._quoted(*values)) if values else told)
        return self

    def call(self, statement: str, values: Sequence[str | int]) -> tuple[str, ...] | None:
        row: tuple[str, ...] | None = self.execute(statement, values).fetchone()
        while self._connection.more_results():
            self._connection.next_result()
            self._free()
        return row

    def streamed(self, statement: str, count: int) -> Iterator[Sequence[tuple[Any, ...]]]:
        self._query(statement.encode(), buffered=False)
        rows = iter(self._row, None)
        with finally_(self._free):
            while piece := list(islice(rows, count)):
                yield piece

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

    def close(self) -> None:
        self._connection.close()

    @property
    def encrypted(self) -> bool:
        return bool(self._connection.get_ssl_cipher())

    @property
    def library(self) -> str:
        return f"MySQL Connector/Python's C extension {self._connection.get_client_info()}"


def missing(client: str, remedy: str) -> str | None:
    """What is not here for that client beside PyMySQL, with the command that installs it; None where all is."""
    wanting = client == "c" and importlib.util.find_spec("_mysql_connector") is None
    return f"needs MySQL Connector/Python for client=c: {remedy}" if wanting else None


def connect(server: Any, client: str, loading: bool = False) -> Client:
    """A connection to the server, on which files of the client's may be loaded. Raises Refused where there is none to
    be had."""
    address = server.address if server.own else address_of(server.url)
    try:
        connection: Client = Thin(address, loading) if client == "c" else Cursor(address, loading)
        if "ssl_ca" in address and not connection.encrypted:
            # PyMySQL before 1.2, and the extension, go on without TLS if the server has none.
            connection.close()
            raise ConnectionError("the server has no TLS, which ssl_ca asks for")
        return connection
    except Refused:
        raise
    except Exception as error:
        # Each library has errors of its own, and PyMySQL a RuntimeError for a password that it can't encrypt.
        raise user_server.unreachable(server, said(error)) from None


def said(error: Exception) -> str:
    """What an error of the libraries says, without its number, in one line."""
    return " ".join(str(error.args[-1] if error.args else error).split())


def address_of(url: str) -> dict[str, Any]:
    """The arguments with which both libraries connect to the server of that address. Raises Refused."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    if wrong := [name for name in given if name not in ARGUMENTS]:
        raise Refused(f"{mask_password(url)}: {wrong[0]} is not known; there are: {', '.join(ARGUMENTS)}")
    named: Iterable[tuple[str, Any]] = (
        ("user", unquote(parts.username or "")),
        ("password", unquote(parts.password or "")),
        ("database", unquote(parts.path.strip("/"))),
    )
    where = {} if "unix_socket" in given else {"host": parts.hostname or "localhost", "port": parts.port or PORT}
    # Who names an authority wants its word.
    checked = {"ssl_verify_cert": True} if "ssl_ca" in given else {}
    return {**where, **given, **checked, **{name: value for name, value in named if value}}
