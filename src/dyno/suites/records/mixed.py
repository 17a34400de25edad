"""The phase `mixed`: single reads and writes, each its own transaction. Answers are checked in their order."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Wrong
from dyno.contracts.native_load import NativeCall, NativePair
from dyno.contracts.suite import Operations, check_each
from dyno.suites.records import KINDS, SCAN_LENGTH, distribution_of
from dyno.suites.records.dataset import ABSENT, following_records, record_strings
from dyno.suites.records.draws import draw_ranks
from dyno.suites.records.port import VERSION_DIGITS, Key, Reader, Record, Records
from dyno.suites.records.work import MIXED_SLICE, SCAN_SLICE, ClientWork, Slices


class MixedOperation(NamedTuple):
    """One operation: its kind, the number of its record, for a write the record's new version, and for a scan the
    maximum number of records."""

    kind: str
    number: int
    version: int = ABSENT
    length: int = 0


def mix_operations(work: ClientWork) -> Slices:
    """Yields this client's operations. The mix determines their kinds, and the distribution their keys."""
    model = work.model
    mix = work.model.mix
    count = work.share_of(work.model.operations)
    if not count or (work.repeated and "insert" in mix.percent):
        # The client owns no records to draw from, or the first round has inserted all spare records.
        return
    names, limits = list(mix.percent), np.cumsum(list(mix.percent.values())) / 100
    kinds = [names[at] for at in np.searchsorted(limits, work.rng.random(count), "right").tolist()]
    dataset, inserted = work.dataset, work.share_of(work.dataset.records)
    latest = distribution_of(model.distribution)[0] == "latest"
    if latest:
        # Distances from the record that this client inserts last before the operation.
        read_numbers = written_numbers = draw_ranks(model.distribution, inserted, count, work.rng).tolist()
    else:
        read_numbers, written_numbers = work.draw(count, own=False), work.draw(count, own=True)
    # Drawn last, so that they don't change the other inputs.
    lengths = work.rng.integers(mix.shortest_scan, SCAN_LENGTH + 1, count if "scan" in mix.percent else 0).tolist()

    def plan(at: int) -> MixedOperation:
        """Returns the operation at this position of the round."""
        nonlocal inserted
        kind = kinds[at]
        if kind == "insert":
            number = work.client + inserted * work.clients
            inserted += 1
            return MixedOperation(kind, number, work.next_version(number))
        number = (written_numbers if KINDS[kind] else read_numbers)[at]
        if latest:
            number = work.client + (inserted - 1 - number) * work.clients
        if kind == "scan":
            return MixedOperation(kind, number, length=lengths[at])
        return MixedOperation(kind, number, work.next_version(number) if KINDS[kind] else ABSENT)

    reader = work.port.reader()
    calls = _bind_calls(work.port, reader)
    scanner = cache(reader.scanner)
    # A slice of the mix has about as many scans as one of the phase `scan`.
    size = min(max(SCAN_SLICE * 100 // mix.percent.get("scan", 1), SCAN_SLICE), MIXED_SLICE)
    for start in range(0, count, size):
        operations = [plan(at) for at in range(start, min(start + size, count))]
        chosen = tuple(calls[each.kind] if each.kind in calls else scanner(each.length) for each in operations)
        yield Operations(
            calls=lambda _, chosen=chosen: chosen,  # type: ignore[misc]
            arguments=[
                dataset.key(number) if kind in ("get", "scan") else [dataset.record(number, version)]
                for kind, number, version, _ in operations
            ],
            check=_Replay(work, operations),
            kinds=[operation.kind for operation in operations],
        )


def _bind_calls(port: Records, reader: Reader) -> dict[str, Callable[[Any], Any]]:
    """Returns the function for each kind of operation except scans."""
    replace = port.replace
    get: Any = reader.get

    def modify(records: list[Record]) -> tuple[Record | None, list[Record | None]]:
        before = get(_key(records))
        return before, replace(records)

    if isinstance(replace, NativeCall):
        modify_record: Callable[[Any], Any] = NativePair(get, replace, _key)
    else:
        modify_record = modify
    return {
        "get": get,
        "update": replace,
        "modify": modify_record,
        "insert": port.insert,
    }


def _key(records: list[Record]) -> Key:
    return records[0]["name"], records[0]["location"]


class _Replay:
    """Checks the answers in the order of execution, and updates the model between them."""

    def __init__(self, work: ClientWork, operations: Sequence[MixedOperation]) -> None:
        self._work, self._operations = work, operations
        # Snapshot of the versions: records of other clients may be newer than that, but not older.
        if work.clients > 1 and work.snapshot is None:
            work.snapshot = work.model.versions.copy()
        self._known = work.snapshot

    def __call__(self, answers: Sequence[object]) -> int:
        self._work.snapshot = None
        return check_each(self._operations, self._check)(answers)

    def _check(self, operation: MixedOperation, answer: Any) -> int:
        work, number = self._work, operation.number
        if operation.kind == "get":
            if self._known is None or number % work.clients == work.client or not work.judged:
                return work.check_current(number, answer)
            self._check_not_older(number, answer)
            return 1
        if operation.kind == "scan":
            check = work.check_scan if self._known is None else self._check_scan
            return check(number, answer, operation.length)
        if operation.kind == "modify":
            before, answer = answer
            work.check_current(number, before)
        if operation.kind != "insert":
            work.expect_count(answer, 1, f"mixed, record {number}, old values")
            work.check_current(number, answer[0])
        work.model.versions[number] = operation.version
        if self._known is not None:
            # A later scan must see this client's own write.
            self._known[number] = operation.version
        return int(operation.kind != "insert")

    def _check_not_older(self, number: int, answer: object) -> None:
        """Raises Wrong unless the answer is the whole record, in a version not older than the snapshot's."""
        known = ABSENT
        if self._known is not None:
            known = int(self._known[number])
        version = version_of(answer)
        if version < known or not same(answer, self._work.dataset.record(number, version)):
            raise Wrong(f"mixed, record {number}: got {shorten(answer)}, expected version {known} or later")

    def _check_scan(self, number: int, answer: Sequence[object], length: int) -> int:
        """Checks a scan while other clients insert records: in order, from the right key, whole, with all records of
        the snapshot, and perhaps with newer ones. Returns the number of compared records."""
        work, dataset = self._work, self._work.dataset
        if not work.judged or self._known is None:
            return 0
        first = dataset.key(number)[0]
        if type(answer) is list:
            records = list(map(record_strings, answer))
        else:
            records = [None]
        names = [strings[0] for strings in records if strings is not None]
        if len(names) != len(records):
            raise Wrong(f"mixed: a scan from {first!r} is not a list of records: {shorten(answer)}")
        if names != sorted(set(names)) or len(names) > length or (names and names[0] < first):
            raise Wrong(f"mixed: a scan from {first!r} is out of order or too long: {shorten(names)}")
        for known in following_records(self._known, dataset, number, length):
            name = dataset.key(known)[0]
            if len(names) == length and name > names[-1]:
                break
            if name not in names:
                raise Wrong(f"mixed: a scan from {first!r} lacks {name!r}: {shorten(names)}")
        in_order = dataset.in_order
        for name, record in zip(names, answer, strict=True):
            rank = int(np.searchsorted(in_order, name.encode()))
            self._check_not_older(int(dataset.order[min(rank, len(in_order) - 1)]), record)
        return len(names)


def version_of(answer: object) -> int:
    """Returns the version at the start of a record's stub; less than ABSENT if there is none."""
    strings = record_strings(answer)
    digits = ""
    if strings is not None:
        digits = strings[2][:VERSION_DIGITS]
    if digits.isdigit():
        return int(digits)
    return ABSENT - 1
