"""What must be true of a store after a phase that wrote: every record in key order, a sample by key and by index, and
the indexes themselves where the engine or Dyno's layer keeps them beside the records.

Nothing here is timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from dyno.contracts.equality import difference, same, shorten
from dyno.contracts.model import Wrong
from dyno.suites.records.dataset import ABSENT
from dyno.suites.records.keys import pack
from dyno.suites.records.port import INDEXES, Reader, Record, Records, entries
from dyno.suites.records.work import Work

SAMPLED = 100
# After deletes, a log-structured engine may walk over all that it has yet to forget for each absent one.
ABSENT_FOUND = 5
WALKED = 1_000_000
PAGE = 1_000


def verify(work: Work, port: Records, phase: str, indexed: bool) -> int:
    """Returns how many answers were compared. Raises `Wrong`."""
    rng = np.random.default_rng([work.dataset.seed, 99])
    # Each once: of a store of few records, which may be large, a hundred draws would be the same again and again.
    numbers = np.unique(rng.integers(0, len(work.dataset.names), SAMPLED)).tolist()
    with port.reading() as reader:
        # First, as it compares records whole: those of the sample are known by their hashes then.
        compared = _walk(work, reader, phase)
        for number in numbers:
            _expect(work, phase, number, reader.get(work.dataset.key(number)))
        if indexed:
            compared += _finds(work, reader, phase, numbers) + _entries(work, reader, phase)
    return len(numbers) + compared


def _finds(work: Work, reader: Reader, phase: str, numbers: list[int]) -> int:
    """The sample by each index: those that are there, and few of those that must not be."""
    absent = [number for number in numbers if work.model.versions[number] == ABSENT]
    asked = [number for number in numbers if work.model.versions[number] != ABSENT] + absent[:ABSENT_FOUND]
    for index, function in INDEXES.items():
        find = reader.finder(index)
        for number in asked:
            _expect(work, phase, number, find(function(_stubless(work, number))))
    return len(asked) * len(INDEXES)


def _entries(work: Work, reader: Reader, phase: str) -> int:
    """Each index that is kept beside the records, its first million entries: one for each record, and no others. A
    lookup of a deleted record can't tell, as it finds nothing even if its entry is left."""
    dataset, versions, compared = work.dataset, work.model.versions, 0
    present = min(int((versions != ABSENT).sum()), WALKED)
    for index, function in INDEXES.items():
        found = entries(reader, index)
        if found is None:
            continue
        count, last, some = 0, b"", islice(found, WALKED)
        while chunk := list(islice(some, PAGE)):
            names = np.array([_name(entry) for entry in chunk], dtype=dataset.names.dtype)
            places = np.minimum(np.searchsorted(dataset.in_order, names), len(dataset.order) - 1)
            for entry, number in zip(chunk, dataset.order[places].tolist(), strict=True):
                right = pack(b"", (function(_stubless(work, number)), *dataset.key(number)))
                if versions[number] == ABSENT or not same(entry, right) or entry <= last:
                    raise Wrong(f"after {phase}, index {index} has an entry of no record: {shorten(entry)}")
                last = entry
            count += len(chunk)
        if count != present:
            raise Wrong(f"after {phase}, index {index} has {count:,} entries, expected {present:,}")
        compared += count
    return compared


def _name(entry: Any) -> bytes:
    """The name in an index's entry; nothing for what is no entry."""
    parts: list[bytes] = entry.split(b"\0") if type(entry) is bytes else []
    return parts[1] if len(parts) > 1 else b""


def _stubless(work: Work, number: int) -> Record:
    """What the indexes are made of: the text of a large record takes long to make."""
    name, location = work.dataset.key(number)
    return {"name": name, "location": location, "stub": ""}


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


def _expect(work: Work, phase: str, number: int, got: Any) -> None:
    if not work.right([number], [got])[0]:
        expected = work.current(number)
        raise Wrong(f"after {phase} the store holds {shorten(got)} where {shorten(expected)} was expected")
