"""What must be true of a store after a phase that wrote: every key, in order, and a sample of whole records.

Nothing here is timed.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from dyno.model import Wrong
from dyno.suites.records.dataset import ABSENT
from dyno.suites.records.port import INDEXES, Reader, Records
from dyno.suites.records.work import Work, shorten

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
            _same(phase, reader.get(work.dataset.key(number)), work.current(number))
        found = _indexes(work, reader, phase, numbers) if indexed else 0
        return len(numbers) + found + _walk(work, reader, phase)


def _indexes(work: Work, reader: Reader, phase: str, numbers: list[int]) -> int:
    """The sample by each index: those that are there, and few of those that must not be."""
    absent = [number for number in numbers if work.model.versions[number] == ABSENT]
    asked = [number for number in numbers if work.model.versions[number] != ABSENT] + absent[:ABSENT_FOUND]
    for index, function in INDEXES.items():
        find = reader.finder(index)
        for number in asked:
            _same(phase, find(function(work.dataset.record(number))), work.current(number))
    return len(asked) * len(INDEXES)


def _walk(work: Work, reader: Reader, phase: str) -> int:
    """The whole store in key order, its first million records: none lost, none surplus."""
    order = work.dataset.order
    present = order[work.model.versions[order] != ABSENT][: WALKED + 1]
    found = _names(reader)
    for got, wanted in zip_longest(found, (name.decode() for name in work.dataset.names[present].tolist())):
        if got != wanted:
            raise Wrong(f"after {phase}, in key order: got {got!r}, expected {wanted!r}")
    return len(found)


def _names(reader: Reader) -> list[str]:
    """The names of the first records in key order, one more than `WALKED` at the most."""
    scan = reader.scanner(PAGE)
    names: list[str] = []
    start = ("", "")
    while len(names) <= WALKED:
        page = scan(start)
        # A scan includes the key that it starts from, which the page before ended with.
        names += [record["name"] for record in (page[1:] if names else page)]
        if len(page) < PAGE:
            break
        start = (page[-1]["name"], page[-1]["location"])
    return names[: WALKED + 1]


def _same(phase: str, got: Any, expected: Any) -> None:
    if got != expected:
        raise Wrong(f"after {phase} the store holds {shorten(got)} where {shorten(expected)} was expected")
