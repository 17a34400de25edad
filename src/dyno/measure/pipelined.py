"""A flight of operations of which many are under way at once, through the loop and into the tally. Nothing is judged
here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dyno.contracts.pace import FOREVER_NS
from dyno.contracts.suite import Bulk, Failure
from dyno.measure import pipelined_loop
from dyno.measure.batch import MOST, OPERATIONS
from dyno.measure.loops import Loop
from dyno.measure.pause_meter import MemoryLimit
from dyno.measure.slices import Slice, Times
from dyno.measure.tally import Tally, succeeded


class Flight(NamedTuple):
    """What was seen of it. Moments are in ns on the clock of `swarm`."""

    legs: list[tuple[Slice, int]]
    """Its slices, and how many operations of each were done in it."""
    seen: pipelined_loop.BatchResult
    due: Times | None
    failures: list[Failure]
    start: int
    over: int
    """On the clock of the client's own loop."""
    cut: bool = False
    """Whether its time was over before its slices were."""


def wanted(waiting: Sequence[Slice | Bulk]) -> int:
    """For how many operations a flight is to have inputs, so that its end, in which fewer and fewer are under way,
    weighs little; 0 where operations follow each other."""
    if waiting and isinstance(waiting[0], Slice) and waiting[0].work.many is not None:
        return min(OPERATIONS * waiting[0].work.places, MOST)
    return 0


def fly(waiting: Sequence[Slice | Bulk], own: Loop, start: int, limit: int, elapsed_ns: int) -> Flight:
    """Does what is left of the slices, as far as time and memory last. `start` and `limit` are on the clock of `own`,
    and what is due at a moment is due so many ns after the phase began, of which `elapsed_ns` have passed."""
    shift = own.now() - pipelined_loop.now()
    begin, deadline = start - shift, limit - shift
    parcels = [one for one in waiting if isinstance(one, Slice)]
    flight = _flown(parcels, begin, deadline, begin - elapsed_ns, MemoryLimit(1, begin).full)
    cut = any(parcel.left for parcel in parcels) and not flight.seen.full
    return flight._replace(over=flight.over + shift, cut=cut)


def _flown(
    parcels: Sequence[Slice], start: int, deadline: int, origin: int, full: Callable[[int], bool] = lambda now: False
) -> Flight:
    first, failures = parcels[0].work, list[Failure]()
    if first.many is None or any(parcel.work.many is not first.many for parcel in parcels):
        raise ValueError("slices that wait together are under way in one loop")

    def failed(error: Exception) -> Failure:
        failures.append(Failure.of(error))
        return failures[-1]

    arguments = tuple(chain.from_iterable(parcel.arguments[parcel.done :] for parcel in parcels))
    due: Times | None = None
    if all(parcel.due is not None for parcel in parcels):
        due = np.concatenate([parcel.due[parcel.done :] for parcel in parcels if parcel.due is not None]) + origin
    moments = None if due is None else due.tolist()
    seen = pipelined_loop.many(first.many, first.places, arguments, moments, deadline, full, failed)
    over, legs, at = pipelined_loop.now(), list[tuple[Slice, int]](), 0
    for parcel in parcels:
        count = min(parcel.left, len(seen.answers) - at)
        parcel.answers = parcel.answers + seen.answers[at : at + count]
        at += count
        legs.append((parcel, count))
    return Flight(legs, seen, due, failures, start, over)


def record(flight: Flight, tally: Tally, elapsed_ns: int) -> None:
    """What was seen goes into the tally. Raises Wrong for an answer that only says of itself that it is a failure."""
    seen, base = flight.seen, tally.elapsed_ns
    starts, ends = (np.asarray(times, dtype=np.int64) for times in seen.stamps)
    spans = ends - starts
    good = succeeded(seen.answers, len(flight.failures))
    tally.operations += len(spans)
    if len(starts):
        tally.last_begun_ns = int(starts[-1]) - flight.start + base
    tally.items += len(spans) - len(flight.failures)
    # They began in another order.
    order = np.argsort(ends[good], kind="stable")
    tally.add_spans((ends[good] - flight.start + base)[order], spans[good][order])
    if kinds := [kind for parcel, count in flight.legs for kind in _kinds(parcel, count)]:
        tally.add_kinds(kinds, spans, good)
    if flight.due is not None:
        # Late is what begins later than it could have: due, and a place free for it.
        due = flight.due[: len(spans)]
        free = np.maximum(due, np.asarray(seen.freed, dtype=np.int64))
        tally.add_due((ends - due)[good], np.maximum(starts - free, 0))
    tally.count(elapsed_ns, min(seen.busy_ns, elapsed_ns), flight.failures)


def _kinds(parcel: Slice, count: int) -> Sequence[str]:
    """Kinds of the last operations that were done; nothing if the phase has no kinds."""
    if parcel.work.weights is not None:
        raise ValueError("of operations of which many are under way, each counts as one")
    return () if parcel.work.kinds is None else parcel.work.kinds[parcel.done - count : parcel.done]


def untimed(parcel: Slice, limit_ns: int) -> tuple[int, list[Any]]:
    """Does a slice that is not recorded, for so long at most: how long it took, and its answers."""
    begin = pipelined_loop.now()
    flight = _flown([parcel], begin, begin + min(limit_ns, FOREVER_NS), begin)
    return flight.over - begin, parcel.answers
