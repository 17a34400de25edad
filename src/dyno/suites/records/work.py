"""Operations of each phase, built slice by slice before the clock starts, and checks of their answers.

Client c of n owns the records whose number is c modulo n. It writes only those, and reads any. So a client knows the
exact contents of its own records. It also knows that other clients' records are not older than those that were
acknowledged before the slice was built.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import difference, is_list, same, shorten
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Bulk, Failure, Operations, check_each
from dyno.suites._shared.permutation import Shuffled
from dyno.suites.records import SCAN_LENGTH
from dyno.suites.records.dataset import ABSENT, Model, answer_hashes, following_records
from dyno.suites.records.draws import draw
from dyno.suites.records.port import INDEXES, Key, Reader, Record, Records

# Number of records in a slice of writes. Slices of reads are far smaller, since answers wait in memory for their
# check and evict the engine's data from the processor's caches (measured: a sixth of LMDB's throughput).
SLICE = 50_000
READ_SLICE = 250
SCAN_SLICE = 5
MIXED_SLICE = 250
SEVERAL_CLIENTS_FACTOR = 8
"""Factor by which slices of reads are larger with several clients, whose clock doesn't stop between them."""
# Maximum number of records in a bulk phase that is built as a whole, so that its clock never stops.
BULK_SLICE = 250_000

Slices = Iterator[Operations | Bulk]
Numbers = Sequence[Any] | Shuffled
Calls = Callable[[Any], Sequence[Callable[[Any], Any]]]


