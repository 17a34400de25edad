"""Operations of each phase, built before the clock starts, and checks of their answers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns as now
from time import sleep
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from dyno.contracts.model import Wrong
from dyno.contracts.suite import Bulk, Failure, Operations, Work, check_each
from dyno.suites.series import verify
from dyno.suites.series.dataset import Arrival, Model
from dyno.suites.series.facility import SECOND
from dyno.suites.series.port import SampleBatch, Samples, Series
from dyno.suites.series.samples import Digest
from dyno.suites.series.verify import Survival

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
                call = survival.call(number, insert) if survival else insert
                yield self._inserting(call, arrival, weights=[arrival.new])

    def visible(self) -> Slices:
        """Yields inserts of batches after all others. Each is polled until its last sample is readable."""

        def insert_and_poll(batch: SampleBatch) -> VisibilityTimes:
            pv, ts, seen = int(batch.pv[-1]), int(batch.ts[-1]), self._port.seen
            begin = now()
            self._port.insert(batch)
            over = now()
            while not seen(pv, ts):
                if now() - over > PATIENCE_S * SECOND:
                    raise TimeoutError(f"a sample could not be read {PATIENCE_S} s after it was acknowledged")
                sleep(POLL_S)
            return VisibilityTimes(over - begin, now() - over)

        def parts(answers: Sequence[VisibilityTimes]) -> dict[str, list[int]]:
            return {name: [getattr(answer, name) for answer in answers] for name in VisibilityTimes._fields}

        for arrival in self._dataset.further(self._state.watched) if not self._round else ():
            yield self._inserting(insert_and_poll, arrival, parts=parts)

    def _inserting(self, call: Callable[[SampleBatch], Any], arrival: Arrival, **details: Any) -> Operations:
        def acknowledge(answers: Sequence[Any]) -> int:
            for answer in answers:
                if type(answer) is Failure and self._state.survival is not None:
                    # A failure counts as an error. Only acknowledged batches must survive.
                    self._state.survival.failed(self._model.batches)
                elif type(answer) is Failure:
                    raise Wrong(f"batch {self._model.batches} was not inserted: {answer.error}")
                self._model.add(arrival)
            return 0

        return Operations(lambda _: (call,), [arrival.batch], acknowledge, **details)

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
        return Operations(
            calls=lambda _: (lambda given: call(*given),),
            arguments=[arguments],
            check=check_each([arguments], lambda _, answer: check(answer), self._model.judged),
            weights=None if right is None else [len(right.ts)],
        )

    def extract_all(self, cold: bool) -> Slices:
        """Yields one call that reads everything. The clock stops while a batch is checked."""
        if not self._count(cold):
            return
        judged, digest, count, waiting = self._model.judged, Digest(), 0, list[SampleBatch]()

        def check_waiting() -> None:
            if judged:
                verify.digest_of(waiting, digest)
            waiting.clear()

        def feed() -> Iterator[tuple[bool]]:
            while True:
                check_waiting()
                yield (True,)

        def read_all(turns: Iterable[Any]) -> bool:
            """Reads all samples. Returns whether it finished before the time was over."""
            nonlocal count
            turn = iter(turns)
            for piece in self._port.all():
                count += len(piece.ts)
                waiting.append(piece)
                if next(turn, None) is None:
                    return False
            return True

        def check(finished: bool, taken: int) -> int:
            check_waiting()
            return verify.verify_digest(digest, self._model.digest) if judged and finished else 0

        yield Bulk(
            call=read_all,
            feed=feed(),
            items_per_record=1,
            check=check,
            counted=lambda finished, taken: count if judged else self._dataset.total,
        )

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


def _between(samples: Samples, start: int, end: int) -> Samples:
    first, last = np.searchsorted(samples.ts, [start, end])
    return Samples(*(values[first:last] for values in samples))
