"""Timed transactions: each public method of `Transactions` that takes a task or a position is one ZODB transaction.

The timed span begins with the transaction, at which the storage fetches others' commits, and ends when the commit
returns (for a read, the abort). It includes creating the objects, but not generating their contents. Each client has
two connections: one writes, and the other reads the objects that the first has written. An application would take
connections from the database's pool for each transaction. Here they stay open, which makes no difference to the
storage.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dyno.contracts.cleanup import finally_, undo_on_error

if TYPE_CHECKING:
    from persistent.mapping import PersistentMapping
    from ZODB.DB import DB

PORT = "objects"
HEAD = b"%016d.%09d."
"""Start of an object's content: its number and version."""
HEAD_BYTES = len(HEAD % (0, 0))


class Objects(Protocol):
    """An open database. Engines implement this protocol as a class called with `(engine,)`. Each client has its own
    instance."""

    database: "DB"
    """The open `ZODB.DB` over the storage, which the engine opens and closes. Clients that are threads of a process
    share it. None for a null engine."""

    def forget(self) -> None:
        """Empties the storage's own caches in this process, so that the next read goes to the server or the files.
        Does nothing for a storage without caches."""

    def close(self) -> None: ...


MAX_ATTEMPTS = 10_000
"""Maximum number of conflicts of one transaction. One more is an error."""


class Task(NamedTuple):
    """Contents for a container, in the order of its objects."""

    branch: str
    key: int
    contents: Sequence[bytes]


class ObjectPosition(NamedTuple):
    """Position of a container: a branch of the root, and the key in the branch."""

    branch: str
    key: int


class Attempts(NamedTuple):
    """Attempts at a transaction that may conflict with others."""

    lost: int
    """Number of attempts that conflicted."""
    lost_ns: int
    committed_ns: int


class Connection:
    """A connection with its own transaction manager, so that clients may be threads."""

    def __init__(self, database: "DB") -> None:
        from transaction import TransactionManager

        self.manager = TransactionManager(explicit=True)
        self.connection = database.open(self.manager)

    @contextmanager
    def writing(self) -> Iterator["PersistentMapping"]:
        """Opens a transaction on the root. It commits at the end of the block, or aborts if the block raises."""
        manager = self.manager
        with undo_on_error(manager.abort):
            # Begin inside the block: even if the storage fails to begin, the manager has a transaction to abort.
            manager.begin()
            yield self.connection.root()
            manager.commit()

    @contextmanager
    def reading(self) -> Iterator["PersistentMapping"]:
        with finally_(self.manager.abort):
            self.manager.begin()
            yield self.connection.root()

    def close(self) -> None:
        self.connection.close()


