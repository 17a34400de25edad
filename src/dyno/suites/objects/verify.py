"""Whether the database holds what was acknowledged after a phase that writes: read in a process of its own, where
that can be, by a storage that has just been opened.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import numpy as np

from dyno.contracts.model import Wrong
from dyno.host.process import die_with_parent
from dyno.suites.objects.model import OWN, SETS, SHARED, written_by
from dyno.suites.objects.transactions import ObjectPosition, Transactions
from dyno.suites.objects.work import Work, compare

MOST_READ = 20
"""Containers of a client that are read whole, where it wrote more: the first, the last and those between at random.
Which ones there are is looked at for all of them."""


def apart(look: Callable[[], int]) -> int:
    """What `look` returns in a process of its own. Raises `Wrong` where it does, and where that process dies."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    parent = os.getpid()

    def tell() -> None:
        die_with_parent(parent)
        try:
            sender.send((look(), None))
        except Wrong as wrong:
            sender.send((0, str(wrong)))
        except BaseException as error:
            sender.send((0, f"could not be read back: {type(error).__name__}: {error}"))

    process = context.Process(target=tell, daemon=True)
    process.start()
    sender.close()
    try:
        compared, wrong = receiver.recv()
    except EOFError:
        compared, wrong = 0, "the process that was to read it back died"
    process.join()
    if wrong is not None:
        raise Wrong(wrong)
    return int(compared)


class Look:
    """One look at the store after a phase."""

    def __init__(self, work: Work, phase: str, clients: int, port: Transactions) -> None:
        self._work, self._phase, self._clients, self._port = work, phase, clients, port

    def all(self) -> int:
        """What the phase may have changed; returns how many contents it compared."""
        if self._phase == "conflicts":
            return self._counts()
        if self._phase in ("add", "update"):
            return self._own()
        if self._phase == "pack":
            return self._own() + self._kept()
        return sum(self._written(client) for client in range(self._clients))

    def _read(self, place: ObjectPosition) -> list[bytes]:
        """Asked for all at once: 16 clients' 10,000 objects one by one take minutes, where each is a request."""
        return self._port.prefetch(place)

    def _written(self, client: int) -> int:
        branch, work = written_by(client, self._phase), self._work
        marks = work.model.marks(self._phase, client)
        there, sure = self._port.keys(branch), np.flatnonzero(marks == 1).tolist()
        if missing := sorted(set(sure) - set(there)):
            raise Wrong(f"after {self._phase}: container {missing[0]} of client {client} is not there")
        if surplus := sorted(set(there) - set(np.flatnonzero(marks).tolist())):
            raise Wrong(
                f"after {self._phase}: container {surplus[0]} of client {client} is there, and nobody wrote it"
            )
        rng = np.random.default_rng([work.seed, 4, client])
        some = sure
        if len(sure) > MOST_READ:
            some = [sure[0], sure[-1], *rng.choice(sure[1:-1], MOST_READ - 2, replace=False).tolist()]
        compared = 0
        for key in some:
            if self._phase == "blob-write":
                wanted, found = work.blob_contents(branch, key), self._port.read_blobs(ObjectPosition(branch, key))
            else:
                wanted, found = work.contents(branch, key), self._read(ObjectPosition(branch, key))
            compare(found, wanted, f"after {self._phase}, container {key} of client {client}")
            compared += len(wanted) + self._identities(ObjectPosition(branch, key), len(wanted))
        return compared

    def _identities(self, place: ObjectPosition, count: int) -> int:
        """Each object has its own number in its container, and is an object of its own in the database."""
        found = self._port.identities(place)
        numbers, oids = [number for number, _ in found], {oid for _, oid in found}
        compare(numbers, list(range(count)), f"after {self._phase}, numbers in {place.branch} {place.key}")
        if len(oids) != count:
            raise Wrong(f"after {self._phase}: {place.branch} {place.key} has {len(oids)} objects, expected {count}")
        return count

    def _own(self) -> int:
        model, compared = self._work.model, 0
        for client in range(self._clients):
            if model.unsure[client] or client not in self._port.keys(OWN):
                continue
            wanted = self._work.contents(OWN, client, int(model.versions[client]))
            found = self._read(ObjectPosition(OWN, client))
            compare(found, wanted, f"after {self._phase}, container of client {client}")
            compared += len(wanted) + self._identities(ObjectPosition(OWN, client), len(wanted))
        return compared

    def _counts(self) -> int:
        acknowledged, raised = self._work.model.counted.sum(axis=0).tolist()
        found = self._port.counted(ObjectPosition(SHARED, 0))
        if len(found) != self._work.objects:
            raise Wrong(f"after {self._phase}: {len(found)} objects, expected {self._work.objects}")
        for number, count in enumerate(found):
            if not acknowledged <= count <= acknowledged + raised:
                raise Wrong(
                    f"after {self._phase}: object {number} was changed {count} times, and {acknowledged} were"
                    f" acknowledged{f' beside {raised} that raised' if raised else ''}"
                )
        return len(found)

    def _kept(self) -> int:
        """After a pack: the containers that were not removed, and no others."""
        work, compared = self._work, 0
        keys = list(range(work.model.removed, work.transactions))
        compare(self._port.keys(SETS), keys, f"after {self._phase}, containers")
        for key in keys[:MOST_READ]:
            wanted = work.contents(SETS, key)
            compare(self._read(ObjectPosition(SETS, key)), wanted, f"after {self._phase}, container {key}")
            compared += len(wanted)
        return compared
