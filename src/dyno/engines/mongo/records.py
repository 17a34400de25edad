"""The port `records` on a collection of documents, through pymongo.

A record is a document of five fields. Two fields are the indexed values, because the server can't index a reversed
field. The `_id` is a string made of name and location, which sorts like the pair: the server compares strings by
their bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import Any

from dyno.suites.records.encoding import identity
from dyno.suites.records.port import INDEXES, Key, Reader, Record
from dyno.suites.records.sql import batches

COLLECTION = "records"
FIELDS = {"_id": 0, "name": 1, "location": 1, "stub": 1}
"""Projection of a read, which returns exactly the record."""
BATCH = 1_000
"""Maximum number of documents in one message, the same as the batch size of SQL tables."""

Session = Any
"""A session of pymongo during a transaction; None outside of transactions."""


def document(record: Record, indexed: bool) -> dict[str, str]:
    plain = {"_id": identity(record["name"], record["location"]), **record}
    return plain | {name: function(record) for name, function in INDEXES.items()} if indexed else plain


def record(document: dict[str, str]) -> Record:
    """Returns the record that a document contains."""
    return {"name": document["name"], "location": document["location"], "stub": document["stub"]}


class DocumentReader(Reader):
    """Reads in the session's transaction. Without a session, each read is independent."""

    def __init__(self, collection: Any, session: Session = None) -> None:
        self._collection, self._session = collection, session

    def get(self, key: Key) -> Record | None:
        return self._collection.find_one(  # type: ignore[no-any-return]
            {"_id": identity(*key)}, FIELDS, session=self._session
        )

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        existing = _existing(self._collection, keys, self._session)
        return [existing.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        find_one, session = self._collection.find_one, self._session

        def find(value: str) -> Record | None:
            return find_one({index: value}, FIELDS, session=session)  # type: ignore[no-any-return]

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        find, session = self._collection.find, self._session

        def scan(key: Key) -> list[Record]:
            query = {"_id": {"$gte": identity(*key)}}
            # Because the batch size exceeds the limit, one answer has all documents.
            return list(find(query, FIELDS, sort=[("_id", 1)], limit=count, batch_size=count + 1, session=session))

        return scan


class DocumentRecords:
    """See `dyno.suites.records.port.Records`. `transaction` begins a transaction and yields its session. It yields
    None if the server has no transactions, so that each message is written independently.

    A single record is written by a single message, which is atomic without a transaction. `replaced` is the number of
    documents that one message may replace. If `native`, operations on a single record can be sent by native load.
    """

    def __init__(
        self,
        database: Any,
        indexed: bool,
        transaction: Callable[[], AbstractContextManager[Session]],
        replaced: int = BATCH,
        native: bool = False,
    ) -> None:
        self._collection, self._indexed = database[COLLECTION], indexed
        self._transaction, self._replaced = transaction, replaced
        if COLLECTION not in database.list_collection_names():
            database.create_collection(COLLECTION)
        for name in INDEXES if indexed else ():
            self._collection.create_index(name)
        self._native: Any = None
        if native:
            from dyno.engines.mongo.native import NativeCollection

            self._collection = self._native = NativeCollection(self._collection, database.client)
            self.exchange = self._native.exchange

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._transaction() as session:
            yield DocumentReader(self._collection, session)

    def reader(self) -> Reader:
        return DocumentReader(self._collection)

    def insert(self, records: Iterable[Record]) -> None:
        first, every = _ahead(records)
        if len(first) == 1:
            self._collection.insert_one(document(first[0], self._indexed))
        elif first:
            with self._transaction() as session:
                for batch in batches(every, BATCH):
                    self._insert(batch, session)

    def _insert(self, records: Iterable[Record], session: Session) -> None:
        self._collection.insert_many([document(one, self._indexed) for one in records], session=session)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        first, every = _ahead(records)
        if len(first) == 1:
            return [self._replace_one(document(first[0], self._indexed))]
        olds: list[Record | None] = []
        if first:
            with self._transaction() as session:
                for batch in batches(every, BATCH):
                    olds += self._replace(batch, session)
        return olds

    def _replace_one(self, new: dict[str, str]) -> Record | None:
        old = self._collection.find_one_and_replace({"_id": new["_id"]}, new, upsert=True)
        return None if old is None else record(old)

    def _replace(self, batch: list[Record], session: Session) -> list[Record | None]:
        """Inserts the records that don't exist and replaces the others; returns the old records."""
        from pymongo import ReplaceOne

        keys = [(new["name"], new["location"]) for new in batch]
        existing = _existing(self._collection, keys, session)
        latest: dict[Key, Record] = dict(existing)
        olds: list[Record | None] = []
        for key, new in zip(keys, batch, strict=True):
            olds.append(latest.get(key))
            latest[key] = new
        if absent := [latest[key] for key in dict.fromkeys(keys) if key not in existing]:
            self._insert(absent, session)
        news = (document(latest[key], self._indexed) for key in existing)
        for some in batches(news, self._replaced):
            self._collection.bulk_write([ReplaceOne({"_id": new["_id"]}, new) for new in some], session=session)
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        first, every = _ahead(keys)
        if len(first) == 1:
            return [self._collection.delete_one({"_id": identity(*first[0])}).deleted_count == 1]
        deleted: list[bool] = []
        if first:
            with self._transaction() as session:
                for batch in batches(every, BATCH):
                    existing = _existing(self._collection, batch, session)
                    gone = [identity(*key) for key in existing]
                    self._collection.delete_many({"_id": {"$in": gone}}, session=session)
                    # If a key occurs several times, only its first occurrence deletes the record.
                    deleted += [existing.pop(key, None) is not None for key in batch]
        return deleted

    def close(self) -> None:
        """Closes the connection of native load. The engine closes pymongo's client."""
        if self._native is not None:
            self._native.close()


def _existing(collection: Any, keys: Sequence[Key], session: Session) -> dict[Key, Record]:
    """Returns the existing records with these keys, by one query."""
    query = {"_id": {"$in": [identity(*key) for key in dict.fromkeys(keys)]}}
    records = collection.find(query, FIELDS, batch_size=len(keys) + 1, session=session)
    return {(one["name"], one["location"]): one for one in records}


def _ahead(items: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """Returns the first two items, to tell whether there are several, and an iterator over all items."""
    rest = iter(items)
    first = list(islice(rest, 2))
    return first, chain(first, rest)