class Transactions:
    def __init__(self, port: Objects, container: str, objects: int) -> None:
        from dyno.suites.objects import items

        self._port = port
        self._items = items
        self._kind = items.CONTAINERS[container]
        # As in zodbshootout, a connection's cache holds all objects of a transaction and the BTree's nodes. ZODB's
        # documentation tells users to raise the default of 400.
        port.database.setCacheSize(objects * 2 + 100)
        self._writer, self._reader = Connection(port.database), Connection(port.database)
        self.writing = self._writer.writing
        """Opens an untimed transaction on the root of the database."""

    def _store(self, task: Task, make: Callable[[bytes], object]) -> None:
        """Writes a container with an object that `make` returns for each content."""
        with self._writer.writing() as root:
            container = self._kind()
            for number, content in enumerate(task.contents):
                container[number] = make(content)
            root[task.branch][task.key] = container

    # -- timed ----------------------------------------------------------------------------------------------

    def write(self, task: Task) -> None:
        """Writes a container of new objects."""
        self._store(task, self._items.Item)

    def add(self, task: Task) -> None:
        """Replaces the objects of a container by new ones."""
        item = self._items.Item
        with self._writer.writing() as root:
            root[task.branch][task.key].update(
                {number: item(content) for number, content in enumerate(task.contents)}
            )

    def update(self, task: Task) -> list[bytes]:
        """Changes the content of every object of a container. Returns the old contents."""
        before = []
        with self._writer.writing() as root:
            for item, content in zip(root[task.branch][task.key].values(), task.contents, strict=True):
                before.append(item.content)
                item.content = content
        return before

    def read(self, position: ObjectPosition) -> list[bytes]:
        """Reads a container through a connection that has none of its objects in memory."""
        self._reader.connection.cacheMinimize()
        return self.read_again(position)

    def read_again(self, position: ObjectPosition) -> list[bytes]:
        """Reads a container without emptying the connection's cache."""
        with self._reader.reading() as root:
            return [item.content for item in root[position.branch][position.key].values()]

    def prefetch(self, position: ObjectPosition) -> list[bytes]:
        """Reads a container like `read`, but prefetches all of its objects first."""
        connection = self._reader.connection
        connection.cacheMinimize()
        with self._reader.reading() as root:
            container = root[position.branch][position.key]
            connection.prefetch(container.values())
            return [item.content for item in container.values()]

    def count(self, position: ObjectPosition) -> Attempts:
        """Changes each object of a container. On a conflict, starts again as an application would."""
        lost, begun = 0, now()
        while True:
            started = now()
            try:
                with self._writer.writing() as root:
                    for item in root[position.branch][position.key].values():
                        item.count += 1
                return Attempts(lost, started - begun, now() - started)
            except Exception as error:
                if not self.retryable(error) or lost == MAX_ATTEMPTS:
                    raise
                lost += 1

    def write_blobs(self, task: Task) -> None:
        from ZODB.blob import Blob

        def make(content: bytes) -> Blob:
            blob = Blob()
            with blob.open("w") as file:
                file.write(content)
            return blob

        self._store(task, make)

    def read_blobs(self, position: ObjectPosition) -> list[bytes]:
        self._reader.connection.cacheMinimize()
        contents = []
        with self._reader.reading() as root:
            for blob in root[position.branch][position.key].values():
                with blob.open("r") as file:
                    contents.append(file.read())
        return contents

    def pack(self, _: object) -> None:
        self._port.database.pack()

    # -- not timed ------------------------------------------------------------------------------------------

    def branches(self, names: Sequence[str]) -> None:
        """Creates those of the branches that don't exist."""
        with self._writer.writing() as root:
            for name in names:
                if name not in root:
                    root[name] = self._items.Branch()

    def counters(self, task: Task) -> None:
        """Writes a container of counters for `count`, as many as the task has contents."""
        self._store(task, lambda _: self._items.Counter())

    def retryable(self, error: Exception) -> bool:
        """Returns whether the error is a conflict. Other transient errors don't count, since they may last."""
        from ZODB.POSException import ConflictError

        return isinstance(error, ConflictError)

    def counted(self, position: ObjectPosition) -> list[int]:
        """Returns how often `count` changed each object of a container."""
        with self._reader.reading() as root:
            return [item.count for item in root[position.branch][position.key].values()]

    def remove(self, position: ObjectPosition) -> None:
        with self._writer.writing() as root:
            del root[position.branch][position.key]

    def keys(self, branch: str) -> list[int]:
        with self._reader.reading() as root:
            if branch in root:
                return list(root[branch].keys())
            return []

    def identities(self, position: ObjectPosition) -> list[tuple[int, bytes]]:
        """Returns the number and the database identity (oid) of each object in a container."""
        with self._reader.reading() as root:
            return [(number, item._p_oid) for number, item in root[position.branch][position.key].items()]

    def forget(self) -> None:
        """Empties the caches of both connections and of the storage."""
        for connection in (self._writer, self._reader):
            connection.connection.cacheMinimize()
        self._port.forget()

    def has_blobs(self) -> bool:
        from ZODB.interfaces import IBlobStorage

        return bool(IBlobStorage.providedBy(self._port.database.storage))

    def close(self) -> None:
        for connection in (self._writer, self._reader):
            connection.close()
        self._port.close()


class NullTransactions:
    """Substitute for `Transactions` on a null engine, which has no database."""

    def __init__(self, port: Objects) -> None:
        self.forget, self.close = port.forget, port.close

    def _do_nothing(self, _: object) -> None:
        pass

    write = add = update = read = read_again = prefetch = count = write_blobs = read_blobs = pack = _do_nothing
