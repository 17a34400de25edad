"""The suite `compression`: conformance checks of batches on an ordered key-value store, and a trial."""

import mmap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from zlib import crc32

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.equality import PlannedFailure, expect, same
from dyno.contracts.model import Caveat, Fact, Phase, Tier, Wrong
from dyno.contracts.roles import PayloadWorkload
from dyno.contracts.suite import Failure, Job, Opened, Operations, Work, by_name, check_each
from dyno.suites._shared.store import OnStore
from dyno.suites.compression import open_packer
from dyno.suites.compression.batches import FIRST, Batch, Batches, Dataset, Record, key_of

COUNT = 7


def make_record(number: int) -> Record:
    # Records have different lengths, and characters that JSON escapes.
    return {"id": key_of(number).hex(), "tags": ["é", '"', "\n"], "summary": "ab" * (number * 50)}


def store(port: Batches, numbers: Sequence[int], size: int) -> None:
    with port.writing() as write:
        for at in range(0, len(numbers), size):
            write([(key_of(number), make_record(number)) for number in numbers[at : at + size]])


def lookups(opened: Opened[Batches], tier: Tier) -> None:
    """Every record is found in its batch; absent keys before, between and after the records are not."""
    for size in (1, 3, COUNT):
        with opened(f"lookups-{size}", size) as port:
            with port.reading() as reader:
                expect(reader.get(key_of(1)), None, "get from an empty store")
            store(port, range(1, COUNT + 1), size)
            with port.reading() as reader:
                for number in range(1, COUNT + 1):
                    expect(reader.get(key_of(number)), make_record(number), f"get, batches of {size}")
                    beside = (int.from_bytes(key_of(number), "big") + 1).to_bytes(len(FIRST), "big")
                    expect(reader.get(beside), None, f"get of an absent key, batches of {size}")
                expect(reader.get(key_of(0)), None, "get of a key before all")
                expect(reader.get(key_of(COUNT + 1)), None, "get of a key after all")


def order(opened: Opened[Batches], tier: Tier) -> None:
    """An iteration returns every record once, in key order, independent of the order in which batches were stored."""
    for size in (1, 3):
        with opened(f"order-{size}", size) as port:
            for start in (6, 0, 3):
                store(port, range(start, start + 3), size)
            with port.reading() as reader:
                expect(reader.iterate(FIRST), [make_record(number) for number in range(9)], f"all, batches of {size}")
            with port.entries() as entries:
                keys = [key for key, _ in entries]
                expect(keys, [key_of(at) for at in range(size - 1, 9, size)], f"keys of entries, batches of {size}")


def atomicity(opened: Opened[Batches], tier: Tier) -> None:
    """A transaction that fails leaves no trace."""
    with opened("atomicity", 2) as port:
        store(port, range(2), 2)
        with suppress(PlannedFailure), port.writing() as write:
            write([(key_of(2), make_record(2)), (key_of(3), make_record(3))])
            raise PlannedFailure
        with port.reading() as reader:
            expect(reader.iterate(FIRST), [make_record(0), make_record(1)], "all after a failed transaction")


def persistence(opened: Opened[Batches], tier: Tier) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds the same records."""
    if tier is Tier.VOLATILE:
        return
    with opened("persistence", 3) as port:
        store(port, range(COUNT), 3)
    with opened("persistence", 3) as port, port.reading() as reader:
        expect(reader.iterate(FIRST), [make_record(number) for number in range(COUNT)], "all after opening again")


CHECKS = by_name(lookups, order, atomicity, persistence)


Slices = Iterator[Work]
# Small slices: answers wait in memory for their check, and evict the engine's data from the processor's caches.
GET_SLICE, ITERATE_SLICE = 250, 1
INSERT_SLICE = 50_000
"""Number of records in one transaction of the phase insert."""
MIN_CPU_NS, MAX_PASSES = 20_000_000, 50
"""Limits of the CPU time and the number of the passes over all batches that measure a packer's cost."""
MB = 1_000_000
# Setting by which an engine reports that it compresses values itself, and its values for no compression.
COMPRESSION, UNCOMPRESSED = "compression", (None, "none", "no", False)


