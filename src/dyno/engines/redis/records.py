"""The port `records` on Redis and Valkey.

A record is a string, encoded by msgpack, under its own key. A sorted set has all keys in the order of their bytes,
because all its members have the same score. For each index there is a sorted set, whose members are the indexed value
followed by the record's key. Indexed values follow from the key, so a replacement changes no index, and a deletion
does not read the record. A transaction is one MULTI and EXEC, a read takes one round trip, and a scan two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.suites.records.layer import ENCODERS, pack
from dyno.suites.records.port import INDEXES, Key, Reader, Record
from dyno.suites.records.sql import batches

if TYPE_CHECKING:
    from dyno.engines.redis.engines import Keyspace
    from dyno.engines.redis.resp import Client, Command

_MSGPACK = ENCODERS["msgpack"]

BATCH = 1_000
"""Maximum number of records in one command."""

FIND = Path(__file__).with_name("find.lua")


class KeyedReader(Reader):
    """Reads the current state in every read, because Redis has no transactions for reads."""

    def __init__(self, client: Client, prefix: bytes, found: object, pipelined: bool) -> None:
        self._execute = client.execute
        self._prefix = prefix
        self._find = found
        self._pipeline = client.pipeline if pipelined else None

    def get(self, key: Key) -> Record | None:
        value = self._execute(b"GET", pack(self._prefix, key))
        if value is None:
            return None
        return _MSGPACK.decode(value)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        packed = [pack(self._prefix, key) for key in keys]
        if self._pipeline is None:
            values = self._execute(b"MGET", *packed)
        else:
            values = self._pipeline([(b"GET", key) for key in packed])
        return [None if value is None else _MSGPACK.decode(value) for value in values]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        execute = self._execute
        script = self._find
        prefix = self._prefix
        entries = _index(self._prefix, index)

        def find(value: str) -> Record | None:
            record = execute(b"EVALSHA", script, 1, entries, pack(b"", (value,)), prefix)
            if record is None:
                return None
            return _MSGPACK.decode(record)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        # Don't use a script, which would keep the server busy far longer for a hundred strings.
        execute = self._execute
        prefix = self._prefix
        order = _order(self._prefix)

        def scan(key: Key) -> list[Record]:
            keys = execute(b"ZRANGE", order, pack(b"[", key), b"+", b"BYLEX", b"LIMIT", 0, count)
            if keys:
                values = execute(b"MGET", *[prefix + key for key in keys])
            else:
                values = ()
            # Leave out records that another client has deleted in between.
            return [_MSGPACK.decode(value) for value in values if value is not None]

        return scan

    def entries(self, index: str) -> Iterator[bytes]:
        start = b"-"
        while members := self._execute(
            b"ZRANGE", _index(self._prefix, index), start, b"+", b"BYLEX", b"LIMIT", 0, BATCH
        ):
            yield from members
            start = b"(" + members[-1]


class KeyedRecords:
    """See `dyno.suites.records.port.Records`."""

    def __init__(self, engine: Keyspace, indexed: bool) -> None:
        self._client = client = engine.connect()
        self.exchange = getattr(client, "exchange", None)
        self._prefix = prefix = engine.prefix
        self._order = _order(prefix)
        if indexed:
            self._indexes = [(_index(prefix, name), value) for name, value in INDEXES.items()]
        else:
            self._indexes = []
        pipelined = engine.options["many"] == "pipeline"
        self._reader = KeyedReader(client, prefix, client.execute("SCRIPT", "LOAD", FIND.read_text()), pipelined)
        # Commands for each batch: one for the result, one for the change, and one for each sorted set.
        self._commands = 3 + len(self._indexes)

    def reading(self) -> AbstractContextManager[Reader]:
        return nullcontext(self._reader)

    def reader(self) -> Reader:
        return self._reader

    def insert(self, records: Iterable[Record]) -> None:
        self._client.transaction(command for batch in batches(records, BATCH) for command in self._store(batch))

    def _store(self, records: list[Record]) -> Iterator[Command]:
        packed = [_pack_key(record) for record in records]
        values = map(_MSGPACK.encode, records)
        yield (b"MSET", *chain.from_iterable(zip([self._prefix + key for key in packed], values, strict=True)))
        yield from self._entries(records, packed)

    def _entries(self, records: list[Record], packed: list[bytes]) -> Iterator[tuple[Any, ...]]:
        yield (b"ZADD", self._order, *chain.from_iterable((0, key) for key in packed))
        for name, members in self._members(records, packed):
            yield (b"ZADD", name, *chain.from_iterable((0, member) for member in members))

    def _members(self, records: list[Record], packed: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
        for name, value in self._indexes:
            yield name, [pack(b"", (value(record),)) + key for record, key in zip(records, packed, strict=True)]

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        earlier: list[list[Record | None]] = []

        def commands() -> Iterator[Command]:
            for batch in batches(records, BATCH):
                packed = [_pack_key(record) for record in batch]
                earlier.append(
                    [place if place is None else batch[place] for place in _find_previous_positions(packed)]
                )
                if len(batch) == 1:
                    yield (b"SET", self._prefix + packed[0], _MSGPACK.encode(batch[0]), b"GET")
                    yield from self._entries(batch, packed)
                else:
                    yield (b"MGET", *[self._prefix + key for key in packed])
                    yield from self._store(batch)

        olds: list[Record | None] = []
        for same, answer in zip(earlier, self._answers(commands()), strict=True):
            values = answer
            if not isinstance(answer, list):
                values = [answer]
            # If a key occurs earlier in the batch, the old record is that one: the server reads before it stores.
            olds += [new or (value and _MSGPACK.decode(value)) for new, value in zip(same, values, strict=True)]
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        earlier: list[list[int | None]] = []

        def commands() -> Iterator[Command]:
            for batch in batches(keys, BATCH):
                packed = [pack(b"", key) for key in batch]
                earlier.append(_find_previous_positions(packed))
                if len(batch) > 1:
                    yield (b"ZMSCORE", self._order, *packed)
                yield (b"DEL", *[self._prefix + key for key in packed])
                yield (b"ZREM", self._order, *packed)
                records = [{"name": name, "location": location, "stub": ""} for name, location in batch]
                for name, members in self._members(records, packed):
                    yield (b"ZREM", name, *members)

        there: list[bool] = []
        for same, answer in zip(earlier, self._answers(commands()), strict=True):
            if isinstance(answer, list):
                exist = [score is not None for score in answer]
            else:
                exist = [answer == 1]
            # If a key occurs several times, only its first occurrence deletes the record.
            there += [yes and place is None for yes, place in zip(exist, same, strict=True)]
        return there

    def _answers(self, commands: Iterable[Command]) -> list[Any]:
        """Returns the first answer of each batch. A last batch of a single record has one command less."""
        answers: list[Any] = self._client.transaction(commands)
        return answers[:: self._commands]

    def close(self) -> None:
        self._client.close()


def _order(prefix: bytes) -> bytes:
    # This can't be the key of a record, which would contain a NUL.
    return prefix + b"order"


def _index(prefix: bytes, name: str) -> bytes:
    return prefix + name.encode()


def _pack_key(record: Record) -> bytes:
    return pack(b"", (record["name"], record["location"]))


def _find_previous_positions(packed: list[bytes]) -> list[int | None]:
    """Returns the position of the previous occurrence of each key; None for the first occurrence."""
    latest: dict[bytes, int] = {}
    positions = []
    for position, key in enumerate(packed):
        positions.append(latest.get(key))
        latest[key] = position
    return positions
