"""The `records` port over a collection of documents, by pymongo: what engines with MongoDB's protocol share.

A record is a document of five fields, the two indexed values among them, for the server has no index on a reversed
field. Its `_id` is one string, made of name and location so that its order is that of the two; the server compares
strings by their bytes. No engine, no server and no tier may be put here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import Any

from dyno.suites.records.encoding import identity
from dyno.suites.records.port import INDEXES, Key, Reader, Record
from dyno.suites.records.sql import batches

COLLECTION = "records"
FIELDS = {"_id": 0, "name": 1, "location": 1, "stub": 1}
"""What a read asks for: the answer is the record, and nothing is left to do with it."""
BATCH = 1_000
"""Documents that go in one message, at most: as many as the tables of SQL servers take together."""

Session = Any
"""pymongo's, which is in a transaction; None where there is none."""


def document(record: Record, indexed: bool) -> dict[str, str]:
    made = {"_id": identity(record["name"], record["location"]), **record}
    return made | {name: function(record) for name, function in INDEXES.items()} if indexed else made


def record(found: dict[str, str]) -> Record:
    """A whole document as the application sees it."""
    return {"name": found["name"], "location": found["location"], "stub": found["stub"]}


class DocumentReader(Reader):
    """Reads in the session's transaction, or each for itself."""

    def __init__(self, collection: Any, session: Session = None) -> None:
        self._collection, self._session = collection, session

    def get(self, key: Key) -> Record | None:
        found: Record | None = self._collection.find_one({"_id": identity(*key)}, FIELDS, session=self._session)
        return found

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        there = _there(self._collection, keys, self._session)
        return [there.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        find_one, session = self._collection.find_one, self._session

        def find(value: str) -> Record | None:
            found: Record | None = find_one({index: value}, FIELDS, session=session)
            return found

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        find, session = self._collection.find, self._session

        def scan(key: Key) -> list[Record]:
            wanted = {"_id": {"$gte": identity(*key)}}
            # All of them in one answer: there is no second batch to ask for.
            return list(find(wanted, FIELDS, sort=[("_id", 1)], limit=count, batch_size=count + 1, session=session))

        return scan


class DocumentRecords:
    """See `dyno.suites.records.port.Records`. `transaction` opens one, and yields its session, or None where the
    server has none: then every message is written by itself.

    One record is written by a single message, which is atomic without a transaction. `replaced` is how many a message
    may replace.
    """

    def __init__(
        self,
        database: Any,
        indexed: bool,
        transaction: Callable[[], AbstractContextManager[Session]],
        replaced: int = BATCH,
    ) -> None:
        self._collection, self._indexed = database[COLLECTION], indexed
        self._transaction, self._replaced = transaction, replaced
        if COLLECTION not in database.list_collection_names():
            database.create_collection(COLLECTION)
        for name in INDEXES if indexed else ():
            self._collection.create_index(name)

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
        """Looks for all of them; puts in those that are new, and replaces the others."""
        from pymongo import ReplaceOne

        keys = [(new["name"], new["location"]) for new in batch]
        there = _there(self._collection, keys, session)
        latest: dict[Key, Record] = dict(there)
        olds: list[Record | None] = []
        for key, new in zip(keys, batch, strict=True):
            olds.append(latest.get(key))
            latest[key] = new
        if absent := [latest[key] for key in dict.fromkeys(keys) if key not in there]:
            self._insert(absent, session)
        news = (document(latest[key], self._indexed) for key in there)
        for some in batches(news, self._replaced):
            self._collection.bulk_write([ReplaceOne({"_id": new["_id"]}, new) for new in some], session=session)
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        first, every = _ahead(keys)
        if len(first) == 1:
            return [self._collection.delete_one({"_id": identity(*first[0])}).deleted_count == 1]
        found: list[bool] = []
        if first:
            with self._transaction() as session:
                for batch in batches(every, BATCH):
                    there = _there(self._collection, batch, session)
                    gone = [identity(*key) for key in there]
                    self._collection.delete_many({"_id": {"$in": gone}}, session=session)
                    # Only the first mention of a key finds it.
                    found += [there.pop(key, None) is not None for key in batch]
        return found

    def close(self) -> None:
        """The connection is the engine's."""


def _there(collection: Any, keys: Sequence[Key], session: Session) -> dict[Key, Record]:
    """Those of these keys that there are, in one answer."""
    wanted = {"_id": {"$in": [identity(*key) for key in dict.fromkeys(keys)]}}
    found = collection.find(wanted, FIELDS, batch_size=len(keys) + 1, session=session)
    return {(one["name"], one["location"]): one for one in found}


def _ahead(items: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """The first two, to see whether there is more than one, and all."""
    rest = iter(items)
    first = list(islice(rest, 2))
    return first, chain(first, rest)
