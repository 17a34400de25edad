"""Operations of each phase, built slice by slice, and checks of their answers and of the store after a phase.

An operation is a transaction. It counts as many items as it has objects.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from dyno.contracts.equality import expect
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Failure, Operations, check_each
from dyno.host.process import die_with_parent
from dyno.suites.objects.dataset import BLOBS, MAX_WRITTEN, OWN, SETS, SHARED, Model, client_branch
from dyno.suites.objects.transactions import Attempts, ObjectPosition, Task, Transactions

SLICE_OBJECTS = 20_000
MAX_SLICE = 500
SLICE_BYTES = 64 << 20
"""Maximum numbers of objects, operations, and bytes of blobs in a slice, which are in memory at once."""

T = TypeVar("T")
Slices = Iterator[Operations]


class ClientWork:
    """One client's share of one phase in one round."""

    def __init__(self, model: Model, phase: str, port: Transactions, client: int, round: int) -> None:
        self._model = model
        self._phase = phase
        self._port = port
        self._client = client
        self._round = round
        self._blobs = phase.startswith("blob")
        self._items, self._size = model.objects, model.dataset.size
        if self._blobs:
            self._items, self._size = model.blobs_each, model.blobs.size

    def slices(self) -> Slices:
        port, once = self._port, range(self._model.transactions if self._round == 0 else 0)
        build: dict[str, Callable[[], Slices]] = {
            "write": partial(self._write, port.write),
            "read": partial(self._read_written, once),
            "add": partial(self._change, port.add),
            "update": partial(self._change, port.update, compared=True),
            "read-warm": partial(self._read_once, port.read),
            "read-cold": partial(self._read_once, port.read, True),
            "read-cold-prefetch": partial(self._read_once, port.prefetch, True),
            "read-hot": partial(self._read, port.read),
            "read-steamin": partial(self._read, port.read_again, 1),
            "read-device": partial(self._read_once, port.read),
            "conflicts": self._count,
            "blob-write": partial(self._write, port.write_blobs),
            "blob-read": partial(self._reads, port.read_blobs, BLOBS, once),
            "pack": self._pack,
        }
        return build[self._phase]()

    def _operations(
        self,
        call: Callable[[T], object],
        keys: Sequence[int],
        argument: Callable[[int], T],
        check: Callable[[Sequence[int], Sequence[Any]], int],
        **details: Any,
    ) -> Slices:
        """Yields a transaction for each key. `check` takes the keys of a slice and their answers."""
        moved = self._items * self._size
        if self._blobs:
            most = SLICE_BYTES // moved
        else:
            most = SLICE_OBJECTS // self._items
        step = min(max(most, 1), MAX_SLICE)
        for at in range(0, len(keys), step):
            part = keys[at : at + step]
            yield Operations(
                calls=lambda _: (call,),
                arguments=[argument(key) for key in part],
                check=partial(check, part),
                weights=[self._items] * len(part),
                **{"sizes": [moved] * len(part), **details},
            )

    # -- writes -------------------------------------------------------------------------------------------

    def _write(self, call: Callable[[Task], object]) -> Slices:
        """Yields transactions that each write a new container."""
        branch = client_branch(self._client, self._phase)
        written = self._model.written_states(self._phase, self._client)
        start = 0
        if written.any():
            start = int(np.flatnonzero(written)[-1]) + 1

        def task(key: int) -> Task:
            return Task(branch, key, self._model.contents(branch, key, blobs=self._blobs))

        def acknowledge(part: Sequence[int], answers: Sequence[object]) -> int:
            for key, answer in zip(part, answers, strict=False):
                if type(answer) is Failure:
                    written[key] = 2
                else:
                    written[key] = 1
            return 0

        keys = range(start, min(start + self._model.transactions, MAX_WRITTEN))
        return self._operations(call, keys, task, acknowledge)

    def _change(self, call: Callable[[Task], object], compared: bool = False) -> Slices:
        """Yields transactions that each write the next version of all objects in the client's own container.
        `compared`: the answers are the previous contents."""
        model, client = self._model, self._client
        first = int(model.versions[client]) + 1

        def task(version: int) -> Task:
            return Task(OWN, client, model.contents(OWN, client, version))

        def acknowledge(versions: Sequence[int], answers: Sequence[object]) -> int:
            count = 0
            for version, answer in zip(versions, answers, strict=False):
                # A transaction that raised may have been committed, so the contents are unsure until the next commit.
                raised = type(answer) is Failure
                if compared and not raised and not model.unsure[client]:
                    expected = model.contents(OWN, client, int(model.versions[client]))
                    count += self._check(answer, expected, "the contents before an update")
                model.unsure[client] = raised
                if not raised:
                    model.versions[client] = version
            return count

        return self._operations(call, range(first, first + model.transactions), task, acknowledge)

    def _count(self) -> Slices:
        """Yields transactions that change all objects of the container that all clients share."""
        model = self._model
        client = self._client
        judged = self._model.judged

        def acknowledge(part: Sequence[int], answers: Sequence[Any]) -> int:
            attempts = [answer for answer in answers if type(answer) is not Failure]
            model.counted[client] += (len(attempts), len(answers) - len(attempts))
            if judged:
                model.conflicts[client] += sum(answer.lost for answer in attempts)
            return 0

        def parts(answers: Sequence[Attempts]) -> dict[str, list[int]]:
            return {"conflicting": [a.lost_ns for a in answers], "committed": [a.committed_ns for a in answers]}

        keys, shared = range(self._model.transactions), ObjectPosition(SHARED, 0)
        details: dict[str, Any] = {"sizes": None, "parts": parts if judged else None}
        return self._operations(self._port.count, keys, lambda _: shared, acknowledge, **details)

    def _pack(self) -> Slices:
        """Yields one pack, by the first client in the first round."""
        if self._client == 0 and self._round == 0:
            yield Operations(calls=lambda _: (self._port.pack,), arguments=[None], check=lambda answers: 0)

    # -- reads --------------------------------------------------------------------------------------------

    def _read_written(self, keys: Sequence[int]) -> Slices:
        """Yields reads of containers, each once. This client's other connection writes them first, untimed."""
        branch = client_branch(self._client, self._phase)

        def write(key: int) -> None:
            self._port.write(Task(branch, key, self._model.contents(branch, key)))

        return self._reads(self._port.read, branch, keys, write)

    def _read_once(self, call: Callable[[ObjectPosition], object], forget: bool = False) -> Slices:
        """Yields the same as `_read`, but only in the first round, since containers are cached afterwards."""
        if self._round:
            return
        if forget:
            self._port.forget()
        yield from self._read(call)

    def _read(self, call: Callable[[ObjectPosition], object], containers: int | None = None) -> Slices:
        """Yields reads of the shared containers in the client's own random order, or of the first `containers`."""
        model = self._model
        # The seed depends on neither engine nor trial, so that all of them get the same inputs.
        rng = np.random.default_rng([model.seed, 3, self._client, crc32(self._phase.encode()), self._round])
        if containers is None:
            keys = rng.permutation(model.transactions)
        else:
            keys = np.arange(containers)
        return self._reads(call, SETS, np.resize(keys, model.transactions).tolist())

    def _reads(
        self,
        call: Callable[[ObjectPosition], object],
        branch: str,
        keys: Sequence[int],
        prepare: Callable[[int], None] = lambda key: None,
    ) -> Slices:
        """Yields compared reads of containers. `prepare` is called for each key before the clock starts."""

        def position(key: int) -> ObjectPosition:
            prepare(key)
            return ObjectPosition(branch, key)

        def check_one(key: int, answer: object) -> int:
            what = "container"
            if self._blobs:
                what = "blobs"
            return self._check(answer, self._model.contents(branch, key, blobs=self._blobs), f"{what} {key}")

        def check(part: Sequence[int], answers: Sequence[object]) -> int:
            return check_each(part, check_one, self._model.judged)(answers)

        return self._operations(call, keys, position, check)

    def _check(self, answer: object, expected: list[bytes], what: str) -> int:
        if not self._model.judged:
            return 0
        expect(answer, expected, f"{self._phase}, {what}")
        return len(expected)


