"""Base of the engines with MongoDB's protocol: a store that is a database, reached through pymongo."""

import shlex
import warnings
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from dyno.contracts.model import Value
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.contracts.passwords import mask_password
from dyno.contracts.settings import Setting, choice
from dyno.servers import user_server
from dyno.servers.server_engine import ServerStore

SCHEMES = ("mongodb", "mongodb+srv")
CLIENT_SETTING = Setting(CLIENT, choice("pymongo", NATIVE_CLIENT), "pymongo", "native: native load, without TLS")
UNAUTHORIZED = 13
BATCH = 1_000
"""Maximum number of documents in one message, the same as the batch size of SQL tables."""
TIMEOUT_MS = 5_000
"""Milliseconds that the client searches for a server that answers. The default is 30 s."""


class DocumentStore(ServerStore):
    """A store in one database on the server. Every client process has its own pymongo client."""

    replaced: ClassVar[int] = BATCH
    """Number of documents that one message may replace."""

    @property
    def concern(self) -> Mapping[str, Any]:
        """The write concern of the tier: `w` and `journal`."""
        return {}

    @classmethod
    def open_client(cls, server: Any, options: Mapping[str, Value]) -> Any:
        return connect(server)

    @classmethod
    def stores(cls, client: Any) -> Iterable[str]:
        return client.list_database_names()  # type: ignore[no-any-return]

    @classmethod
    def drop(cls, client: Any, name: str) -> None:
        client.drop_database(name)

    def create(self) -> None:
        from pymongo import WriteConcern

        concern = {"j" if name == "journal" else name: value for name, value in self.concern.items()}
        self.database = self.client.get_database(
            self.name, write_concern=WriteConcern(**concern) if concern else None
        )

    def transaction(self) -> AbstractContextManager[Any]:
        """Begins a transaction and returns its session: None if each message is written independently."""
        return nullcontext()

    @property
    def tls(self) -> bool | None:
        pool = self.client.options.pool_options
        return pool._ssl_context is not None if hasattr(pool, "_ssl_context") else None

    def version(self) -> str:
        import pymongo

        info = self.client.server_info()
        ferretdb = info.get("ferretdbVersion")
        name = f"FerretDB {ferretdb.lstrip('v')}" if ferretdb else f"MongoDB {info['version']}"
        return f"{name} (pymongo {pymongo.version})"

    def settings(self) -> Mapping[str, Value | None]:
        import bson

        # Report whether pymongo encodes documents in its C extension or in Python.
        return {**super().settings(), "client": self.options[CLIENT], "bson": "C" if bson.has_c() else "Python"}

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        return error_text(error) if getattr(error, "code", None) == UNAUTHORIZED else None

    @classmethod
    def removal(cls, name: str, address: Any) -> str:
        return shlex.join(["mongosh", address, "--eval", f"db.getSiblingDB('{name}').dropDatabase()"])


def connect(server: Any, **settings: Any) -> Any:
    """Returns a client after a first successful request to the server. Raises Refused. The client never retries: a
    failed operation is counted as failed."""
    from pymongo import MongoClient
    from pymongo.errors import PyMongoError

    client: Any = None
    try:
        with warnings.catch_warnings():
            # pymongo only warns of unknown options, so `tsl=true` would give a connection without TLS.
            warnings.filterwarnings("error", "Unknown option", UserWarning)
            client = MongoClient(
                server.address, retryWrites=False, retryReads=False, serverSelectionTimeoutMS=TIMEOUT_MS, **settings
            )
        client.admin.command("ping")
    except (PyMongoError, UserWarning) as error:
        if client is not None:
            client.close()
        raise user_server.unreachable(server, error_text(error)) from None
    return client


def error_text(error: Exception) -> str:
    """Returns pymongo's message in one line, without the description of the topology."""
    text = " ".join(str(error).split()).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
    return mask_password(text)
