"""Operations of each phase, built slice by slice before the clock starts, and checks of their answers.

An operation is a transaction. It counts as many items as it has objects.
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
from dyno.suites.objects.dataset import BLOBS, MAX_WRITTEN, OWN, SETS, SHARED, Dataset, Model, client_branch
from dyno.suites.objects.transactions import ObjectPosition, Task

SLICE_OBJECTS, MAX_SLICE, SLICE_BYTES = 20_000, 500, 64 << 20
"""Maximum numbers of objects, of operations, and of blobs' bytes in a slice, whose inputs and answers wait in
memory."""

Slices = Iterator[Operations]


@dataclass(frozen=True)
class TrialState:
    """Parameters, datasets and model of one trial, which all phases and clients share."""

    dataset: Dataset
    blobs: Dataset
    model: Model
    objects: int
    blobs_each: int
    transactions: int
    seed: int
    judged: bool
    """False for a null engine, whose answers are not checked."""

    def contents(self, branch: str, key: int, version: int = 0) -> list[bytes]:
        """Returns the contents of a container's objects."""
        return self.dataset.contents(self.model.first(branch, key), self.objects, version)

    def blob_contents(self, branch: str, key: int) -> list[bytes]:
        return self.blobs.contents(self.model.first(branch, key), self.blobs_each, 0)


