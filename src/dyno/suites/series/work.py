"""Operations of each phase, built before the clock starts, and checks of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns as now
from time import sleep
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from dyno.contracts.model import Wrong
from dyno.contracts.suite import Bulk, Failure, Operations, Work
from dyno.suites.series import verify
from dyno.suites.series.dataset import Arrival, Model
from dyno.suites.series.facility import SECOND
from dyno.suites.series.port import SampleBatch, Samples, Series
from dyno.suites.series.samples import Digest
from dyno.suites.series.survival import Survival

Slices = Iterator[Work]
MINUTE, DAY = 60 * SECOND, 86_400 * SECOND
POLL_S, PATIENCE_S = 0.001, 60
"""Interval at which a sample is polled until it is readable, and the time after which polling is an error."""


@dataclass(frozen=True)
class TrialState:
    """Parameters and model of one trial, which all phases share."""

    model: Model
    reads: int
    window_ns: int
    watched: int
    seed: int
    survival: Survival | None = None
    """Set if a node is killed in the middle of `insert`."""


class VisibilityTimes(NamedTuple):
    """Time until a batch was acknowledged, and further time until it was readable, in ns."""

    acknowledged: int
    readable: int


class ClientWork:
    """Work of one phase in one round. The suite has one client."""

    def __init__(self, state: TrialState, phase: str, port: Series, round: int) -> None:
        self._state, self._phase, self._port, self._round = state, phase, port, round
        self._model, self._dataset = state.model, state.model.dataset

    # -- writes ---------------------------------------------------------------------------------------------

    def insert(self) -> Slices:
        """Yields inserts of all batches in the first round."""
        if self._round:
            return
        survival, insert = self._state.survival, self._port.insert
        for number, arrival in enumerate(self._dataset.arrivals()):
            if number >= self._model.batches:
                yield self._inserting(survival.call(number, insert) if survival else insert, arrival)

    def visible(self) -> Slices:
        """Yields inserts of batches after all others. Each is polled until its last sample is readable."""
        if self._round:
            return
        for arrival in self._dataset.further(self._state.watched):
            yield self._inserting(self._insert_and_poll, arrival, counts=False)

    def _insert_and_poll(self, batch: SampleBatch) -> VisibilityTimes:
        pv, ts, seen = int(batch.pv[-1]), int(batch.ts[-1]), self._port.seen
        begin = now()
        self._port.insert(batch)
        over = now()
        while not seen(pv, ts):
            if now() - over > PATIENCE_S * SECOND:
                raise TimeoutError(f"a sample could not be read {PATIENCE_S} s after it was acknowledged")
            sleep(POLL_S)
        return VisibilityTimes(over - begin, now() - over)

    def _inserting(self, call: Callable[[SampleBatch], Any], arrival: Arrival, counts: bool = True) -> Operations:
        return Operations(
            calls=lambda _: (call,),
            arguments=[arrival.batch],
            check=partial(self._acknowledge, arrival),
            weights=[arrival.new] if counts else None,
            parts=None if counts else _parts,
        )

    def _acknowledge(self, arrival: Arrival, answers: Sequence[Any]) -> int:
        for answer in answers:
            if type(answer) is Failure and self._state.survival is not None:
                # A failure counts as an error. Only acknowledged batches must survive.
                self._state.survival.failed(self._model.batches)
            elif type(answer) is Failure:
                raise Wrong(f"batch {self._model.batches} was not inserted: {answer.error}")
            self._model.add(arrival)
        return 0

    # -- reads ----------------------------------------------------------------------------------------------

    def extract_one(self, cold: bool) -> Slices:
        for pv in self._variables(cold):
            right, name = self._dataset.one(pv), self._dataset.names[pv]
            yield self._read(self._port.one, (pv,), right, partial(verify.verify_samples, name, right=right))

    def extract_window(self, cold: bool) -> Slices:
        """Yields reads of windows, which start at random whole seconds and end before the data does."""
        dataset, length = self._dataset, self._state.window_ns
        span = max((dataset.end - dataset.start - length) // SECOND, 0)
        rng = self._rng(1)
        for pv in self._variables(cold):
            start = dataset.start + int(rng.integers(0, span, endpoint=True)) * SECOND
            right = _between(dataset.one(pv), start, start + length)
            check = partial(verify.verify_samples, f"a window of {dataset.names[pv]}", right=right)
            yield self._read(self._port.window, (pv, start, start + length), right, check)

    def downsample(self, cold: bool) -> Slices:
        dataset = self._dataset
        start = max(dataset.end - DAY, dataset.start)
        for pv in self._variables(cold):
            right = _between(dataset.one(pv), start, dataset.end)
            check = partial(verify.verify_buckets, f"minutes of {dataset.names[pv]}", samples=right, bucket=MINUTE)
            yield self._read(self._port.downsample, (pv, start, dataset.end, MINUTE), None, check)

    def latest(self, cold: bool) -> Slices:
        for _ in range(self._count(cold)):
            yield self._read(self._port.latest, (), None, lambda got: verify.verify_latest(got, self._model.latest()))

    def _read(
        self, call: Callable[..., Any], arguments: tuple[Any, ...], right: Samples | None, check: Callable[[Any], int]
    ) -> Operations:
        """Returns an operation with one read. It counts as many items as `right` has samples, or one if that is
        None."""

        def check_all(answers: Sequence[Any]) -> int:
            judged = answers if self._model.judged else ()
            return sum(check(answer) for answer in judged if type(answer) is not Failure)

        return Operations(
            calls=lambda _: (lambda given: call(*given),),
            arguments=[arguments],
            check=check_all,
            weights=None if right is None else [len(right.ts)],
        )

    def extract_all(self, cold: bool) -> Slices:
        """Yields one call that reads everything. The clock stops while a batch is checked."""
        if self._count(cold):
            model, extraction = self._model, _Extraction(self._model.judged)
            yield Bulk(
                call=partial(extraction.run, self._port.all),
                feed=extraction.feed(),
                items_per_record=1,
                check=partial(self._check_all, extraction),
                counted=lambda answer, taken: extraction.count if model.judged else self._dataset.total,
            )

    def _check_all(self, extraction: _Extraction, answer: Any, taken: int) -> int:
        if not self._model.judged:
            return 0
        extraction.check_waiting()
        return verify.verify_digest(extraction.digest, self._model.digest) if answer else 0

    # -- what is read ---------------------------------------------------------------------------------------

    def _count(self, cold: bool) -> int:
        """Returns the number of reads in this round. A cold phase has one read, in the first round."""
        return (0 if self._round else 1) if cold else self._state.reads

    def _variables(self, cold: bool) -> list[int]:
        variables = len(self._dataset.names)
        drawn: list[int] = self._rng(0).integers(0, variables, self._count(cold)).tolist()
        return drawn

    def _rng(self, number: int) -> np.random.Generator:
        # The seed depends on neither engine nor trial, so that all of them get the same inputs.
        return np.random.default_rng([self._state.seed, crc32(self._phase.encode()), self._round, number])


class _Extraction:
    """Receives all samples batch by batch inside the timed call, and checks them while the clock stands still."""

    def __init__(self, judged: bool) -> None:
        self.digest, self.count, self._judged = Digest(), 0, judged
        self._waiting = list[SampleBatch]()

    def run(self, read_all: Callable[[], Iterator[SampleBatch]], turns: Iterable[Any]) -> bool:
        """Reads all samples. Returns whether it finished before the time was over."""
        turn = iter(turns)
        for piece in read_all():
            self.count += len(piece.ts)
            self._waiting.append(piece)
            if next(turn, None) is None:
                return False
        return True

    def feed(self) -> Iterator[tuple[bool]]:
        """Yields the inputs of the bulk call. Building the next slice checks the waiting batches."""
        while True:
            self.check_waiting()
            yield (True,)

    def check_waiting(self) -> None:
        for piece in self._waiting:
            if self._judged:
                verify.add_verified(self.digest, piece)
        self._waiting.clear()


def _between(samples: Samples, start: int, end: int) -> Samples:
    first, last = np.searchsorted(samples.ts, [start, end])
    return Samples(*(values[first:last] for values in samples))


def _parts(answers: Sequence[VisibilityTimes]) -> dict[str, list[int]]:
    return {name: [getattr(answer, name) for answer in answers] for name in VisibilityTimes._fields}
