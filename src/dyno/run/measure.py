"""Executes one client's share of a phase: slice by slice through the timed loops, answers judged in between."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from dyno.histogram import Recorder
from dyno.model import Wrong
from dyno.run.loop import Feed, bulk, closed
from dyno.suite import Bulk, Failure, Operations


@dataclass
class Tally:
    """What one client, or all of them together, did in a phase."""

    operations: int = 0
    items: int = 0
    elapsed_ns: int = 0
    """Of several clients: the longest."""
    busy_ns: int = 0
    """Of several clients: the sum."""
    errors: int = 0
    checked: int = 0
    ended_by: str = "count"
    first_error: str | None = None
    void: str | None = None
    bulk: bool = False
    latency: Recorder = field(default_factory=Recorder)
    by_kind: dict[str, Recorder] = field(default_factory=dict)

    def merge(self, other: Tally) -> None:
        """Takes in another client's tally, clients having run side by side."""
        self.operations += other.operations
        self.items += other.items
        self.elapsed_ns = max(self.elapsed_ns, other.elapsed_ns)
        self.busy_ns += other.busy_ns
        self.errors += other.errors
        self.checked += other.checked
        self.ended_by = "budget" if "budget" in (self.ended_by, other.ended_by) else "count"
        self.first_error = self.first_error or other.first_error
        self.void = self.void or other.void
        self.bulk = self.bulk or other.bulk
        self.latency.merge(other.latency)
        for kind, recorder in other.by_kind.items():
            self.by_kind.setdefault(kind, Recorder()).merge(recorder)


def measure(slices: Iterator[Operations | Bulk], budget_ns: int, ready: Callable[[], object]) -> Tally:
    """Runs the slices until they or the budget end. `ready` is called when the first one has been built.

    A wrong answer ends the phase and stands in `void`.
    """
    with uncollected():
        return _measure(slices, budget_ns, ready)


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage collection is off in the block: what a collector would go through is mostly the inputs and answers
    that Dyno keeps. Inside another such block it does nothing: the outermost collects, and switches it on again.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _measure(slices: Iterator[Operations | Bulk], budget_ns: int, ready: Callable[[], object]) -> Tally:
    tally = Tally()
    first = next(slices, None)
    try:
        ready()
        for work in chain(() if first is None else (first,), slices):
            if tally.elapsed_ns >= budget_ns:
                tally.ended_by = "budget"
                break
            if isinstance(work, Bulk):
                _bulk(work, tally, budget_ns - tally.elapsed_ns)
            else:
                _operations(work, tally, budget_ns - tally.elapsed_ns)
            if tally.ended_by == "budget":
                break
    except Wrong as wrong:
        tally.void = str(wrong)
    return tally


def _operations(work: Operations, tally: Tally, budget_ns: int) -> None:
    timed = closed(work, budget_ns)
    failed = [at for at, answer in enumerate(timed.answers) if isinstance(answer, Failure)]
    done = len(timed.answers)
    weights = work.weights
    tally.operations += done
    tally.items += done if weights is None else sum(weights[:done])
    tally.items -= sum(1 if weights is None else weights[at] for at in failed)
    _count(tally, timed.elapsed_ns, sum(timed.spans) + timed.transaction_ns, [timed.answers[at] for at in failed])
    tally.latency.add(timed.spans)
    if work.kinds is not None:
        _by_kind(tally, work.kinds, timed.spans)
    if timed.out_of_time:
        tally.ended_by = "budget"
    tally.checked += judged(lambda: work.check(timed.answers))


def _by_kind(tally: Tally, kinds: Sequence[str], spans: Sequence[int]) -> None:
    apart: dict[str, list[int]] = {}
    for kind, span in zip(kinds, spans, strict=False):
        apart.setdefault(kind, []).append(span)
    for kind, own in apart.items():
        tally.by_kind.setdefault(kind, Recorder()).add(own)


def _bulk(work: Bulk, tally: Tally, budget_ns: int) -> None:
    feed = Feed(work.feed, budget_ns)
    timed = bulk(work, feed)
    answer = timed.answers[0]
    failed = [answer] if isinstance(answer, Failure) else []
    tally.bulk = True
    tally.operations += 1
    tally.items += 0 if failed else feed.taken * work.items_per_record
    _count(tally, timed.elapsed_ns, timed.elapsed_ns, failed)
    if timed.out_of_time:
        tally.ended_by = "budget"
    if not failed:
        tally.checked += judged(lambda: work.check(answer, feed.taken))


def judged(check: Callable[[], int]) -> int:
    """What a check compared. An answer of a shape that it can't even look at is wrong too: raises `Wrong`."""
    try:
        return check()
    except (Wrong, MemoryError):
        raise
    except Exception as error:
        raise Wrong(f"an answer that can't be checked: {type(error).__name__}: {error}") from error


def _count(tally: Tally, elapsed_ns: int, busy_ns: int, failed: list[Failure]) -> None:
    tally.elapsed_ns += elapsed_ns
    tally.busy_ns += busy_ns
    tally.errors += len(failed)
    if failed and tally.first_error is None:
        tally.first_error = failed[0].error
