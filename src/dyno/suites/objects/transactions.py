"""What is timed: each public method of `Transactions` that takes a task or a place is one transaction of ZODB.

A span goes from the transaction's beginning, where the storage asks what others have committed, to the return of its
commit; of a read to its abort, which ends it. Creating the objects is in it, making up their content is not. Each
client has two connections: one writes, another reads what that has written. What an application would take from the
database's pool for each transaction is kept open here; the questions to the storage are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter_ns as now
from typing import Any, NamedTuple

from dyno.contracts.cleanup import finally_, undo_on_error
from dyno.suites.objects.port import Objects

MOST_ATTEMPTS = 10_000
"""At one transaction that conflicts with others, before it is an error."""


class Task(NamedTuple):
    """What is to be written: the contents of a container, by the number of each object in it."""

    branch: str
    key: int
    contents: Sequence[bytes]


class ObjectPosition(NamedTuple):
    """Where a container is: a branch of the root, and its key there."""

    branch: str
    key: int


class Attempts(NamedTuple):
    """What a transaction took that others may have been in the way of."""

    lost: int
    lost_ns: int
    committed_ns: int


class Connection:
    """A connection with a transaction manager of its own, so that clients may be threads."""

    def __init__(self, database: Any) -> None:
        from transaction import TransactionManager

        self.manager = TransactionManager(explicit=True)
        self.connection = database.open(self.manager)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A transaction on the root, committed at the end of the block; nothing of it is left if it raises."""
        manager = self.manager
        with undo_on_error(manager.abort):
            # In here: the storage is asked what is new, and where that fails the manager has a transaction all the
            # same.
            manager.begin()
            yield self.connection.root()
            manager.commit()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with finally_(self.manager.abort):
            self.manager.begin()
            yield self.connection.root()

    def close(self) -> None:
        self.connection.close()


class Transactions:
    """What one client does with the database."""

    def __init__(self, port: Objects, container: str, objects: int) -> None:
        from dyno.suites.objects import items

        self._port, self._items, self._kind = port, items, items.CONTAINERS[container]
        # As zodbshootout has it: all objects of a transaction fit in a connection, with a BTree's nodes. The default
        # is 400, of which each user of ZODB reads that it is to be changed.
        port.database.setCacheSize(objects * 2 + 100)
        self._writer, self._reader = Connection(port.database), Connection(port.database)

    # -- timed ----------------------------------------------------------------------------------------------

    def write(self, task: Task) -> None:
        """A container of new objects."""
        item = self._items.Item
        with self._writer.writing() as root:
            container = self._kind()
            for number, content in enumerate(task.contents):
                container[number] = item(content)
            root[task.branch][task.key] = container

    def add(self, task: Task) -> None:
        """New objects in the place of those that the container has."""
        item = self._items.Item
        with self._writer.writing() as root:
            root[task.branch][task.key].update(
                {number: item(content) for number, content in enumerate(task.contents)}
            )

    def update(self, task: Task) -> list[bytes]:
        """Every object of a container gets another content; returns those from before."""
        before = []
        with self._writer.writing() as root:
            for item, content in zip(root[task.branch][task.key].values(), task.contents, strict=True):
                before.append(item.content)
                item.content = content
        return before

    def read(self, place: ObjectPosition) -> list[bytes]:
        """The contents of a container, by a connection which has none of its objects in memory."""
        self._reader.connection.cacheMinimize()
        return self.read_again(place)

    def read_again(self, place: ObjectPosition) -> list[bytes]:
        """The same, by a connection that has what it has."""
        with self._reader.reading() as root:
            return [item.content for item in root[place.branch][place.key].values()]

    def prefetch(self, place: ObjectPosition) -> list[bytes]:
        """As `read`; the storage is asked for all objects at once, before the first is looked at."""
        connection = self._reader.connection
        connection.cacheMinimize()
        with self._reader.reading() as root:
            container = root[place.branch][place.key]
            connection.prefetch(container.values())
            return [item.content for item in container.values()]

    def count(self, place: ObjectPosition) -> Attempts:
        """Each object of a container is changed; again from the start, as an application does it, where another
        client was faster."""
        lost, begun = 0, now()
        while True:
            started = now()
            try:
                with self._writer.writing() as root:
                    for item in root[place.branch][place.key].values():
                        item.count += 1
                return Attempts(lost, started - begun, now() - started)
            except Exception as error:
                if not self.retryable(error) or lost == MOST_ATTEMPTS:
                    raise
                lost += 1

    def write_blobs(self, task: Task) -> None:
        from ZODB.blob import Blob

        with self._writer.writing() as root:
            container = self._kind()
            for number, content in enumerate(task.contents):
                blob = container[number] = Blob()
                with blob.open("w") as file:
                    file.write(content)
            root[task.branch][task.key] = container

    def read_blobs(self, place: ObjectPosition) -> list[bytes]:
        self._reader.connection.cacheMinimize()
        found = []
        with self._reader.reading() as root:
            for blob in root[place.branch][place.key].values():
                with blob.open("r") as file:
                    found.append(file.read())
        return found

    def pack(self, _: Any) -> None:
        self._port.database.pack()

    # -- not timed ------------------------------------------------------------------------------------------

    def branches(self, names: Sequence[str]) -> None:
        """Makes those branches that are not there."""
        with self._writer.writing() as root:
            for name in names:
                if name not in root:
                    root[name] = self._items.Branch()

    def counters(self, task: Task) -> None:
        """A container of objects to be changed by `count`; of the contents only the number matters."""
        with self._writer.writing() as root:
            container = self._kind()
            for number in range(len(task.contents)):
                container[number] = self._items.Count()
            root[task.branch][task.key] = container

    def writing(self) -> AbstractContextManager[Any]:
        """A transaction on the root of the database, for what none of the others does."""
        return self._writer.writing()

    def retryable(self, error: Exception) -> bool:
        """Whether another client was faster. Not all that is transient: a server that is gone may be so for long."""
        from ZODB.POSException import ConflictError

        return isinstance(error, ConflictError)

    def counted(self, place: ObjectPosition) -> list[int]:
        """How often each object of a container was changed."""
        with self._reader.reading() as root:
            return [item.count for item in root[place.branch][place.key].values()]

    def remove(self, place: ObjectPosition) -> None:
        with self._writer.writing() as root:
            del root[place.branch][place.key]

    def keys(self, branch: str) -> list[int]:
        """Of the containers in a branch, in order."""
        with self._reader.reading() as root:
            return list(root[branch].keys()) if branch in root else []

    def identities(self, place: ObjectPosition) -> list[tuple[int, bytes]]:
        """Which objects a container has: the number of each, and by what the database knows it."""
        with self._reader.reading() as root:
            return [(number, item._p_oid) for number, item in root[place.branch][place.key].items()]

    def forget(self) -> None:
        """Empties the caches of both connections and of the storage."""
        for each in (self._writer, self._reader):
            each.connection.cacheMinimize()
        self._port.forget()

    def has_blobs(self) -> bool:
        from ZODB.interfaces import IBlobStorage

        return bool(IBlobStorage.providedBy(self._port.database.storage))

    def close(self) -> None:
        for each in (self._writer, self._reader):
            each.close()
        self._port.close()


class NullTransactions:
    """In the place of `Transactions` over a null engine, which has no database."""

    def __init__(self, port: Objects) -> None:
        self._port = port

    def _nothing(self, _: Any) -> None:
        pass

    write = add = update = read = read_again = prefetch = count = _nothing
    write_blobs = read_blobs = pack = _nothing

    def forget(self) -> None:
        self._port.forget()

    def close(self) -> None:
        self._port.close()
