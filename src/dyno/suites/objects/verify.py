"""Checks that the database holds the acknowledged data after a phase that writes. If possible, a new process with a
newly opened storage reads it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import numpy as np

from dyno.contracts.model import Wrong
from dyno.host.process import die_with_parent
from dyno.suites.objects.dataset import OWN, SETS, SHARED, client_branch
from dyno.suites.objects.transactions import ObjectPosition, Transactions
from dyno.suites.objects.work import TrialState, expect_contents

MAX_READ = 20
"""Maximum number of a client's containers that are read completely: the first, the last, and a random sample of the
others. All others must exist."""


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

    def __init__(self, state: TrialState, phase: str, clients: int, port: Transactions) -> None:
        self._state, self._phase, self._clients, self._port = state, phase, clients, port

    def run(self) -> int:
        """Checks all data that the phase may have changed. Returns the number of compared contents."""
        if self._phase == "conflicts":
            return self._counts()
        if self._phase in ("add", "update"):
            return self._own()
        if self._phase == "pack":
            return self._own() + self._packed()
        return sum(self._written(client) for client in range(self._clients))

    def _read(self, branch: str, key: int) -> list[bytes]:
        """Reads a container with a prefetch. Without prefetching, 16 clients with 10,000 objects take minutes on a
        server."""
        return self._port.prefetch(ObjectPosition(branch, key))

    def _written(self, client: int) -> int:
        branch, state = client_branch(client, self._phase), self._state
        written = state.model.written(self._phase, client)
        keys, sure = self._port.keys(branch), np.flatnonzero(written == 1).tolist()
        if missing := sorted(set(sure) - set(keys)):
            raise Wrong(f"after {self._phase}: container {missing[0]} of client {client} is missing")
        if surplus := sorted(set(keys) - set(np.flatnonzero(written).tolist())):
            raise Wrong(f"after {self._phase}: container {surplus[0]} of client {client} exists, but nobody wrote it")
        rng = np.random.default_rng([state.seed, 4, client])
        sample = sure
        if len(sure) > MAX_READ:
            sample = [sure[0], sure[-1], *rng.choice(sure[1:-1], MAX_READ - 2, replace=False).tolist()]
        compared = 0
        for key in sample:
            blobs = self._phase == "blob-write"
            expected = state.contents(branch, key, blobs=blobs)
            stored = self._port.read_blobs(ObjectPosition(branch, key)) if blobs else self._read(branch, key)
            expect_contents(stored, expected, f"after {self._phase}, container {key} of client {client}")
            compared += len(expected) + self._identities(branch, key, len(expected))
        return compared

    def _identities(self, branch: str, key: int, count: int) -> int:
        """Checks that each object has its own number in its container, and its own identity in the database."""
        objects = self._port.identities(ObjectPosition(branch, key))
        numbers, oids = [number for number, _ in objects], {oid for _, oid in objects}
        expect_contents(numbers, list(range(count)), f"after {self._phase}, numbers in {branch} {key}")
        if len(oids) != count:
            raise Wrong(f"after {self._phase}: {branch} {key} has {len(oids)} objects, expected {count}")
        return count

    def _own(self) -> int:
        model, compared = self._state.model, 0
        for client in range(self._clients):
            if model.unsure[client] or client not in self._port.keys(OWN):
                continue
            expected = self._state.contents(OWN, client, int(model.versions[client]))
            stored = self._read(OWN, client)
            expect_contents(stored, expected, f"after {self._phase}, container of client {client}")
            compared += len(expected) + self._identities(OWN, client, len(expected))
        return compared

    def _counts(self) -> int:
        acknowledged, raised = self._state.model.counted.sum(axis=0).tolist()
        counts = self._port.counted(ObjectPosition(SHARED, 0))
        if len(counts) != self._state.objects:
            raise Wrong(f"after {self._phase}: {len(counts)} objects, expected {self._state.objects}")
        for number, count in enumerate(counts):
            if not acknowledged <= count <= acknowledged + raised:
                raise Wrong(
                    f"after {self._phase}: object {number} was changed {count} times, but {acknowledged} changes were"
                    f" acknowledged{f' and {raised} raised' if raised else ''}"
                )
        return len(counts)

    def _packed(self) -> int:
        """Checks that exactly the containers that were not removed remain."""
        state, compared = self._state, 0
        keys = list(range(state.model.removed, state.transactions))
        expect_contents(self._port.keys(SETS), keys, f"after {self._phase}, containers")
        for key in keys[:MAX_READ]:
            expected = state.contents(SETS, key)
            expect_contents(self._read(SETS, key), expected, f"after {self._phase}, container {key}")
            compared += len(expected)
        return compared
