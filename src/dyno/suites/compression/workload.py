"""One trial of the compression suite: its store, its operations, how their answers are checked, and its facts."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.equality import difference, same
from dyno.contracts.model import Caveat, Fact, Phase, Wrong
from dyno.contracts.suite import Failure, Job, Operations, Work
from dyno.suites._shared.store import OnStore
from dyno.suites.compression import conformance
from dyno.suites.compression.batches import FIRST, Batch, Batches
from dyno.suites.compression.dataset import Dataset, Record
from dyno.suites.compression.packers import open_packer

Slices = Iterator[Work]
# Answers wait for their check, and push the engine's own data out of the processor's caches: few at a time.
GET_SLICE, ITERATE_SLICE = 250, 1
INSERT_SLICE = 50_000
"""Records of one transaction of the phase insert."""
TIMED_NS, MOST_PASSES = 20_000_000, 50
"""CPU time for which a packer is tried at least, by as many passes over all batches as it takes."""
MB = 1_000_000
# Settings by which engines say that they compress what they are given.
COMPRESSION, UNCOMPRESSED = "compression", (None, "none", "no", False)


class CompressionWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._size, self._packer = int(job.params["batch"]), str(job.params["packer"])
        self._dataset = Dataset(int(job.params["records"]), job.seed)
        self._starts = range(0, len(self._dataset), self._size)
        # Which batches the store acknowledged: shared with client processes, which are forked.
        self._stored = np.frombuffer(mmap.mmap(-1, len(self._starts)), dtype=np.uint8)
        self._facts: dict[str, Fact] = {}

    # -- the store ------------------------------------------------------------------------------------------

    def checks(self) -> Mapping[str, conformance.Check]:
        return conformance.CHECKS

    def port(self, engine: Engine, *how: Any) -> Batches:
        (size,) = how
        return Batches(self._job.port(engine), open_packer(self._packer), size)

    @contextmanager
    def connect(self) -> Iterator[Batches]:
        with closing(self.port(self.engine(), self._size)) as port:
            yield port

    def prepare(self, phase: Phase) -> None:
        self.begin()
        if phase.writes:
            return
        self.load(self._load_missing)
        self._stored[:] = 1

    def _load_missing(self) -> None:
        """Brings in what the phase insert, ended by its budget or left out, did not."""
        missing = np.flatnonzero(self._stored == 0).tolist()
        if missing:
            with self.connect() as port, port.writing() as write:
                for number in missing:
                    write(self._batch(number))

    def _batch(self, number: int) -> Batch:
        part = slice(self._starts[number], self._starts[number] + self._size)
        return list(zip(self._dataset.keys[part], self._dataset.records[part], strict=True))

    # -- the operations -------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Slices:
        slices: dict[str, Callable[[], Slices]] = {
            "insert": partial(self._insert, port, client, clients, round),
            "gets": partial(self._gets, port, client, clients, round),
            "iterate": partial(self._iterate, port, client, clients),
        }
        return slices[phase.name]()

    def _insert(self, port: Batches, client: int, clients: int, round: int) -> Slices:
        """Every batch once, in key order, so none in a further round."""
        mine = range(client, len(self._starts), clients) if round == 0 else range(0)
        step = max(INSERT_SLICE // self._size, 1)
        for start in range(0, len(mine), step):
            numbers = mine[start : start + step]
            batches = [self._batch(number) for number in numbers]
            yield Operations(
                calls=lambda store: (store,),
                arguments=batches,
                check=partial(self._acknowledged, numbers),
                weights=[len(batch) for batch in batches],
                around=port.writing,
            )

    def _acknowledged(self, numbers: Sequence[int], answers: Sequence[Any]) -> int:
        """Nothing to compare: what was stored is looked at after the phase."""
        for number, answer in zip(numbers, answers, strict=False):
            self._stored[number] = type(answer) is not Failure
        return 0

    def _gets(self, port: Batches, client: int, clients: int, round: int) -> Slices:
        """Random records, in one read transaction."""
        # Neither the packer nor the size of batches: all cells are asked for the same records.
        rng = np.random.default_rng([self._job.seed, 2, client, crc32(b"gets"), round])
        count = len(range(client, int(self._job.params["gets"]), clients))
        numbers = rng.integers(0, len(self._dataset), count).tolist()
        held = port.reading()
        for start in range(0, count, GET_SLICE):
            part = numbers[start : start + GET_SLICE]
            yield Operations(
                calls=lambda reader: (reader.get,),
                arguments=[self._dataset.keys[number] for number in part],
                check=self._checked("record", [self._dataset.records[number] for number in part]),
                held=held,
            )

    def _iterate(self, port: Batches, client: int, clients: int) -> Slices:
        """Whole iterations, in one read transaction."""
        count = len(range(client, int(self._job.params["iterations"]), clients))
        held = port.reading()
        for start in range(0, count, ITERATE_SLICE):
            times = min(ITERATE_SLICE, count - start)
            yield Operations(
                calls=lambda reader: (reader.iterate,),
                arguments=[FIRST] * times,
                check=self._checked("all records", [self._dataset.records] * times),
                weights=[len(self._dataset)] * times,
                held=held,
            )

    def _checked(self, what: str, wanted: Sequence[Record | list[Record]]) -> Callable[[Sequence[Any]], int]:
        def check(answers: Sequence[Any]) -> int:
            if self._job.spec.floor:
                return 0
            checked = 0
            for answer, right in zip(answers, wanted, strict=False):
                if type(answer) is not Failure:
                    if not same(answer, right):
                        raise Wrong(f"{what}: {_difference(answer, right)}")
                    checked += len(right) if type(right) is list else 1
            return checked

        return check

    # -- afterwards -----------------------------------------------------------------------------------------

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """The encoded records, by their mean length."""
        if not phase.writes:
            return None
        return round(items * sum(map(len, self._dataset.encoded)) / len(self._dataset))

    def verify(self, phase: Phase) -> int:
        """Every record in key order, and no entry more than there are batches."""
        if self._job.spec.floor or not phase.writes:
            return 0
        numbers = np.flatnonzero(self._stored).tolist()
        wanted = [record for number in numbers for _, record in self._batch(number)]
        last = [self._batch(number)[-1][0] for number in numbers]
        with self.connect() as port:
            with port.reading() as reader:
                found = reader.iterate(FIRST)
            with port.entries() as entries:
                stored = list(entries)
        if not same(found, wanted):
            raise Wrong(f"after {phase.name}, all records: {_difference(found, wanted)}")
        # Values are looked into above; that they are bytes is what the size of what is stored is told by.
        if not same([(key, type(value) is bytes) for key, value in stored], [(key, True) for key in last]):
            raise Wrong(
                f"after {phase.name}: {len(stored)} entries, or other keys than those of {len(numbers)} batches"
            )
        return len(wanted)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """What is stored and what the packer costs. Nothing of a null engine, and of a store that is not whole."""
        if self._job.spec.floor or not self._stored.all():
            return {}
        if not self._facts:
            with self.connect() as port, port.entries() as entries:
                found = list(entries)
            stored = sum(len(key) + len(value) for key, value in found)
            self._facts = {
                "stored_bytes": stored,
                "entries": len(found),
                "ratio": self._dataset.plain_bytes / stored,
                **self._costs([value for _, value in found]),
            }
        return self._facts

    def _costs(self, packed: Sequence[bytes]) -> dict[str, Fact]:
        """CPU time of the packer alone, over all batches: it can't be told apart inside an operation."""
        packer = open_packer(self._packer)
        costs: list[float | None] = [None, None]
        if packer.library is not None:
            whole = [packer.decompress(value) for value in packed]
            each = ((packer.compress, whole), (packer.decompress, packed))
            costs = [_cpu_ns(call, texts) / sum(map(len, whole)) * MB for call, texts in each]
        return {
            "compress_cpu_ns_per_mb": costs[0],
            "decompress_cpu_ns_per_mb": costs[1],
            "library": packer.library,
        }

    def caveats(self) -> Iterable[Caveat]:
        own = self.engine().settings().get(COMPRESSION)
        if own not in UNCOMPRESSED:
            yield Caveat("compresses-again", f"compresses its files itself ({own}): size is of what it was given")


def _cpu_ns(call: Callable[[bytes], object], texts: Sequence[bytes]) -> float:
    """CPU time of this thread in one pass over the texts: the mean of as many as there is time for."""
    passes, start = 0, time.thread_time_ns()
    while True:
        for text in texts:
            call(text)
        passes, spent = passes + 1, time.thread_time_ns() - start
        if spent >= TIMED_NS or passes == MOST_PASSES:
            return spent / passes


def _difference(got: Any, right: Any) -> str:
    """Where two answers part, in one line."""
    if type(got) is list and type(right) is list:
        for at, (mine, wanted) in enumerate(zip(got, right, strict=False)):
            if not same(mine, wanted):
                return f"number {at}: {_difference(mine, wanted)}"
        return f"got {len(got)} of them, expected {len(right)}"
    return difference(got, right)
