"""Checks a store after a phase that writes: every record in key order, and a sample by key and by index.

Also checks the indexes themselves, if the engine or Dyno's layer stores them beside the records. Nothing here is
timed.
"""

from itertools import islice
from typing import Any

import numpy as np

from dyno.contracts.equality import difference, same, shorten
from dyno.contracts.model import Wrong
from dyno.suites.records.dataset import ABSENT, Model
from dyno.suites.records.encoding import pack
from dyno.suites.records.port import INDEXES, Reader, Record, Records, entries

SAMPLED = 100
# Limited, since a log-structured engine may walk over all its tombstones for each absent record.
MAX_ABSENT = 5
MAX_WALKED = 1_000_000
PAGE = 1_000


def verify(model: Model, port: Records, phase: str, indexed: bool) -> int:
    """Returns the number of compared answers. Raises Wrong."""
    rng = np.random.default_rng([model.dataset.seed, 99])
    # Drop duplicates: in a store of a few large records, a hundred draws would compare the same records repeatedly.
    numbers = np.unique(rng.integers(0, len(model.dataset.names), SAMPLED)).tolist()
    with port.reading() as reader:
        # Compare whole records first, so that the records of the sample below are recognized by their hashes.
        compared = _walk(model, reader, phase)
        for number in numbers:
            _expect(model, phase, number, reader.get(model.dataset.key(number)))
        if indexed:
            # Look up the sample by each index: the present records, and a few that must be absent.
            absent = [number for number in numbers if model.versions[number] == ABSENT]
            searched = [number for number in numbers if model.versions[number] != ABSENT] + absent[:MAX_ABSENT]
            for index, function in INDEXES.items():
                find = reader.finder(index)
                for number in searched:
                    _expect(model, phase, number, find(function(_stubless(model, number))))
            compared += len(searched) * len(INDEXES) + _entries(model, reader, phase)
    return len(numbers) + compared


def _entries(model: Model, reader: Reader, phase: str) -> int:
    """Compares the first million entries of each index that is stored beside the records. Each record must have one
    entry. A lookup can't find an entry left over from a deleted record, since the record itself is gone."""
    dataset, versions, compared = model.dataset, model.versions, 0
    present = min(int((versions != ABSENT).sum()), MAX_WALKED)
    for index, function in INDEXES.items():
        stored = entries(reader, index)
        if stored is None:
            continue
        count, last, limited = 0, b"", islice(stored, MAX_WALKED)
        while chunk := list(islice(limited, PAGE)):
            names = np.array([_name(entry) for entry in chunk], dtype=dataset.names.dtype)
            ranks = np.minimum(np.searchsorted(dataset.in_order, names), len(dataset.order) - 1)
            for entry, number in zip(chunk, dataset.order[ranks].tolist(), strict=True):
                right = pack(b"", (function(_stubless(model, number)), *dataset.key(number)))
                if versions[number] == ABSENT or not same(entry, right) or entry <= last:
                    raise Wrong(f"after {phase}, index {index} has an entry of no record: {shorten(entry)}")
                last = entry
            count += len(chunk)
        if count != present:
            raise Wrong(f"after {phase}, index {index} has {count:,} entries, expected {present:,}")
        compared += count
    return compared


def _name(entry: Any) -> bytes:
    """Returns the name in an index entry; empty for a malformed entry."""
    parts: list[bytes] = entry.split(b"\0") if type(entry) is bytes else []
    return parts[1] if len(parts) > 1 else b""


def _stubless(model: Model, number: int) -> Record:
    """Returns the indexed fields of a record. A large stub takes long to generate and isn't indexed."""
    name, location = model.dataset.key(number)
    return {"name": name, "location": location, "stub": ""}


def _walk(model: Model, reader: Reader, phase: str) -> int:
    """Compares the first million records in key order: none may be lost, wrong or surplus."""
    order = model.dataset.order
    present = order[model.versions[order] != ABSENT][:MAX_WALKED].tolist()
    scan, start, overlap, walked, more = reader.scanner(PAGE), ("", ""), 0, 0, True

    def out_of_place(got: Any, expected: Any) -> Wrong:
        return Wrong(f"after {phase}, record {walked:,} in key order: {difference(got, expected)}")

    while more and walked < MAX_WALKED:
        page = scan(start)
        more = len(page) == PAGE
        # A scan includes the key that it starts from.
        records = page[overlap:][: MAX_WALKED - walked]
        numbers = present[walked : walked + len(records)]
        for number, got, right in zip(numbers, records, model.right(numbers, records), strict=False):
            if not right:
                raise out_of_place(got, model.current(number))
            walked += 1
        if len(numbers) < len(records):
            raise out_of_place(records[len(numbers)], None)
        if more:
            start, overlap = (page[-1]["name"], page[-1]["location"]), 1
    if walked < len(present):
        raise out_of_place(None, model.current(present[walked]))
    return walked


def _expect(model: Model, phase: str, number: int, got: Any) -> None:
    if not model.right([number], [got])[0]:
        expected = model.current(number)
        raise Wrong(f"after {phase} the store holds {shorten(got)} where {shorten(expected)} was expected")
