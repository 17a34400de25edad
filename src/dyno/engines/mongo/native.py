"""Native load for servers with MongoDB's protocol: requests and answers of a collection's methods on one document."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from dyno.contracts.model import Refused
from dyno.contracts.native import loaded
from dyno.contracts.native_load import Exchange

Document = Mapping[str, Any]
REQUEST_ID = 1
"""Number of every message. A connection has one request at a time, so they needn't differ."""


class Deleted(NamedTuple):
    """Result of a deletion, with pymongo's name."""

    deleted_count: int


class NativeCollection:
    """A collection of pymongo. While its exchange is active, native load sends the commands of the methods on one
    document, with the collection's write concern. pymongo does everything else.

    The commands are pymongo's, but without a session: one request at a time needs none.
    """

    def __init__(self, collection: Any, client: Any) -> None:
        import bson

        self._collection = collection
        self._stack = ExitStack()
        connection = self._stack.enter_context(_connection(client))
        # The connection isn't reused: a response may still be on its way.
        self._stack.callback(connection.close_conn, None)
        # Before pymongo 4.11, this is the socket itself.
        sock = getattr(connection.conn, "sock", connection.conn)
        # Sockets of any other class, such as those of ssl and PyOpenSSL, encrypt.
        self.exchange = Exchange("mongodb", sock.fileno(), encrypted=type(sock) is not socket.socket)
        concern = collection.write_concern
        self._concern = {} if concern.is_server_default else {"writeConcern": concern.document}

        self._bson, self._frame = bson, loaded().mongodb

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def _ask(self, command: Document) -> dict[str, Any]:
        document = self._bson.encode({**command, "$db": self._collection.database.name})
        answer: dict[str, Any] = self._bson.decode(self.exchange.ask(self._frame(REQUEST_ID, document)))
        return answer

    def find_one(self, query: Document, fields: Document, session: Any = None) -> Any:
        if not self.exchange.active:
            return self._collection.find_one(query, fields, session=session)
        command = {"find": self._collection.name, "filter": query, "projection": fields, "limit": 1}
        batch = self._ask({**command, "singleBatch": True})["cursor"]["firstBatch"]
        return batch[0] if batch else None

    def insert_one(self, document: Document) -> None:
        if self.exchange.active:
            self._ask({"insert": self._collection.name, "documents": [document], **self._concern})
        else:
            self._collection.insert_one(document)

    def find_one_and_replace(self, query: Document, new: Document, upsert: bool) -> Any:
        if not self.exchange.active:
            return self._collection.find_one_and_replace(query, new, upsert=upsert)
        command = {"findAndModify": self._collection.name, "query": query, "update": new, "upsert": upsert}
        return self._ask({**command, **self._concern})["value"]

    def delete_one(self, query: Document) -> Any:
        if not self.exchange.active:
            return self._collection.delete_one(query)
        deletes = [{"q": query, "limit": 1}]
        return Deleted(self._ask({"delete": self._collection.name, "deletes": deletes, **self._concern})["n"])

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _connection(client: Any) -> Iterator[Any]:
    """Takes an authenticated connection out of the client's pool.

    pymongo's public API doesn't reach the sockets of its pool. These private names exist in all versions from 4.6 to
    4.20: the topology has the server at the client's public `address`, and the server has the pool.
    """
    with ExitStack() as stack:
        try:
            server = client._topology.get_server_by_address(client.address)
            connection = stack.enter_context(server.pool.checkout())
        except AttributeError as error:
            from pymongo import version

            text = f"native load can't take a connection of pymongo {version} ({error}): use --load library"
            raise Refused(text) from None
        yield connection