# -- checks of the store after a phase ------------------------------------------------------------------------

MAX_READ, READ_OBJECTS = 20, 100_000
"""Number of a client's containers that are read completely: as many as all clients have READ_OBJECTS in, and at least
MAX_READ. They are the first, the last, and a random sample of the others. All others must exist."""


def in_child_process(check: Callable[[], int]) -> int:
    """Runs `check` in a forked process and returns its result. Raises Wrong if `check` raises or the process dies."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    parent = os.getpid()

    def run() -> None:
        die_with_parent(parent)
        try:
            sender.send((check(), None))
        except Wrong as wrong:
            sender.send((0, str(wrong)))
        except BaseException as error:
            sender.send((0, f"could not be read back: {type(error).__name__}: {error}"))

    process = context.Process(target=run, daemon=True)
    process.start()
    sender.close()
    try:
        compared, wrong = receiver.recv()
    except EOFError:
        compared, wrong = 0, "the process that reads the store back died"
    process.join()
    if wrong is not None:
        raise Wrong(wrong)
    return int(compared)


class Verification:
    """Compares the store with the model after a phase."""

    def __init__(self, model: Model, phase: str, clients: int, port: Transactions) -> None:
        self._model = model
        self._phase = phase
        self._clients = clients
        self._port = port

    def run(self) -> int:
        """Checks all data that the phase may have changed. Returns the number of compared contents."""
        if self._phase == "conflicts":
            return self._counts()
        if self._phase in ("add", "update"):
            return self._check_own()
        if self._phase == "pack":
            return self._check_own() + self._check_packed()
        return sum(self._check_written(client) for client in range(self._clients))

    def _read(self, branch: str, key: int) -> list[bytes]:
        """Reads with a prefetch, since 16 clients with 10,000 objects otherwise take minutes on a server."""
        return self._port.prefetch(ObjectPosition(branch, key))

    def _check_written(self, client: int) -> int:
        branch, model = client_branch(client, self._phase), self._model
        written = model.written_states(self._phase, client)
        keys, sure = self._port.keys(branch), np.flatnonzero(written == 1).tolist()
        if missing := sorted(set(sure) - set(keys)):
            raise Wrong(f"after {self._phase}: container {missing[0]} of client {client} is missing")
        if surplus := sorted(set(keys) - set(np.flatnonzero(written).tolist())):
            raise Wrong(f"after {self._phase}: container {surplus[0]} of client {client} exists, but nobody wrote it")
        rng = np.random.default_rng([model.seed, 4, client])
        blobs = self._phase == "blob-write"
        most = MAX_READ if blobs else self._most()
        sample = sure
        if len(sure) > most:
            sample = [sure[0], sure[-1], *rng.choice(sure[1:-1], most - 2, replace=False).tolist()]
        compared = 0
        for key in sample:
            expected = model.contents(branch, key, blobs=blobs)
            if blobs:
                stored = self._port.read_blobs(ObjectPosition(branch, key))
            else:
                stored = self._read(branch, key)
            expect(stored, expected, f"after {self._phase}, container {key} of client {client}")
            compared += len(expected) + self._identities(branch, key, len(expected))
        return compared

    def _most(self) -> int:
        """Returns the maximum number of a client's containers to read."""
        return max(MAX_READ, READ_OBJECTS // (self._model.objects * self._clients))

    def _identities(self, branch: str, key: int, count: int) -> int:
        """Checks that each object has its own number in its container, and its own identity in the database."""
        objects = self._port.identities(ObjectPosition(branch, key))
        what = f"after {self._phase}, numbers in {branch} {key}"
        expect([number for number, _ in objects], list(range(count)), what)
        if (different := len({oid for _, oid in objects})) != count:
            raise Wrong(f"after {self._phase}: {branch} {key} has {different} objects, expected {count}")
        return count

    def _check_own(self) -> int:
        model, compared = self._model, 0
        for client in range(self._clients):
            if model.unsure[client] or client not in self._port.keys(OWN):
                continue
            expected = self._model.contents(OWN, client, int(model.versions[client]))
            stored = self._read(OWN, client)
            expect(stored, expected, f"after {self._phase}, container of client {client}")
            compared += len(expected) + self._identities(OWN, client, len(expected))
        return compared

    def _counts(self) -> int:
        acknowledged, raised = self._model.counted.sum(axis=0).tolist()
        counts = self._port.counted(ObjectPosition(SHARED, 0))
        if len(counts) != self._model.objects:
            raise Wrong(f"after {self._phase}: {len(counts)} objects, expected {self._model.objects}")
        for number, count in enumerate(counts):
            if not acknowledged <= count <= acknowledged + raised:
                raise Wrong(
                    f"after {self._phase}: object {number} was changed {count} times, but {acknowledged} changes were"
                    f" acknowledged{f' and {raised} raised' if raised else ''}"
                )
        return len(counts)

    def _check_packed(self) -> int:
        """Checks that exactly the containers that were not removed remain."""
        model, compared = self._model, 0
        keys = list(range(model.removed, model.transactions))
        expect(self._port.keys(SETS), keys, f"after {self._phase}, containers")
        for key in keys[: self._most()]:
            expected = model.contents(SETS, key)
            expect(self._read(SETS, key), expected, f"after {self._phase}, container {key}")
            compared += len(expected)
        return compared
