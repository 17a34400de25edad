"""The operations of each phase, built before the clock starts, and how their answers are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns as now
from time import sleep
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from dyno.contracts.model import Wrong
from dyno.contracts.suite import Bulk, Failure, Operations
from dyno.contracts.suite import Work as Slice
from dyno.suites.series import verify
from dyno.suites.series.dataset import Arrival, Dataset
from dyno.suites.series.facility import SECOND
from dyno.suites.series.port import SampleBatch, Samples, Series
from dyno.suites.series.samples import Digest
from dyno.suites.series.survival import Survival

Slices = Iterator[Slice]
MINUTE, DAY = 60 * SECOND, 86_400 * SECOND
POLL_S, PATIENCE_S = 0.001, 60
"""How often it is looked whether a sample can be read, and after what time nobody waits for it any more."""


@dataclass
class Model:
    """What the store must hold by now."""

    dataset: Dataset
    judged: bool = True
    """Whether answers are looked at: not a floor's."""
    digest: Digest = field(default_factory=Digest)
    batches: int = 0
    """How many have come in."""
    samples: int = 0
    _latest: dict[str, Any] = field(default_factory=dict)

    def taken(self, arrival: Arrival) -> None:
        self.batches += 1
        self.samples += arrival.new
        if not self.judged:
            return
        batch = arrival.batch
        self.digest.add(batch)
        if arrival.replaced is not None:
            self.digest.add(arrival.replaced, -1)
        self._remember(batch)

    def _remember(self, batch: SampleBatch) -> None:
        """The last sample of each variable, by its time and not by when it came."""
        kept, count = self._latest, len(self.dataset.names)
        if not kept:
            kept["ts"] = np.full(count, -1, "i8")
            for name, dtype in (("val", "f8"), ("stat", "i2"), ("sevr", "i2")):
                kept[name] = np.zeros(count, dtype)
        order = np.lexsort((batch.ts, batch.pv))
        pv = batch.pv[order]
        last = order[np.append(pv[1:] != pv[:-1], True)]
        # One of the same time is a later word on the same sample.
        last = last[batch.ts[last] >= kept["ts"][batch.pv[last]]]
        for name in ("ts", "val", "stat", "sevr"):
            kept[name][batch.pv[last]] = getattr(batch, name)[last]

    def latest(self) -> SampleBatch:
        pv = np.flatnonzero(self._latest["ts"] >= 0).astype("i4")
        return SampleBatch(pv, *(self._latest[name][pv] for name in ("ts", "val", "stat", "sevr")))


@dataclass(frozen=True)
class TrialState:
    """What all phases of a trial share."""

    archive: Model
    reads: int
    window_ns: int
    watched: int
    seed: int
    survival: Survival | None = None
    """Of a node that is killed in the middle of `insert`."""


class VisibilityTimes(NamedTuple):
    """How long a batch took, in ns."""

    acknowledged: int
    readable: int
    """From then on."""


