"""The operations of each phase, built slice by slice before the clock starts, and how their answers are checked.

Client c of n owns the records whose number is c modulo n, and writes only those; it reads any. So every client
knows exactly what its own records hold, and of the others' that they may not be older than what was acknowledged
before the slice was built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import difference, is_list, same, shorten
from dyno.contracts.model import Value, Wrong
from dyno.contracts.suite import Bulk, Failure, Operations
from dyno.suites._shared.permutation import Grouped, Shuffled
from dyno.suites.records.dataset import ABSENT, Dataset, Model, draw, following
from dyno.suites.records.marks import marks
from dyno.suites.records.params import SCAN_LENGTH, Mix
from dyno.suites.records.port import INDEXES, Key, Record, Records

# Records of a slice of writes. Of reads far fewer: the answers wait for their check, and the more memory they take,
# the more of the engine's own they push out of the processor's caches (measured: a sixth of LMDB's throughput).
SLICE = 50_000
READ_SLICE, SCAN_SLICE, MIXED_SLICE = 250, 5, 250
TOGETHER = 8
"""How many times as large they are for several clients, whose slices follow one another with the clock running."""
# A bulk phase of up to this many records is built whole, so that its clock never stops.
BULK_SLICE = 250_000

Slices = Iterator[Operations | Bulk]
Calls = Callable[[Any], Sequence[Callable[[Any], Any]]]


@dataclass
class Work:
    """What all phases and clients of one trial share, and the model of what the store must hold."""

    dataset: Dataset
    mix: Mix
    distribution: str
    txn: Value
    batch: int
    """Keys that an operation of `rand-key` asks for."""
    operations: int
    judged: bool
    """False for a null engine, whose answers are no answers."""
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        self.model = Model(len(self.dataset.names))

    def current(self, number: int) -> Record | None:
        """Record `number` as the store must hold it now; None where it must be absent."""
        version = int(self.model.versions[number])
        return None if version == ABSENT else self.dataset.record(number, version)

    def right(self, numbers: Sequence[int], answers: Sequence[Any]) -> NDArray[np.bool_]:
        """Whether each answer is the record as the store must hold it now; where there are fewer numbers or fewer
        answers, of the first.

        An answer is compared whole the first time, and by its hash when the same is found again: the less a check
        does between slices, the less of the engine's memory it pushes out of the processor's caches.
        """
        at = np.array(numbers[: len(answers)], dtype=np.intp)
        found = marks(self.model.versions[at].astype(np.int64), answers[: len(at)])
        right: NDArray[np.bool_] = (found == self.model.marks[at]) & (found != 0)
        for place in np.flatnonzero(~right).tolist():
            if same(answers[place], self.current(numbers[place])):
                self.model.marks[numbers[place]] = found[place]
                right[place] = True
        return right


class ClientWork:
    """One client's part of one phase. Which of its builders makes the phase's operations is said in `recipes`."""

    def __init__(self, work: Work, phase: str, port: Records, client: int, clients: int, round: int = 0) -> None:
        self.work, self.port, self.client, self.clients = work, port, client, clients
        self.dataset, self.model, self.judged = work.dataset, work.model, work.judged
        self._phase = phase
        """For seeds and messages alone."""
        self._known: NDArray[np.int32] | None = None
        self.again = round > 0
        # Neither the engine nor the trial: the inputs are the same for all of them.
        self._seed = [work.dataset.seed, 2, client, crc32(phase.encode()), round]
        self.rng = np.random.default_rng(self._seed)

    def known(self) -> NDArray[np.int32]:
        """The versions that the store has at least: one copy for all slices that are built before the next check, as
        there may be hundreds."""
        if self._known is None:
            self._known = self.model.versions.copy()
        return self._known

    def outdate(self) -> None:
        """A check has begun: what is known changes with it."""
        self._known = None

    # -- which records ------------------------------------------------------------------------------------

    def own_count(self) -> int:
        return self.share_of(self.dataset.records)

    def share_of(self, operations: int) -> int:
        """How many of all operations are this client's."""
        return len(range(self.client, operations, self.clients)) if self.client < self.dataset.records else 0

    def _few(self, part: float) -> int:
        """How many operations are this client's, of a part of the number of records."""
        return self.share_of(max(int(self.dataset.records * part), 1))

    def _shuffled(self, most: int | None = None) -> Sequence[int]:
        """This client's records in random order, or so many of them."""
        return Shuffled(range(self.client, self.dataset.records, self.clients), self._seed, most)

    def draw_own(self, distribution: str, draws: int) -> list[int]:
        """Numbers of this client's records, by the key distribution."""
        drawn = draw(distribution, self.dataset.records, draws, self.rng, self.dataset.seed)
        return [self._own_nearest(number) for number in drawn]

    def _own_nearest(self, number: int) -> int:
        """This client's record in the same row of `clients` records, so that all clients' hot ones are neighbours."""
        own = number - number % self.clients + self.client
        return own if own < self.dataset.records else own - self.clients

    # -- checks -------------------------------------------------------------------------------------------

    def same(self, got: Any, expected: Any, what: str) -> None:
        if self.judged and not same(got, expected):
            raise Wrong(f"{what}: {difference(got, expected)}")

    def are_as_many(self, got: Any, count: int, what: str) -> None:
        """`got` is a list of so many, whatever is in it."""
        if self.judged and not is_list(got, count):
            raise Wrong(f"{what}: got {shorten(got)}, expected a list of {count}")

    def are_current(self, numbers: Sequence[int], answers: Sequence[Any]) -> int:
        """As `is_current` of each; passes over operations that raised."""
        if not self.judged:
            return 0
        right = self.work.right(numbers, answers)
        for place in np.flatnonzero(~right).tolist():
            if type(answers[place]) is not Failure:
                self.is_current(numbers[place], answers[place])
        return int(right.sum())

    def is_current(self, number: int, answer: Any) -> int:
        if self.judged:
            self.same(answer, self.work.current(number), f"{self._phase}, record {number}")
        return int(self.judged)

    # -- writes -------------------------------------------------------------------------------------------

    def _transactions(
        self,
        numbers: Sequence[Any],
        build: Callable[[Sequence[Any]], list[Any]],
        call: Callable[[Iterable[Any]], Any],
        stored: Callable[[Sequence[Any], Any], int],
        items: int = 1,
    ) -> Slices:
        """Writes in transactions of `txn` records: one bulk call, or an operation per transaction."""
        if self.work.txn == "all":
            feed = (build(numbers[at : at + BULK_SLICE]) for at in range(0, len(numbers), BULK_SLICE))
            yield Bulk(call, feed, items, partial(_in_pieces, numbers, stored))
            return
        size = int(self.work.txn)
        step = max(SLICE // size, 1) * size
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            batches = [part[at : at + size] for at in range(0, len(part), size)]
            yield _batched(call, batches, [build(batch) for batch in batches], stored, items)

    def insert(self, blind: bool, keys: int) -> Slices:
        """Every record once; `keys`: how many each of them makes. Not blind: the old value is observed."""

        def build(batch: Sequence[int]) -> list[Record]:
            return [self.dataset.record(number) for number in batch]

        def stored(batch: Sequence[int], olds: Any) -> int:
            if not blind:
                self.same(olds, [None] * len(batch), "old values of new records")
            self.model.versions[batch] = 0
            return 0 if blind else len(batch)

        call = self.port.insert if blind else self.port.replace
        return self._transactions(self._shuffled(), build, call, stored, keys)

    def update(self) -> Slices:
        versions, model = NextVersion(self.model), self.model

        def build(batch: Sequence[Any]) -> list[Record]:
            return [self.dataset.record(number, version) for number, version in batch]

        def stored(batch: Sequence[Any], olds: Any) -> int:
            self.are_as_many(olds, len(batch), "old values")
            # Each as it was before: of a record that is replaced twice, the second time as the first has left it.
            before = np.array([version - 1 for _, version in batch], dtype=np.int64)
            for (number, version), old, found in zip(batch, olds, marks(before, olds).tolist(), strict=True):
                known = found and found == model.marks[number] and version - 1 == model.versions[number]
                if not known:
                    self.is_current(number, old)
                model.versions[number] = version
            return len(batch)

        distribution = self.work.distribution
        numbers = self.draw_own(distribution, self.share_of(min(self.work.operations, self.dataset.records)))
        return self._transactions([(n, versions.of(n)) for n in numbers], build, self.port.replace, stored)

    def delete(self) -> Slices:
        def build(batch: Sequence[int]) -> list[Key]:
            return [self.dataset.key(number) for number in batch]

        def stored(batch: Sequence[int], found: Any) -> int:
            self.same(found, [True] * len(batch), "whether deleted records were there")
            self.model.versions[batch] = ABSENT
            return len(batch)

        share = self.share_of(min(self.work.operations, self.dataset.records))
        return self._transactions(self._shuffled(share), build, self.port.delete, stored)

    # -- reads --------------------------------------------------------------------------------------------

    def _reads(
        self,
        numbers: Sequence[Any],
        bind: Calls,
        argument: Callable[[int, Any], Any],
        check: Callable[[Sequence[Any], Sequence[Any]], int],
        most: int = READ_SLICE,
        weigh: Callable[[Any], int] | None = None,
    ) -> Slices:
        """Reads in read transactions of `txn` operations; in a single one where it is 'all'; each on its own where it
        is 1. `weigh`: how many items an operation is, where that is not one."""

        most *= TOGETHER if self.clients > 1 else 1

        def slices(size: int, bind: Calls, **transaction: Any) -> Slices:
            for start in range(0, len(numbers), size):
                part = numbers[start : start + size]
                arguments = [argument(place, number) for place, number in enumerate(part)]
                weights = weigh and list(map(weigh, part))
                yield Operations(bind, arguments, partial(check, part), weights=weights, **transaction)

        if self.work.txn == "all":
            yield from slices(most, bind, held=self.port.reading())
        elif int(self.work.txn) == 1:
            alone = self.port.reader()
            yield from slices(most, lambda _: bind(alone))
        else:
            yield from slices(min(int(self.work.txn), SLICE), bind, around=self.port.reading)

    def rand_key(self, part: float = 1.0) -> Slices:
        """A part of all records, each once; so many at once as a batch has."""
        key, numbers, batch = self.dataset.key, self._shuffled(self._few(part)), self.work.batch
        if batch > 1:
            return self._reads(
                Grouped(numbers, batch),
                lambda reader: (reader.get_many,),
                lambda _, some: [key(number) for number in some],
                lambda part, answers: _each(part, self._are_all_current)(answers),
                max(READ_SLICE // batch, 1),
                len,
            )
        return self._reads(
            numbers,
            lambda reader: (reader.get,),
            lambda _, number: key(number),
            self.are_current,
        )

    def _are_all_current(self, numbers: Sequence[int], answer: Any) -> int:
        self.are_as_many(answer, len(numbers), f"{self._phase}, a batch from record {numbers[0]} on")
        return self.are_current(numbers, answer)

    def rand_index(self) -> Slices:
        """Every record once, by its reversed name and its reversed location in turn."""

        def bind(reader: Any) -> Sequence[Callable[[Any], Any]]:
            return [reader.finder(index) for index in INDEXES]

        def argument(place: int, number: int) -> str:
            name, location = self.dataset.key(number)
            return (location if place % 2 else name)[::-1]

        return self._reads(self._shuffled(), bind, argument, self.are_current)

    def scan(self, part: float) -> Slices:
        """A scan for a part of all records, each from any record on."""
        count = self._few(part)
        numbers = self.rng.integers(0, self.dataset.records, count).tolist()
        key = self.dataset.key
        return self._reads(
            numbers,
            lambda reader: (reader.scanner(SCAN_LENGTH),),
            lambda _, number: key(number),
            lambda part, answers: _each(part, self.is_stretch)(answers),
            SCAN_SLICE,
        )

    def is_stretch(self, number: int, answer: Any) -> int:
        """The answer of a scan from record `number` on is complete, in order, and has nothing else."""
        if not self.judged:
            return 0
        expected = following(self.model.versions, self.dataset, number, SCAN_LENGTH)
        self.are_as_many(answer, len(expected), f"{self._phase} from record {number}")
        for place in np.flatnonzero(~self.work.right(expected, answer)).tolist():
            self.same(answer[place], self.work.current(expected[place]), f"{self._phase} from record {number}")
        return len(expected)


class NextVersion:
    """The version that each further replacement of a record makes, counted while a slice is built."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._coming: dict[int, int] = {}

    def of(self, number: int) -> int:
        version = self._coming.get(number, int(self._model.versions[number])) + 1
        self._coming[number] = version
        return version


def _in_pieces(numbers: Sequence[Any], stored: Callable[[Sequence[Any], Any], int], answer: Any, taken: int) -> int:
    """The answer of a bulk call, checked in pieces, so that there need be no list of all numbers."""
    listed = is_list(answer, taken)
    step = taken if type(answer) is list and not listed else BULK_SLICE
    starts = range(0, taken, max(step, 1))
    return sum(
        stored(numbers[at : at + step][: taken - at], answer[at : at + step] if listed else answer) for at in starts
    )


def _batched(
    call: Callable[[Iterable[Any]], Any],
    batches: Sequence[Sequence[Any]],
    arguments: list[list[Any]],
    stored: Callable[[Sequence[Any], Any], int],
    items: int,
) -> Operations:
    return Operations(
        calls=lambda _: (call,),
        arguments=arguments,
        check=_each(batches, stored),
        weights=[items * len(batch) for batch in batches],
    )


def _each(asked: Sequence[Any], check: Callable[[Any, Any], int]) -> Callable[[Sequence[Any]], int]:
    """Checks every answer in turn, and passes over operations that raised."""

    def check_all(answers: Sequence[Any]) -> int:
        pairs = zip(asked, answers, strict=False)
        return sum(check(what, answer) for what, answer in pairs if type(answer) is not Failure)

    return check_all
