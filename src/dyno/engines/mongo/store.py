"""Base of the engines with MongoDB's protocol: a store that is a database, reached through pymongo, and the port
`records` on a collection of documents.

A record is a document of five fields. Two fields are the indexed values, because the server can't index a reversed
field. The `_id` is a string made of name and location, which sorts like the pair: the server compares strings by
their bytes. With native load, operations on a single document are sent by native code.
"""

from __future__ import annotations

import shlex
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from dyno.contracts.model import Refused, Value
from dyno.contracts.native import load_native
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT, Exchange
from dyno.contracts.passwords import mask_password, without_password
from dyno.contracts.settings import Setting, choice
from dyno.servers import user_server
from dyno.servers.server_engine import ServerStore
from dyno.suites.records.port import INDEXES, Key, Reader, Record, identity
from dyno.suites.records.sql import RecordTable, batches

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.client_session import ClientSession
    from pymongo.collection import Collection
    from pymongo.results import DeleteResult
    from pymongo.synchronous.pool import Connection

    from dyno.servers.listen import StoreServer

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
    def concern(self) -> Mapping[str, Value]:
        """The write concern of the tier: `w` and `journal`."""
        return {}

    @classmethod
    def open_client(cls, server: StoreServer[str], options: Mapping[str, Value]) -> MongoClient[Document]:
        return connect(server)

    @classmethod
    def stores(cls, client: MongoClient[Document]) -> Iterable[str]:
        return client.list_database_names()

    @classmethod
    def drop(cls, client: MongoClient[Document], name: str) -> None:
        client.drop_database(name)

    def create(self) -> None:
        from pymongo import WriteConcern

        concern: dict[str, Any] = {"j" if name == "journal" else name: value for name, value in self.concern.items()}
        self.database = self.client.get_database(
            self.name, write_concern=WriteConcern(**concern) if concern else None
        )

    def transaction(self) -> AbstractContextManager[ClientSession | None]:
        """Begins a transaction and returns its session: None if each message is written independently."""
        return nullcontext()

    @property
    def tls(self) -> bool | None:
        pool = self.client.options.pool_options
        if hasattr(pool, "_ssl_context"):
            return pool._ssl_context is not None
        return None

    def version(self) -> str:
        import pymongo

        info = self.client.server_info()
        ferretdb = info.get("ferretdbVersion")
        if ferretdb:
            name = f"FerretDB {ferretdb.lstrip('v')}"
        else:
            name = f"MongoDB {info['version']}"
        return f"{name} (pymongo {pymongo.version})"

    def settings(self) -> Mapping[str, Value | None]:
        import bson

        # Report whether pymongo encodes documents in its C extension or in Python.
        return {**super().settings(), "client": self.options[CLIENT], "bson": "C" if bson.has_c() else "Python"}

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        if getattr(error, "code", None) == UNAUTHORIZED:
            return error_text(error)
        return None

    @classmethod
    def removal(cls, name: str, address: str) -> str:
        words = ["mongosh", without_password(address), "--eval", f"db.getSiblingDB('{name}').dropDatabase()"]
        return shlex.join(words)


def connect(server: Any, **settings: Any) -> MongoClient[Document]:
    """Returns a client after a first successful request to the server. Raises Refused. The client never retries: a
    failed operation is counted as failed."""
    from pymongo import MongoClient
    from pymongo.errors import PyMongoError

    client: MongoClient[Document] | None = None
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
        raise user_server.unreachable_error(server, error, error_text(error)) from None
    return client


def error_text(error: Exception) -> str:
    """Returns pymongo's message in one line, without the description of the topology."""
    text = " ".join(str(error).split()).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
    return mask_password(text)


Document = Mapping[str, Any]
REQUEST_ID = 1
"""Number of every message. A connection has one request at a time, so they needn't differ."""


class NativeCollection:
    """A collection of pymongo. While its exchange is active, native load sends the commands of the methods on one
    document, with the collection's write concern. pymongo does everything else.

    The commands are pymongo's, but without a session: one request at a time needs none.
    """

    def __init__(self, collection: Collection[Record], client: MongoClient[Document]) -> None:
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
        if concern.is_server_default:
            self._concern = {}
        else:
            self._concern = {"writeConcern": concern.document}

        self._bson, self._frame = bson, load_native().mongodb

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def _ask(self, command: Document) -> dict[str, Any]:
        document = self._bson.encode({**command, "$db": self._collection.database.name})
        answer: dict[str, Any] = self._bson.decode(self.exchange.ask(self._frame(REQUEST_ID, document)))
        return answer

    def find_one(self, query: Document, fields: Document, session: Session = None) -> Record | None:
        if not self.exchange.active:
            return self._collection.find_one(query, fields, session=session)
        command = {"find": self._collection.name, "filter": query, "projection": fields, "limit": 1}
        batch: list[Record] = self._ask({**command, "singleBatch": True})["cursor"]["firstBatch"]
        if batch:
            return batch[0]
        return None

    def insert_one(self, document: Record) -> None:
        if self.exchange.active:
            self._ask({"insert": self._collection.name, "documents": [document], **self._concern})
        else:
            self._collection.insert_one(document)

    def find_one_and_replace(self, query: Document, new: Record, upsert: bool) -> Any:
        if not self.exchange.active:
            return self._collection.find_one_and_replace(query, new, upsert=upsert)
        command = {"findAndModify": self._collection.name, "query": query, "update": new, "upsert": upsert}
        return self._ask({**command, **self._concern})["value"]

    def delete_one(self, query: Document) -> DeleteResult | SimpleNamespace:
        if not self.exchange.active:
            return self._collection.delete_one(query)
        deletes = [{"q": query, "limit": 1}]
        answer = self._ask({"delete": self._collection.name, "deletes": deletes, **self._concern})
        return SimpleNamespace(deleted_count=answer["n"])

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _connection(client: Any) -> Iterator[Connection]:
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


