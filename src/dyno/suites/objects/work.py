"""The operations of each phase, built slice by slice before the clock starts, and how their answers are checked.

An operation is a transaction, and counts as many objects as it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from dyno.contracts.equality import difference, is_list, same
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Failure, Operations
from dyno.suites.objects.dataset import Dataset
from dyno.suites.objects.model import BLOBS, MOST_WRITTEN, OWN, SETS, SHARED, Model, written_by
from dyno.suites.objects.transactions import ObjectPosition, Task

SLICE_OBJECTS, MOST_SLICE = 20_000, 500
"""Objects and operations of a slice: inputs and answers wait in memory."""
SLICE_BYTES = 64 << 20
"""The same, of blobs."""

Slices = Iterator[Operations]


@dataclass(frozen=True)
class Work:
    """What all phases and clients of one trial share."""

    dataset: Dataset
    blobs: Dataset
    model: Model
    objects: int
    blobs_each: int
    transactions: int
    seed: int
    judged: bool
    """False for a null engine, whose answers are no answers."""

    def contents(self, branch: str, key: int, version: int = 0) -> list[bytes]:
        """What a container holds."""
        return self.dataset.contents(self.model.first(branch, key), self.objects, version)

    def blob_contents(self, branch: str, key: int) -> list[bytes]:
        return self.blobs.contents(self.model.first(branch, key), self.blobs_each, 0)


class ClientWork:
    """One client's part of a round of a phase."""

    def __init__(self, work: Work, phase: str, port: Any, client: int, round: int) -> None:
        self._work, self._phase, self._port, self._client, self._round = work, phase, port, client, round
        self._model = work.model

    def slices(self) -> Slices:
        """Its operations, by the name of the phase."""
        build: dict[str, Callable[[], Slices]] = {
            "write": partial(self._write, self._port.write, self._work.contents, self._work.objects),
            "read": self._read_written,
            "add": self._add,
            "update": self._update,
            "read-warm": partial(self._read_once, self._port.read),
            "read-cold": partial(self._read_once, self._port.read, True),
            "read-cold-prefetch": partial(self._read_once, self._port.prefetch, True),
            "read-hot": partial(self._read, self._port.read),
            "read-steamin": partial(self._read, self._port.read_again, 1),
            "read-device": partial(self._read_once, self._port.read),
            "conflicts": self._count,
            "blob-write": partial(
                self._write, self._port.write_blobs, self._work.blob_contents, self._work.blobs_each, True
            ),
            "blob-read": self._read_blobs,
            "pack": self._pack,
        }
        return build[self._phase]()

    # -- writes -------------------------------------------------------------------------------------------

    def _write(
        self,
        call: Callable[[Task], Any],
        contents: Callable[[str, int], list[bytes]],
        each: int,
        blobs: bool = False,
    ) -> Slices:
        """A container of its own in each transaction."""
        branch = written_by(self._client, self._phase)
        marks = self._model.marks(self._phase, self._client)
        start = int(np.flatnonzero(marks)[-1]) + 1 if marks.any() else 0
        keys = range(start, min(start + self._work.transactions, MOST_WRITTEN))
        size = self._work.blobs.size if blobs else self._work.dataset.size

        def acknowledged(part: Sequence[int], answers: Sequence[Any]) -> int:
            for key, answer in zip(part, answers, strict=False):
                self._model.mark(self._phase, self._client, key, type(answer) is Failure)
            return 0

        for part in self._parts(keys, size * each if blobs else 0):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[Task(branch, key, contents(branch, key)) for key in part],
                check=partial(acknowledged, part),
                weights=[each] * len(part),
                sizes=[size * each] * len(part),
            )

    def _versions(self) -> Iterator[Sequence[int]]:
        """Those that the client's own container gets in this round, in parts."""
        now = int(self._model.versions[self._client])
        return self._parts(range(now + 1, now + 1 + self._work.transactions))

    def _add(self) -> Slices:
        for part in self._versions():
            yield self._changes(self._port.add, part, self._added)

    def _added(self, version: int, answer: Any) -> int:
        return 0

    def _update(self) -> Slices:
        for part in self._versions():
            yield self._changes(self._port.update, part, self._updated)

    def _updated(self, version: int, answer: Any) -> int:
        if self._model.unsure[self._client]:
            return 0
        now = int(self._model.versions[self._client])
        return self._are(answer, self._work.contents(OWN, self._client, now), "the contents before an update")

    def _changes(
        self, call: Callable[[Task], Any], versions: Sequence[int], check: Callable[[int, Any], int]
    ) -> Operations:
        """All objects of the client's own container get the contents of a version."""

        def checked(answers: Sequence[Any]) -> int:
            compared = 0
            for version, answer in zip(versions, answers, strict=False):
                # One that raised may have been committed all the same, until another one is.
                raised = type(answer) is Failure
                compared += 0 if raised else check(version, answer)
                self._model.unsure[self._client] = raised
                if not raised:
                    self._model.versions[self._client] = version
            return compared

        work = self._work
        return Operations(
            calls=lambda _: (call,),
            arguments=[Task(OWN, self._client, work.contents(OWN, self._client, version)) for version in versions],
            check=checked,
            weights=[work.objects] * len(versions),
            sizes=[work.objects * work.dataset.size] * len(versions),
        )

    def _count(self) -> Slices:
        """Every transaction changes every object of the one container that all clients change."""
        model, client = self._model, self._client

        def acknowledged(answers: Sequence[Any]) -> int:
            raised = sum(type(answer) is Failure for answer in answers)
            model.counted[client] += (len(answers) - raised, raised)
            if self._work.judged:
                model.conflicts[client] += sum(answer.lost for answer in answers if type(answer) is not Failure)
            return 0

        def parts(answers: Sequence[Any]) -> dict[str, list[int]]:
            return {"conflicting": [a.lost_ns for a in answers], "committed": [a.committed_ns for a in answers]}

        for part in self._parts(range(self._work.transactions)):
            yield Operations(
                calls=lambda _: (self._port.count,),
                arguments=[ObjectPosition(SHARED, 0)] * len(part),
                check=acknowledged,
                weights=[self._work.objects] * len(part),
                parts=parts if self._work.judged else None,
            )

    def _pack(self) -> Slices:
        """Once, by the first client."""
        if self._client == 0 and self._round == 0:
            yield Operations(calls=lambda _: (self._port.pack,), arguments=[None], check=lambda answers: 0)

    # -- reads --------------------------------------------------------------------------------------------

    def _read_written(self) -> Slices:
        """What this client's other connection wrote, untimed, just before the slice; each container once."""
        branch = written_by(self._client, self._phase)
        for part in self._parts(range(self._work.transactions if self._round == 0 else 0)):
            for key in part:
                self._port.write(Task(branch, key, self._work.contents(branch, key)))
            yield from self._reads(self._port.read, branch, part)

    def _read_once(self, call: Callable[[ObjectPosition], Any], forget: bool = False) -> Slices:
        """Each of the containers that all clients read, in an order of the client's own; not again, as it would then
        be in a cache."""
        if self._round:
            return
        if forget:
            self._port.forget()
        yield from self._read(call)

    def _read(self, call: Callable[[ObjectPosition], Any], containers: int | None = None) -> Slices:
        """The same, or so many of them, as often as it takes."""
        # Neither the engine nor the trial: the inputs are the same for all of them.
        rng = np.random.default_rng([self._work.seed, 3, self._client, crc32(self._phase.encode()), self._round])
        keys = rng.permutation(self._work.transactions) if containers is None else np.arange(containers)
        return self._reads(call, SETS, np.resize(keys, self._work.transactions).tolist())

    def _reads(self, call: Callable[[ObjectPosition], Any], branch: str, keys: Sequence[int]) -> Slices:
        work = self._work

        def check(part: Sequence[int], answers: Sequence[Any]) -> int:
            return sum(
                self._are(answer, work.contents(branch, key), f"container {key}")
                for key, answer in zip(part, answers, strict=False)
                if type(answer) is not Failure
            )

        for part in self._parts(keys):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[ObjectPosition(branch, key) for key in part],
                check=partial(check, part),
                weights=[work.objects] * len(part),
                sizes=[work.objects * work.dataset.size] * len(part),
            )

    def _read_blobs(self) -> Slices:
        work = self._work
        each = work.blobs_each * work.blobs.size

        def check(part: Sequence[int], answers: Sequence[Any]) -> int:
            return sum(
                self._are(answer, work.blob_contents(BLOBS, key), f"blobs {key}")
                for key, answer in zip(part, answers, strict=False)
                if type(answer) is not Failure
            )

        for part in self._parts(range(work.transactions if self._round == 0 else 0), each):
            yield Operations(
                calls=lambda _: (self._port.read_blobs,),
                arguments=[ObjectPosition(BLOBS, key) for key in part],
                check=partial(check, part),
                weights=[work.blobs_each] * len(part),
                sizes=[each] * len(part),
            )

    # -- both ---------------------------------------------------------------------------------------------

    def _parts(self, keys: Sequence[int], blob_bytes: int = 0) -> Iterator[Sequence[int]]:
        """As many at once as may wait in memory."""
        most = SLICE_BYTES // blob_bytes if blob_bytes else SLICE_OBJECTS // self._work.objects
        step = min(max(most, 1), MOST_SLICE)
        return (keys[at : at + step] for at in range(0, len(keys), step))

    def _are(self, answer: Any, wanted: list[bytes], what: str) -> int:
        if not self._work.judged:
            return 0
        compare(answer, wanted, f"{self._phase}, {what}")
        return len(wanted)


def compare(found: Any, wanted: Sequence[Any], what: str) -> None:
    """Whether all of them are there, in order, and nothing else. Raises `Wrong`."""
    if not is_list(found, len(wanted)):
        told = len(found) if type(found) is list else type(found).__name__
        raise Wrong(f"{what}: got {told}, expected a list of {len(wanted)}")
    if not same(found, list(wanted)):
        at = next(at for at, (one, other) in enumerate(zip(found, wanted, strict=True)) if not same(one, other))
        raise Wrong(f"{what}, object {at}: {difference(found[at], wanted[at])}")