class ClientWork:
    """The slices of one phase. There is one client."""

    def __init__(self, work: TrialState, phase: str, port: Series, round: int) -> None:
        self._work, self._phase, self._port, self._round = work, phase, port, round
        self._archive, self._dataset = work.archive, work.archive.dataset

    # -- writes ---------------------------------------------------------------------------------------------

    def inserting(self) -> Slices:
        """Not in a further round: all is there."""
        if self._round:
            return
        survival, insert = self._work.survival, self._port.insert
        for number, arrival in enumerate(self._dataset.arrivals()):
            if number >= self._archive.batches:
                yield self._added(survival.call(number, insert) if survival else insert, arrival)

    def watching(self) -> Slices:
        """Batches that come after all others, each followed until its last sample can be read."""
        if self._round:
            return
        for arrival in self._dataset.further(self._work.watched):
            yield self._added(self._watched, arrival, counts=False)

    def _watched(self, batch: SampleBatch) -> VisibilityTimes:
        pv, ts, seen = int(batch.pv[-1]), int(batch.ts[-1]), self._port.seen
        begin = now()
        self._port.insert(batch)
        over = now()
        while not seen(pv, ts):
            if now() - over > PATIENCE_S * SECOND:
                raise TimeoutError(f"a sample could not be read {PATIENCE_S} s after it was acknowledged")
            sleep(POLL_S)
        return VisibilityTimes(over - begin, now() - over)

    def _added(self, call: Callable[[SampleBatch], Any], arrival: Arrival, counts: bool = True) -> Operations:
        return Operations(
            calls=lambda _: (call,),
            arguments=[arrival.batch],
            check=partial(self._taken, arrival),
            weights=[arrival.new] if counts else None,
            parts=None if counts else _parts,
        )

    def _taken(self, arrival: Arrival, answers: Sequence[Any]) -> int:
        for answer in answers:
            if type(answer) is Failure and self._work.survival is not None:
                # It is an error, and no answer: what is acknowledged is looked at.
                self._work.survival.failed(self._archive.batches)
            elif type(answer) is Failure:
                raise Wrong(f"batch {self._archive.batches} was not taken: {answer.error}")
            self._archive.taken(arrival)
        return 0

    # -- reads ----------------------------------------------------------------------------------------------

    def ones(self, cold: bool) -> Slices:
        for pv in self._variables(cold):
            right = self._right(pv)
            yield self._read(self._port.one, (pv,), right, partial(verify.verify_samples, self._of(pv), right=right))

    def windows(self, cold: bool) -> Slices:
        """At random whole seconds, such that the window is not beyond the end."""
        dataset, length = self._dataset, self._work.window_ns
        span = max((dataset.end - dataset.start - length) // SECOND, 0)
        rng = self._rng(1)
        for pv in self._variables(cold):
            start = dataset.start + int(rng.integers(0, span, endpoint=True)) * SECOND
            right = _within(self._right(pv), start, start + length)
            check = partial(verify.verify_samples, f"a window of {self._of(pv)}", right=right)
            yield self._read(self._port.window, (pv, start, start + length), right, check)

    def means(self, cold: bool) -> Slices:
        dataset = self._dataset
        start = max(dataset.end - DAY, dataset.start)
        for pv in self._variables(cold):
            right = _within(self._right(pv), start, dataset.end)
            check = partial(verify.verify_buckets, f"minutes of {self._of(pv)}", samples=right, bucket=MINUTE)
            yield self._read(self._port.downsample, (pv, start, dataset.end, MINUTE), None, check)

    def lasts(self, cold: bool) -> Slices:
        for _ in range(self._count(cold)):
            yield self._read(
                self._port.latest, (), None, lambda got: verify.verify_latest(got, self._archive.latest())
            )

    def _read(
        self, call: Callable[..., Any], arguments: tuple[Any, ...], right: Samples | None, check: Callable[[Any], int]
    ) -> Operations:
        """One answer; what it counts is its samples, where `right` says which, and itself otherwise."""
        return Operations(
            calls=lambda _: (lambda given: call(*given),),
            arguments=[arguments],
            check=lambda answers: sum(check(answer) for answer in self._given(answers)),
            weights=None if right is None else [len(right.ts)],
        )

    def every(self, cold: bool) -> Slices:
        """One call, which takes all that comes. The clock stands still while a piece is looked at."""
        if self._count(cold):
            found = _Extraction(self._archive.judged)
            yield Bulk(
                call=partial(found.take, self._port.all),
                feed=found.looked(),
                items_per_record=1,
                check=partial(self._judge_all, found),
                counted=lambda answer, taken: found.count if self._archive.judged else self._dataset.total,
            )

    def _judge_all(self, found: _Extraction, answer: Any, taken: int) -> int:
        if not self._archive.judged:
            return 0
        found.look()
        return verify.verify_digest(found.digest, self._archive.digest) if answer else 0

    # -- what is asked for ----------------------------------------------------------------------------------

    def _count(self, cold: bool) -> int:
        """Cold is the first one only."""
        return (0 if self._round else 1) if cold else self._work.reads

    def _variables(self, cold: bool) -> list[int]:
        count, variables = self._count(cold), len(self._dataset.names)
        drawn: list[int] = self._rng(0).integers(0, variables, count).tolist()
        return drawn

    def _rng(self, number: int) -> np.random.Generator:
        # Neither the engine nor the trial: the inputs are the same for all of them.
        return np.random.default_rng([self._work.seed, crc32(self._phase.encode()), self._round, number])

    def _right(self, pv: int) -> Samples:
        return self._dataset.one(pv)

    def _of(self, pv: int) -> str:
        return self._dataset.names[pv]

    def _given(self, answers: Sequence[Any]) -> Iterable[Any]:
        return (answer for answer in answers if type(answer) is not Failure) if self._archive.judged else ()


class _Extraction:
    """What comes of all samples: taken piece by piece inside the call, and looked at while the clock stands still."""

    def __init__(self, judged: bool) -> None:
        self.digest, self.count, self._judged = Digest(), 0, judged
        self._waiting = list[SampleBatch]()

    def take(self, all_: Callable[[], Iterator[SampleBatch]], turns: Iterable[Any]) -> bool:
        """Whether all of it came: not where the time was over."""
        turn = iter(turns)
        for piece in all_():
            self.count += len(piece.ts)
            self._waiting.append(piece)
            if next(turn, None) is None:
                return False
        return True

    def looked(self) -> Iterator[tuple[bool]]:
        """The feed of the call: asked for its next one, it looks at what has come."""
        while True:
            self.look()
            yield (True,)

    def look(self) -> None:
        for piece in self._waiting:
            if self._judged:
                verify.add_verified(self.digest, piece)
        self._waiting.clear()


def _within(samples: Samples, start: int, end: int) -> Samples:
    first, last = np.searchsorted(samples.ts, [start, end])
    return Samples(*(values[first:last] for values in samples))


def _parts(answers: Sequence[VisibilityTimes]) -> dict[str, list[int]]:
    return {
        "acknowledged": [answer.acknowledged for answer in answers],
        "readable": [answer.readable for answer in answers],
    }