class ClientWork:
    """One client's share of one phase in one round."""

    def __init__(self, state: TrialState, phase: str, port: Any, client: int, round: int) -> None:
        self._state, self._phase, self._port, self._client, self._round = state, phase, port, client, round
        self._model = state.model

    def slices(self) -> Slices:
        port, state = self._port, self._state
        build: dict[str, Callable[[], Slices]] = {
            "write": partial(self._write, port.write, state.contents, state.objects),
            "read": self._read_written,
            "add": partial(self._change, port.add, lambda answer: 0),
            "update": partial(self._change, port.update, self._check_update),
            "read-warm": partial(self._read_once, port.read),
            "read-cold": partial(self._read_once, port.read, True),
            "read-cold-prefetch": partial(self._read_once, port.prefetch, True),
            "read-hot": partial(self._read, port.read),
            "read-steamin": partial(self._read, port.read_again, 1),
            "read-device": partial(self._read_once, port.read),
            "conflicts": self._count,
            "blob-write": partial(self._write, port.write_blobs, state.blob_contents, state.blobs_each, True),
            "blob-read": partial(
                self._reads, port.read_blobs, BLOBS, range(state.transactions if self._round == 0 else 0), True
            ),
            "pack": self._pack,
        }
        return build[self._phase]()

    # -- writes -------------------------------------------------------------------------------------------

    def _write(
        self,
        call: Callable[[Task], Any],
        contents: Callable[[str, int], list[bytes]],
        count: int,
        blobs: bool = False,
    ) -> Slices:
        """Yields transactions that each write a new container of `count` objects."""
        branch = client_branch(self._client, self._phase)
        written = self._model.written(self._phase, self._client)
        start = int(np.flatnonzero(written)[-1]) + 1 if written.any() else 0
        keys = range(start, min(start + self._state.transactions, MAX_WRITTEN))
        size = self._state.blobs.size if blobs else self._state.dataset.size

        def acknowledge(part: Sequence[int], answers: Sequence[Any]) -> int:
            for key, answer in zip(part, answers, strict=False):
                written[key] = 2 if type(answer) is Failure else 1
            return 0

        for part in self._parts(keys, size * count if blobs else 0):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[Task(branch, key, contents(branch, key)) for key in part],
                check=partial(acknowledge, part),
                weights=[count] * len(part),
                sizes=[size * count] * len(part),
            )

    def _check_update(self, answer: Any) -> int:
        if self._model.unsure[self._client]:
            return 0
        current = int(self._model.versions[self._client])
        expected = self._state.contents(OWN, self._client, current)
        return self._check(answer, expected, "the contents before an update")

    def _change(self, call: Callable[[Task], Any], check: Callable[[Any], int]) -> Slices:
        """Yields transactions that each write the next version of all objects in the client's own container."""
        state, model, client = self._state, self._model, self._client
        first = int(model.versions[client]) + 1

        def acknowledge(versions: Sequence[int], answers: Sequence[Any]) -> int:
            compared = 0
            for version, answer in zip(versions, answers, strict=False):
                # A transaction that raised may have been committed, so the contents are unsure until the next commit.
                raised = type(answer) is Failure
                compared += 0 if raised else check(answer)
                model.unsure[client] = raised
                if not raised:
                    model.versions[client] = version
            return compared

        for versions in self._parts(range(first, first + state.transactions)):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[Task(OWN, client, state.contents(OWN, client, version)) for version in versions],
                check=partial(acknowledge, versions),
                weights=[state.objects] * len(versions),
                sizes=[state.objects * state.dataset.size] * len(versions),
            )

    def _count(self) -> Slices:
        """Yields transactions that change all objects of the container that all clients share."""
        model, client = self._model, self._client

        def acknowledge(answers: Sequence[Any]) -> int:
            raised = sum(type(answer) is Failure for answer in answers)
            model.counted[client] += (len(answers) - raised, raised)
            if self._state.judged:
                model.conflicts[client] += sum(answer.lost for answer in answers if type(answer) is not Failure)
            return 0

        def parts(answers: Sequence[Any]) -> dict[str, list[int]]:
            return {"conflicting": [a.lost_ns for a in answers], "committed": [a.committed_ns for a in answers]}

        for part in self._parts(range(self._state.transactions)):
            yield Operations(
                calls=lambda _: (self._port.count,),
                arguments=[ObjectPosition(SHARED, 0)] * len(part),
                check=acknowledge,
                weights=[self._state.objects] * len(part),
                parts=parts if self._state.judged else None,
            )

    def _pack(self) -> Slices:
        """Yields one pack, by the first client in the first round."""
        if self._client == 0 and self._round == 0:
            yield Operations(calls=lambda _: (self._port.pack,), arguments=[None], check=lambda answers: 0)

    # -- reads --------------------------------------------------------------------------------------------

    def _read_written(self) -> Slices:
        """Yields reads of containers, each read once. Before each slice, this client's other connection writes them,
        untimed."""
        branch = client_branch(self._client, self._phase)
        for part in self._parts(range(self._state.transactions if self._round == 0 else 0)):
            for key in part:
                self._port.write(Task(branch, key, self._state.contents(branch, key)))
            yield from self._reads(self._port.read, branch, part)

    def _read_once(self, call: Callable[[ObjectPosition], Any], forget: bool = False) -> Slices:
        """Yields the same as `_read`, but only in the first round, since containers are cached afterwards."""
        if self._round:
            return
        if forget:
            self._port.forget()
        yield from self._read(call)

    def _read(self, call: Callable[[ObjectPosition], Any], containers: int | None = None) -> Slices:
        """Yields reads of the containers that all clients read, in the client's own random order.

        `containers`: read only that many containers, repeatedly.
        """
        state = self._state
        # The seed depends on neither engine nor trial, so that all of them get the same inputs.
        rng = np.random.default_rng([state.seed, 3, self._client, crc32(self._phase.encode()), self._round])
        keys = rng.permutation(state.transactions) if containers is None else np.arange(containers)
        return self._reads(call, SETS, np.resize(keys, state.transactions).tolist())

    def _reads(
        self, call: Callable[[ObjectPosition], Any], branch: str, keys: Sequence[int], blobs: bool = False
    ) -> Slices:
        """Yields reads of these containers, with comparisons of their contents."""
        state = self._state
        contents, what = (state.blob_contents, "blobs") if blobs else (state.contents, "container")
        items, size = (state.blobs_each, state.blobs.size) if blobs else (state.objects, state.dataset.size)

        def check(part: Sequence[int], answers: Sequence[Any]) -> int:
            return sum(
                self._check(answer, contents(branch, key), f"{what} {key}")
                for key, answer in zip(part, answers, strict=False)
                if type(answer) is not Failure
            )

        for part in self._parts(keys, items * size if blobs else 0):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[ObjectPosition(branch, key) for key in part],
                check=partial(check, part),
                weights=[items] * len(part),
                sizes=[items * size] * len(part),
            )

    # -- both ---------------------------------------------------------------------------------------------

    def _parts(self, keys: Sequence[int], blob_bytes: int = 0) -> Iterator[Sequence[int]]:
        """Splits keys into slices. `blob_bytes`: bytes of blobs in one operation."""
        most = SLICE_BYTES // blob_bytes if blob_bytes else SLICE_OBJECTS // self._state.objects
        step = min(max(most, 1), MAX_SLICE)
        return (keys[at : at + step] for at in range(0, len(keys), step))

    def _check(self, answer: Any, expected: list[bytes], what: str) -> int:
        if not self._state.judged:
            return 0
        expect_contents(answer, expected, f"{self._phase}, {what}")
        return len(expected)


def expect_contents(got: Any, expected: Sequence[Any], what: str) -> None:
    """Raises Wrong unless `got` is a list of exactly the expected values, in order."""
    if not is_list(got, len(expected)):
        length = len(got) if type(got) is list else type(got).__name__
        raise Wrong(f"{what}: got {length}, expected a list of {len(expected)}")
    if not same(got, list(expected)):
        at = next(at for at, (one, other) in enumerate(zip(got, expected, strict=True)) if not same(one, other))
        raise Wrong(f"{what}, object {at}: {difference(got[at], expected[at])}")