class CompressionWorkload(OnStore, PayloadWorkload):
    checks = CHECKS

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._size, self._packer = int(job.params["batch"]), str(job.params["packer"])
        self._dataset = Dataset(int(job.params["records"]), job.seed)
        self._starts = range(0, len(self._dataset), self._size)
        # Whether each batch was acknowledged. Client processes, which are forked, share the array.
        self._stored = np.frombuffer(mmap.mmap(-1, len(self._starts)), dtype=np.uint8)
        self._facts: dict[str, Fact] = {}

    def port(self, engine: Engine, *how: int) -> Batches:
        (size,) = how
        return Batches(self._job.port(engine), open_packer(self._packer), size)

    def port_arguments(self) -> tuple[int, ...]:
        return (self._size,)

    def prepare(self, phase: Phase) -> None:
        self.begin()
        if phase.writes:
            return
        self.load(self._load_missing)
        self._stored[:] = 1

    def _load_missing(self) -> None:
        """Stores the batches that the phase insert did not store because it was left out or reached its budget."""
        missing = np.flatnonzero(self._stored == 0).tolist()
        if missing:
            with self.connect() as port, port.writing() as write:
                for number in missing:
                    write(self._batch(number))

    def _batch(self, number: int) -> Batch:
        part = slice(self._starts[number], self._starts[number] + self._size)
        return list(zip(self._dataset.keys[part], self._dataset.records[part], strict=True))

    def work(self, phase: Phase, port: Batches, client: int, clients: int, round: int) -> Slices:
        if phase.name == "insert":
            return self._insert(port, client, clients, round)
        return self._reads(port, phase.name == "iterate", client, clients, round)

    def _insert(self, port: Batches, client: int, clients: int, round: int) -> Slices:
        """Yields operations that store every batch once, in key order. Further rounds store nothing."""

        def acknowledge(numbers: Sequence[int], answers: Sequence[object]) -> int:
            """Compares nothing: `verify` reads the store after the phase."""
            for number, answer in zip(numbers, answers, strict=False):
                self._stored[number] = type(answer) is not Failure
            return 0

        if round == 0:
            mine = range(client, len(self._starts), clients)
        else:
            mine = range(0)
        step = max(INSERT_SLICE // self._size, 1)
        for start in range(0, len(mine), step):
            numbers = mine[start : start + step]
            batches = [self._batch(number) for number in numbers]
            yield Operations(
                calls=lambda store: (store,),
                arguments=batches,
                check=partial(acknowledge, numbers),
                weights=[len(batch) for batch in batches],
                around=port.writing,
            )

    def _reads(self, port: Batches, iterate: bool, client: int, clients: int, round: int) -> Slices:
        """Yields reads of random records, or iterations over all records, in one read transaction."""
        dataset = self._dataset
        params = self._job.params
        expected = list[Record | list[Record]]()
        if iterate:
            count = len(range(client, int(params["iterations"]), clients))
            arguments = [FIRST] * count
            expected = [dataset.records] * count
            step = ITERATE_SLICE
        else:
            # The seed depends on neither packer nor batch size, so that all cells get the same records.
            rng = np.random.default_rng([self._job.seed, 2, client, crc32(b"gets"), round])
            numbers = rng.integers(0, len(dataset), len(range(client, int(params["gets"]), clients))).tolist()
            arguments, expected = [dataset.keys[at] for at in numbers], [dataset.records[at] for at in numbers]
            step = GET_SLICE

        def check(right: Record | list[Record], answer: object) -> int:
            expect(answer, right, "all records" if iterate else "record")
            if type(right) is list:
                return len(right)
            return 1

        held = port.reading()
        for start in range(0, len(arguments), step):
            part = slice(start, start + step)
            yield Operations(
                calls=lambda reader: (reader.iterate if iterate else reader.get,),
                arguments=arguments[part],
                check=check_each(expected[part], check, not self._job.spec.floor),
                weights=[len(dataset)] * len(arguments[part]) if iterate else None,
                held=held,
            )

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """Returns the bytes of encoded records, by their mean length."""
        if not phase.writes:
            return None
        return round(items * sum(map(len, self._dataset.encoded)) / len(self._dataset))

    def verify(self, phase: Phase) -> int:
        """Compares every record in key order, and the keys of the entries with those of the batches."""
        if not phase.writes:
            return 0
        numbers = np.flatnonzero(self._stored).tolist()
        expected = [record for number in numbers for _, record in self._batch(number)]
        last = [self._batch(number)[-1][0] for number in numbers]
        with self.connect() as port:
            with port.reading() as reader:
                records = reader.iterate(FIRST)
            with port.entries() as entries:
                stored = list(entries)
        expect(records, expected, f"after {phase.name}, all records")
        # The values were compared above. Here they must only be bytes, since the stored size is computed from their
        # lengths.
        if not same([(key, type(value) is bytes) for key, value in stored], [(key, True) for key in last]):
            raise Wrong(
                f"after {phase.name}: {len(stored)} entries, which are not the keys of {len(numbers)} batches"
            )
        return len(expected)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Returns the stored size and the packer's cost. Empty for a null engine, and for an incomplete store."""
        if self._job.spec.floor or not self._stored.all():
            return {}
        if not self._facts:
            with self.connect() as port, port.entries() as entries:
                stored = list(entries)
            stored_bytes = sum(len(key) + len(value) for key, value in stored)
            self._facts = {
                "stored_bytes": stored_bytes,
                "entries": len(stored),
                "ratio": self._dataset.plain_bytes / stored_bytes,
                **self._costs([value for _, value in stored]),
            }
        return self._facts

    def _costs(self, packed: Sequence[bytes]) -> dict[str, Fact]:
        """Measures the packer's CPU time over all batches, which can't be separated from an operation."""
        packer = open_packer(self._packer)
        costs: list[float | None] = [None, None]
        if packer.library is not None:
            plain = [packer.decompress(value) for value in packed]
            calls = ((packer.compress, plain), (packer.decompress, packed))
            costs = [_cpu_ns(call, texts) / sum(map(len, plain)) * MB for call, texts in calls]
        return {"compress_cpu_ns_per_mb": costs[0], "decompress_cpu_ns_per_mb": costs[1], "library": packer.library}

    def caveats(self) -> Iterable[Caveat]:
        setting = self.engine().settings().get(COMPRESSION)
        if setting not in UNCOMPRESSED:
            yield Caveat("compresses-again", f"compresses its files itself ({setting}): size is before that")


def _cpu_ns(call: Callable[[bytes], object], texts: Sequence[bytes]) -> float:
    """Returns the CPU time of this thread for one pass over the texts: the mean of several passes."""
    passes, start = 0, time.thread_time_ns()
    while True:
        for text in texts:
            call(text)
        passes, spent = passes + 1, time.thread_time_ns() - start
        if spent >= MIN_CPU_NS or passes == MAX_PASSES:
            return spent / passes


WORKLOAD = CompressionWorkload
