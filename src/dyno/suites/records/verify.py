"""What must be true of a store after a phase that wrote: every record in key order, and a sample
by key and by index.

Nothing here is timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dyno.answers import difference, same, shorten
from dyno.model import Wrong
from dyno.suites.records.dataset import ABSENT
from dyno.suites.records.port import INDEXES, Reader, Record, Records
from dyno.suites.records.work import Work

SAMPLED = 100
# After deletes, a log-structured engine may walk over all that it has yet to forget for each absent one.
ABSENT_FOUND = 5
WALKED = 1_000_000
PAGE = 1_000


def verify(work: Work, port: Records, phase: str, indexed: bool) -> int:
    """Returns how many answers were compared. Raises `Wrong`."""
    rng = np.random.default_rng([work.dataset.seed, 99])
    numbers = rng.integers(0, len(work.dataset.names), SAMPLED).tolist()
    with port.reading() as reader:
        for number in numbers:
            _expect(phase, reader.get(work.dataset.key(number)), work.current(number))
        found = _indexes(work, reader, phase, numbers) if indexed else 0
        return len(numbers) + found + _walk(work, reader, phase)


def _indexes(work: Work, reader: Reader, phase: str, numbers: list[int]) -> int:
    """The sample by each index: those that are there, and few of those that must not be."""
    absent = [number for number in numbers if work.model.versions[number] == ABSENT]
    asked = [number for number in numbers if work.model.versions[number] != ABSENT] + absent[:ABSENT_FOUND]
    for index, function in INDEXES.items():
        find = reader.finder(index)
        for number in asked:
            _expect(phase, find(function(work.dataset.record(number))), work.current(number))
    return len(asked) * len(INDEXES)


def _walk(work: Work, reader: Reader, phase: str) -> int:
    """The whole store in key order, its first million records: none lost, none wrong, none surplus."""
    order = work.dataset.order
    present = order[work.model.versions[order] != ABSENT][:WALKED].tolist()
    walked = 0
    for found in _pages(reader):
        page = found[: WALKED - walked]
        numbers = present[walked : walked + len(page)]
        for number, got, right in zip(numbers, page, work.right(numbers, page), strict=False):
            if not right:
                raise _out_of_place(phase, walked, got, work.current(number))
            walked += 1
        if len(numbers) < len(page):
            raise _out_of_place(phase, walked, page[len(numbers)], None)
        if walked == WALKED:
            break
    if walked < len(present):
        raise _out_of_place(phase, walked, None, work.current(present[walked]))
    return walked


def _out_of_place(phase: str, place: int, got: Any, expected: Any) -> Wrong:
    return Wrong(f"after {phase}, record {place:,} in key order: {difference(got, expected)}")


def _pages(reader: Reader) -> Iterator[list[Record]]:
    """Every record in key order."""
    scan = reader.scanner(PAGE)
    start, seen = ("", ""), 0
    while True:
        page = scan(start)
        yield page[seen:]
        if len(page) < PAGE:
            return
        # A scan includes the key that it starts from.
        start, seen = (page[-1]["name"], page[-1]["location"]), 1


def _expect(phase: str, got: Any, expected: Any) -> None:
    if not same(got, expected):
        raise Wrong(f"after {phase} the store holds {shorten(got)} where {shorten(expected)} was expected")