class ClientWork:
    """One client's share of one phase in one round. `PHASE_WORK` in `workload` names the method for each phase."""

    def __init__(self, model: Model, phase: str, port: Records, client: int, clients: int, round: int = 0) -> None:
        self.model = model
        self.port = port
        self.client = client
        self.clients = clients
        self.dataset, self.judged = model.dataset, model.judged
        self._phase = phase
        """Name of the phase, used only for seeds and messages."""
        self.snapshot: NDArray[np.int32] | None = None
        """Versions that all slices share which are built before the next check, which drops it."""
        self._planned: dict[int, int] = {}
        self.repeated = round > 0
        # The seed depends on neither engine nor trial, so that all of them get the same inputs.
        self._seed = [model.dataset.seed, 2, client, crc32(phase.encode()), round]
        self.rng = np.random.default_rng(self._seed)

    def next_version(self, number: int) -> int:
        """Returns the version that a further replacement of a record creates, while slices are built."""
        self._planned[number] = self._planned.get(number, int(self.model.versions[number])) + 1
        return self._planned[number]

    # -- which records ------------------------------------------------------------------------------------

    def share_of(self, operations: int) -> int:
        """Returns how many of all operations belong to this client. None do if it owns no record."""
        if self.client < self.dataset.records:
            return len(range(self.client, operations, self.clients))
        return 0

    def _shuffle_records(self, operations: int) -> Shuffled:
        """Returns this client's share of the operations: its records, each at most once, in random order."""
        own = range(self.client, self.dataset.records, self.clients)
        return Shuffled(own, self._seed, self.share_of(operations))

    def draw(self, draws: int, own: bool) -> list[int]:
        """Draws numbers of records by the key distribution. `own`: only of this client's records."""
        dataset, client = self.dataset, self.client if own else None
        return draw(self.model.distribution, dataset.records, draws, self.rng, dataset.seed, self.clients, client)

    # -- checks -------------------------------------------------------------------------------------------

    def expect(self, got: object, expected: object, what: str) -> None:
        if self.judged and not same(got, expected):
            raise Wrong(f"{what}: {difference(got, expected)}")

    def expect_count(self, got: object, count: int, what: str) -> None:
        """Raises Wrong unless `got` is a list of `count` items."""
        if self.judged and not is_list(got, count):
            raise Wrong(f"{what}: got {shorten(got)}, expected a list of {count}")

    def check_all_current(self, numbers: Sequence[int], answers: Sequence[object]) -> int:
        """Calls `check_current` for each answer. Skips operations that raised."""
        if not self.judged:
            return 0
        right = self.model.right(numbers, answers)
        for index in np.flatnonzero(~right).tolist():
            if type(answers[index]) is not Failure:
                self.check_current(numbers[index], answers[index])
        return int(right.sum())

    def check_current(self, number: int, answer: object) -> int:
        if self.judged:
            self.expect(answer, self.model.current(number), f"{self._phase}, record {number}")
        return int(self.judged)

    # -- writes -------------------------------------------------------------------------------------------

    def _transactions(
        self,
        numbers: Numbers,
        build: Callable[[Sequence[Any]], list[Any]],
        call: Callable[[Iterable[Any]], Any],
        check: Callable[[Sequence[Any], Any], int],
        items: int = 1,
    ) -> Slices:
        """Yields writes in transactions of `txn` records: one bulk call, or one operation per transaction. `check`
        gets the numbers of a transaction and its answer. `items`: number of items that a record counts as."""
        if self.model.txn == "all":

            def check_bulk(answer: Any, count: int) -> int:
                # Check in pieces, to avoid a list of all numbers.
                listed = is_list(answer, count)
                step = BULK_SLICE
                if type(answer) is list and not listed:
                    step = count
                return sum(
                    check(numbers[at : at + step][: count - at], answer[at : at + step] if listed else answer)
                    for at in range(0, count, max(step, 1))
                )

            feed = (build(numbers[at : at + BULK_SLICE]) for at in range(0, len(numbers), BULK_SLICE))
            yield Bulk(call, feed, items, check_bulk)
            return
        size = int(self.model.txn)
        step = max(SLICE // size, 1) * size
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            batches = [part[at : at + size] for at in range(0, len(part), size)]
            yield Operations(
                calls=lambda _: (call,),
                arguments=[build(batch) for batch in batches],
                check=check_each(batches, check),
                weights=[items * len(batch) for batch in batches],
            )

    def insert(self, blind: bool, keys: int) -> Slices:
        """Yields inserts of every record. `keys`: number of keys per record. `blind`: don't read old records."""

        def build(batch: Sequence[int]) -> list[Record]:
            return [self.dataset.record(number) for number in batch]

        def check(batch: Sequence[int], olds: object) -> int:
            if not blind:
                self.expect(olds, [None] * len(batch), "old values of new records")
            self.model.versions[batch] = 0
            if blind:
                return 0
            return len(batch)

        call = self.port.insert if blind else self.port.replace
        return self._transactions(self._shuffle_records(self.dataset.records), build, call, check, keys)

    def update(self) -> Slices:
        model = self.model

        def build(batch: Sequence[tuple[int, int]]) -> list[Record]:
            return [self.dataset.record(number, version) for number, version in batch]

        def check(batch: Sequence[tuple[int, int]], olds: Sequence[object]) -> int:
            self.expect_count(olds, len(batch), "old values")
            # If a batch replaces a record twice, the old record of the second time is the new one of the first.
            before = np.array([version - 1 for _, version in batch], dtype=np.int64)
            hashes = answer_hashes(before, olds).tolist()
            for (number, version), old, hashed in zip(batch, olds, hashes, strict=True):
                known = hashed and hashed == model.hashes[number] and version - 1 == model.versions[number]
                if not known:
                    self.check_current(number, old)
                model.versions[number] = version
            return len(batch)

        numbers = self.draw(self.share_of(min(self.model.operations, self.dataset.records)), own=True)
        return self._transactions(
            [(number, self.next_version(number)) for number in numbers], build, self.port.replace, check
        )

    def delete(self) -> Slices:
        def build(batch: Sequence[int]) -> list[Key]:
            return [self.dataset.key(number) for number in batch]

        def check(batch: Sequence[int], existed: object) -> int:
            self.expect(existed, [True] * len(batch), "whether deleted records existed")
            self.model.versions[batch] = ABSENT
            return len(batch)

        return self._transactions(self._shuffle_records(self.model.operations), build, self.port.delete, check)

    # -- reads --------------------------------------------------------------------------------------------

    def _reads(
        self,
        numbers: Numbers,
        bind: Calls,
        argument: Callable[[int, Any], Any],
        check: Callable[[Sequence[Any]], Callable[[Sequence[Any]], int]],
        most: int = READ_SLICE,
        group: int = 1,
    ) -> Slices:
        """Yields reads in read transactions of `txn` operations: all in one transaction, or each in its own for 1.
        `bind` returns the functions of a reader to call, and `check` the check of a slice of these numbers. `group`:
        if over 1, an operation reads a list of that many numbers."""
        most *= SEVERAL_CLIENTS_FACTOR if self.clients > 1 else 1

        def slices(size: int, bind: Calls, **transaction: Any) -> Slices:
            for start in range(0, len(numbers), size * group):
                part: Any = numbers[start : start + size * group]
                weights: list[int] | None = None
                if group > 1:
                    part = [part[at : at + group] for at in range(0, len(part), group)]
                    weights = list(map(len, part))
                arguments = [argument(index, number) for index, number in enumerate(part)]
                yield Operations(bind, arguments, check(part), weights=weights, **transaction)

        if self.model.txn == "all":
            yield from slices(most, bind, held=self.port.reading())
        elif int(self.model.txn) == 1:
            single = self.port.reader()
            yield from slices(most, lambda _: bind(single))
        else:
            yield from slices(min(int(self.model.txn), SLICE), bind, around=self.port.reading)

    def _check_all(self, numbers: Sequence[int]) -> Callable[[Sequence[object]], int]:
        return partial(self.check_all_current, numbers)

    def rand_key(self, fraction: float = 1.0) -> Slices:
        """Yields reads of a fraction of all records, each once, with `batch` keys per operation."""
        key, batch = self.dataset.key, self.model.batch
        numbers = self._shuffle_records(max(int(self.dataset.records * fraction), 1))
        if batch == 1:
            return self._reads(numbers, lambda reader: (reader.get,), lambda _, number: key(number), self._check_all)

        def check_batch(group: Sequence[int], answer: Sequence[object]) -> int:
            self.expect_count(answer, len(group), f"{self._phase}, a batch from record {group[0]} on")
            return self.check_all_current(group, answer)

        return self._reads(
            numbers,
            lambda reader: (reader.get_many,),
            lambda _, group: [key(number) for number in group],
            lambda part: check_each(part, check_batch),
            max(READ_SLICE // batch, 1),
            batch,
        )

    def rand_index(self) -> Slices:
        """Yields a lookup of every record, by reversed name and by reversed location in turn."""

        def bind(reader: Reader) -> Sequence[Callable[[str], Record | None]]:
            return [reader.finder(index) for index in INDEXES]

        def argument(index: int, number: int) -> str:
            name, location = self.dataset.key(number)
            return (location if index % 2 else name)[::-1]

        return self._reads(self._shuffle_records(self.dataset.records), bind, argument, self._check_all)

    def scan(self, fraction: float) -> Slices:
        """Yields scans from random records on. `fraction`: number of scans, as a fraction of all records."""
        count, key = self.share_of(max(int(self.dataset.records * fraction), 1)), self.dataset.key
        return self._reads(
            self.rng.integers(0, self.dataset.records, count).tolist(),
            lambda reader: (reader.scanner(SCAN_LENGTH),),
            lambda _, number: key(number),
            lambda part: check_each(part, self.check_scan),
            SCAN_SLICE,
        )

    def check_scan(self, number: int, answer: Sequence[object], length: int = SCAN_LENGTH) -> int:
        """Checks that a scan from record `number` on is complete, in order, and has no other records."""
        if not self.judged:
            return 0
        expected = following_records(self.model.versions, self.dataset, number, length)
        self.expect_count(answer, len(expected), f"{self._phase} from record {number}")
        for index in np.flatnonzero(~self.model.right(expected, answer)).tolist():
            self.expect(answer[index], self.model.current(expected[index]), f"{self._phase} from record {number}")
        return len(expected)
