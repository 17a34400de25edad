"""The mixed phase: reads and writes of single records, each its own transaction, checked in the order done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Failure, Operations
from dyno.suites.records.dataset import ABSENT, draw, following, zipf_ranks
from dyno.suites.records.marks import strings_of
from dyno.suites.records.params import SCAN_LENGTH
from dyno.suites.records.port import VERSION_DIGITS, Record
from dyno.suites.records.work import MIXED_SLICE, SCAN_SLICE, ClientWork, NextVersion, Slices


class Step(NamedTuple):
    """One operation: its kind, the record it is about, and, for a write, that record's new version."""

    kind: str  # "get", "scan", "update", "modify" or "insert"
    number: int
    version: int


def mixed(share: ClientWork) -> Slices:
    """This client's operations: kinds drawn by the mix, keys by the distribution."""
    mix, count = share.work.mix, share.share_of(share.work.operations)
    if not count or (share.again and mix.write == "insert"):
        # A client without records of its own, of which there is none to draw; or none left to insert.
        return
    reads = share.rng.random(count) < mix.reads
    planner = _Planner(share, count)
    calls = _calls(share)
    size = SCAN_SLICE if mix.read == "scan" else MIXED_SLICE
    for start in range(0, count, size):
        steps = [planner.step(mix.read if read else mix.write) for read in reads[start : start + size]]
        chosen = tuple(calls[step.kind] for step in steps)
        yield Operations(
            calls=lambda _, chosen=chosen: chosen,  # type: ignore[misc]
            arguments=[_argument(share, step) for step in steps],
            check=_Replay(share, steps),
            kinds=[step.kind for step in steps],
        )


class _Planner:
    """Draws the next operation."""

    def __init__(self, share: ClientWork, count: int) -> None:
        self._share = share
        self._versions = NextVersion(share.model)
        self._inserted = share.own_count()
        self._latest = share.work.distribution == "latest"
        if self._latest:
            # Distances from this client's latest record, whichever it is by then.
            self._ahead = zipf_ranks(share.own_count(), count, share.rng).tolist()
            self._written = self._ahead
        else:
            drawn = share.work.distribution, share.dataset.records, count, share.rng, share.dataset.seed
            self._ahead = draw(*drawn)
            self._written = share.draw_own(share.work.distribution, count)
        self._at = -1

    def step(self, kind: str) -> Step:
        self._at += 1
        share = self._share
        if kind == "insert":
            number = share.client + self._inserted * share.clients
            self._inserted += 1
            return Step(kind, number, self._versions.of(number))
        reads = kind in ("get", "scan")
        number = (self._ahead if reads else self._written)[self._at]
        if self._latest:
            number = share.client + (self._inserted - 1 - number) * share.clients
        return Step(kind, number, ABSENT if reads else self._versions.of(number))


def _calls(share: ClientWork) -> dict[str, Callable[[Any], Any]]:
    reader, replace = share.port.reader(), share.port.replace
    get = reader.get

    def modify(records: list[Record]) -> tuple[Record | None, list[Record | None]]:
        found = get((records[0]["name"], records[0]["location"]))
        return found, replace(records)

    return {
        "get": get,
        "scan": reader.scanner(SCAN_LENGTH),
        "update": replace,
        "modify": modify,
        "insert": share.port.insert,
    }


def _argument(share: ClientWork, step: Step) -> Any:
    if step.kind in ("get", "scan"):
        return share.dataset.key(step.number)
    return [share.dataset.record(step.number, step.version)]


class _Replay:
    """Goes through the answers in the order in which they were given, writing the model as it goes."""

    def __init__(self, share: ClientWork, steps: Sequence[Step]) -> None:
        self._share, self._steps = share, steps
        # With other clients at work, their records may be newer than this, and never older.
        self._known = share.known() if share.clients > 1 else None

    def __call__(self, answers: Sequence[Any]) -> int:
        self._share.outdate()
        pairs = zip(self._steps, answers, strict=False)
        return sum(self._check(step, answer) for step, answer in pairs if type(answer) is not Failure)

    def _check(self, step: Step, answer: Any) -> int:
        share = self._share
        if step.kind == "get":
            return self._read(step.number, answer)
        if step.kind == "scan":
            return (
                share.is_stretch(step.number, answer) if self._known is None else self._scanned(step.number, answer)
            )
        if step.kind == "modify":
            found, answer = answer
            share.is_current(step.number, found)
        if step.kind != "insert":
            share.are_as_many(answer, 1, f"mixed, record {step.number}, old values")
            share.is_current(step.number, answer[0])
        share.model.versions[step.number] = step.version
        return int(step.kind != "insert")

    def _read(self, number: int, answer: Any) -> int:
        share = self._share
        if self._known is None or number % share.clients == share.client or not share.judged:
            return share.is_current(number, answer)
        self._plausible(number, answer)
        return 1

    def _plausible(self, number: int, answer: Any) -> None:
        """Some version of that record, whole, and not older than what was known before the slice began."""
        known = int(self._known[number]) if self._known is not None else ABSENT
        version = version_of(answer)
        if version < known or not same(answer, self._share.dataset.record(number, version)):
            raise Wrong(f"mixed, record {number}: got {shorten(answer)}, expected version {known} or later")

    def _scanned(self, number: int, answer: Any) -> int:
        """A scan while other clients insert: in order, from the right place, each record whole, and none left out
        that was known before the slice began. What was inserted since may be there."""
        share, dataset = self._share, self._share.dataset
        if not share.judged or self._known is None:
            return 0
        first = dataset.key(number)[0]
        records = list(map(strings_of, answer)) if type(answer) is list else [None]
        names = [strings[0] for strings in records if strings is not None]
        if len(names) != len(records):
            raise Wrong(f"mixed: a scan from {first!r} is no list of records: {shorten(answer)}")
        if names != sorted(set(names)) or len(names) > SCAN_LENGTH or (names and names[0] < first):
            raise Wrong(f"mixed: a scan from {first!r} is out of order or too long: {shorten(names)}")
        for known in following(self._known, dataset, number, SCAN_LENGTH):
            name = dataset.key(known)[0]
            if len(names) == SCAN_LENGTH and name > names[-1]:
                break
            if name not in names:
                raise Wrong(f"mixed: a scan from {first!r} lacks {name!r}: {shorten(names)}")
        in_order = dataset.in_order
        for name, record in zip(names, answer, strict=True):
            at = int(np.searchsorted(in_order, name.encode()))
            self._plausible(int(dataset.order[min(at, len(in_order) - 1)]), record)
        return len(names)


def version_of(answer: Any) -> int:
    """The version that stands at the start of a record's stub; less than ABSENT where none does."""
    strings = strings_of(answer)
    digits = "" if strings is None else strings[2][:VERSION_DIGITS]
    return int(digits) if digits.isdigit() else ABSENT - 1