COLLECTION = "records"
FIELDS = {"_id": 0, "name": 1, "location": 1, "stub": 1}
"""Projection of a read, which returns exactly the record."""
Session: TypeAlias = "ClientSession | None"
"""A session of pymongo during a transaction; None outside of transactions."""


def document(record: Record, indexed: bool) -> dict[str, str]:
    plain = {"_id": identity(record["name"], record["location"]), **record}
    if indexed:
        return plain | {name: function(record) for name, function in INDEXES.items()}
    return plain


def read_record(document: dict[str, str]) -> Record:
    return {"name": document["name"], "location": document["location"], "stub": document["stub"]}


class DocumentReader(Reader):
    """Reads in the session's transaction. Without a session, each read is independent."""

    def __init__(self, collection: Collection[Record] | NativeCollection, session: Session = None) -> None:
        self._collection, self.session = collection, session

    def get(self, key: Key) -> Record | None:
        return self._collection.find_one({"_id": identity(*key)}, FIELDS, session=self.session)

    def find_existing(self, keys: Sequence[Key]) -> dict[Key, Record]:
        """Returns the existing records with these keys, by one query."""
        query = {"_id": {"$in": [identity(*key) for key in dict.fromkeys(keys)]}}
        records = self._collection.find(query, FIELDS, batch_size=len(keys) + 1, session=self.session)
        return {(one["name"], one["location"]): one for one in records}

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        existing = self.find_existing(keys)
        return [existing.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        find_one, session = self._collection.find_one, self.session

        def find(value: str) -> Record | None:
            return find_one({index: value}, FIELDS, session=session)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        find, session = self._collection.find, self.session

        def scan(key: Key) -> list[Record]:
            query = {"_id": {"$gte": identity(*key)}}
            # Because the batch size exceeds the limit, one answer has all documents.
            return list(find(query, FIELDS, sort=[("_id", 1)], limit=count, batch_size=count + 1, session=session))

        return scan


class DocumentRecords(RecordTable):
    """The port `records`. A single record is written by a single message, which is atomic without a transaction. With
    native load, operations on a single record can be sent by native code."""

    batch = BATCH
    current: DocumentReader

    def __init__(self, engine: DocumentStore, indexed: bool) -> None:
        database = engine.database
        self._collection = database[COLLECTION]
        self._indexed = indexed
        self._engine = engine
        if COLLECTION not in database.list_collection_names():
            database.create_collection(COLLECTION)
        for name in INDEXES if indexed else ():
            self._collection.create_index(name)
        self._native: NativeCollection | None = None
        if engine.options[CLIENT] == NATIVE_CLIENT:
            self._collection = self._native = NativeCollection(self._collection, database.client)
            self.exchange = self._native.exchange
        self.current = DocumentReader(self._collection)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        outside = self.current
        with self._engine.transaction() as session:
            self.current = DocumentReader(self._collection, session)
            try:
                yield
            finally:
                self.current = outside

    def insert_one(self, record: Record) -> None:
        self._collection.insert_one(document(record, self._indexed))

    def insert_many(self, records: Iterable[Record]) -> None:
        for batch in batches(records, BATCH):
            documents = [document(one, self._indexed) for one in batch]
            self._collection.insert_many(documents, session=self.current.session)

    def replace_one(self, new: Record) -> Record | None:
        replacement = document(new, self._indexed)
        old = self._collection.find_one_and_replace({"_id": replacement["_id"]}, replacement, upsert=True)
        if old is None:
            return None
        return read_record(old)

    def store_over(self, records: list[Record], present: Mapping[Key, Record]) -> None:
        from pymongo import ReplaceOne

        changed = list[object]()
        absent = list[Record]()
        for each in records:
            if (each["name"], each["location"]) in present:
                new = document(each, self._indexed)
                changed.append(ReplaceOne({"_id": new["_id"]}, new))
            else:
                absent.append(each)
        self.insert_many(absent)
        for some in batches(changed, self._engine.replaced):
            self._collection.bulk_write(some, session=self.current.session)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        return self.current.find_existing(keys)

    def delete_one(self, key: Key) -> bool:
        return bool(self._collection.delete_one({"_id": identity(*key)}).deleted_count == 1)

    def delete_many(self, keys: list[Key]) -> None:
        gone = {"_id": {"$in": [identity(*key) for key in keys]}}
        self._collection.delete_many(gone, session=self.current.session)

    def close(self) -> None:
        """Closes the connection of native load. The engine closes pymongo's client."""
        if self._native is not None:
            self._native.close()
