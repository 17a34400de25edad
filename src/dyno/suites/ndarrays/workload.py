"""Trial of the suite `ndarrays`."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TypeVar
from zlib import crc32

import numpy as np

from dyno.contracts.model import Absent, Phase, Refused, Wrong
from dyno.contracts.roles import PayloadWorkload
from dyno.contracts.suite import Failure, Job, Operations, Work, check_each
from dyno.host.procfs import input_bytes
from dyno.suites._shared.store import OnStore
from dyno.suites.ndarrays import Ndarrays, conformance, lengths
from dyno.suites.ndarrays.conformance import BLOCK_BYTES, ITEM_BYTES, Expected

CHECKED_BLOCKS = 5
"""Number of blocks that are read again after the phase `write`, evenly spread."""

T = TypeVar("T")


class NdarraysWorkload(OnStore, PayloadWorkload):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._shape, self._chunks = (lengths(job.params[name]) for name in ("shape", "chunks"))
        if len(self._chunks) != len(self._shape) or any(np.greater(self._chunks, self._shape)):
            raise Refused(
                f"chunks={job.params['chunks']} does not fit shape={job.params['shape']}: a chunk has as many axes as"
                " the array, and none is longer"
            )
        self._expected = Expected(job.seed, self._shape)
        self._blocks = self._expected.blocks(self._chunks, input_bytes(BLOCK_BYTES))
        self._done = 0
        """Number of blocks that were written."""

    def port_arguments(self) -> tuple[object, ...]:
        return self._shape, self._chunks

    def prepare(self, phase: Phase) -> None:
        if not phase.writes and self._axis(phase) >= len(self._shape):
            raise Absent(f"shape={self._job.params['shape']} has no axis {self._axis(phase)}")
        self.begin()
        if not phase.writes and not self._job.spec.floor:
            self.load(self._fill)
            self._done = len(self._blocks)
        # Create the array before the clock starts.
        with self.connect():
            pass

    def _fill(self) -> None:
        """Writes the blocks that the phase `write` left out."""
        with self.connect() as port:
            for region in self._blocks[self._done :]:
                port.write(self._expected.block(region))

    @staticmethod
    def _axis(phase: Phase) -> int:
        return int(phase.name.split("-")[2])

    def work(self, phase: Phase, port: Ndarrays, client: int, clients: int, round: int) -> Iterator[Work]:
        if phase.writes:
            # Further rounds would write the same.
            for block in map(self._expected.block, () if round else self._blocks):
                yield self._operation(port.write, block, block.values.nbytes, self._acknowledge)
            return
        axis, params = self._axis(phase), self._job.params
        rng = np.random.default_rng([self._job.seed, crc32(phase.name.encode()), round])
        if phase.temperature == "cold":
            count = int(not round)
        else:
            count = int(params["slices"])
        for index in rng.integers(0, self._shape[axis], count).tolist():
            region = self._expected.slice(axis, index)
            check = check_each([region], self._expected.check, not self._job.spec.floor)
            yield self._operation(port.read, region, prod(self._shape) // self._shape[axis] * ITEM_BYTES, check)

    def _operation(
        self, call: Callable[[T], object], argument: T, size: int, check: Callable[[Sequence[object]], int]
    ) -> Work:
        sizes = None if self._job.spec.floor else [size]
        return Operations(calls=lambda _: (call,), arguments=[argument], check=check, sizes=sizes)

    def _acknowledge(self, answers: Sequence[object]) -> int:
        for answer in answers:
            if type(answer) is Failure:
                raise Wrong(f"block {self._done} was not written: {answer.error}")
            self._done += 1
        return 0

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if phase.writes:
            return prod(self._shape) * ITEM_BYTES * items // len(self._blocks)
        return None

    def verify(self, phase: Phase) -> int:
        """Checks some of the written blocks."""
        if not phase.writes or not self._done:
            return 0
        numbers = {*np.linspace(0, self._done - 1, CHECKED_BLOCKS).astype(int).tolist()}
        with self.connect() as port:
            return sum(self._expected.check(self._blocks[at], port.read(self._blocks[at])) for at in numbers)


WORKLOAD = NdarraysWorkload
