"""The operations of each phase, built before the clock starts, and how their answers are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from dyno.contracts.equality import array_difference, same
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Failure, Operations
from dyno.contracts.suite import Work as Slice
from dyno.suites._shared.permutation import Permutation
from dyno.suites.arrays.dataset import RANGES, ROW_BYTES, Dataset
from dyno.suites.arrays.port import BY_NAME, NAMES, Arrays, Change, Chunk
from dyno.suites.arrays.reference import STATS, Reference

Slices = Iterator[Slice]
UPDATED = tuple(RANGES)
"""The columns that an update changes."""
SLICE_OPERATIONS = 256
"""Of reads and of updates: their inputs and answers wait in memory."""
CHECKED_UPDATES = 200
"""Slices that are read again after the updates, at most."""


def bytes_of(names: Sequence[str]) -> int:
    """Of a row of these columns, as arrays."""
    return sum(np.dtype(BY_NAME[name].dtype).itemsize for name in names)


@dataclass
class Table:
    """What the store must hold: how many rows there are, and which slices have other values than at first."""

    dataset: Dataset
    slice_rows: int
    judged: bool = True
    """Whether answers are looked at: not a floor's, for which nothing needs to be added up."""
    reference: Reference = field(default_factory=Reference)
    updated: dict[int, tuple[int, range]] = field(default_factory=dict)
    """Of slices that were updated, by number: the version of which values, and which rows they were then."""

    @property
    def rows(self) -> int:
        return self.reference.rows

    def taken(self, chunk: Chunk) -> None:
        """Rows that were added at the end."""
        if self.judged:
            self.reference.add(chunk)
        self.reference.count(len(chunk[NAMES[0]]))

    def part(self, number: int) -> range:
        """The rows of a slice that is updated."""
        return range(number * self.slice_rows, min((number + 1) * self.slice_rows, self.rows))

    def values(self, number: int, version: int) -> Chunk:
        """What a slice has in the columns that are updated."""
        return self.dataset.chunk(self.part(number), version, UPDATED)

    def next(self, number: int) -> int:
        """The version that a slice gets when it is updated."""
        return self.updated[number][0] + 1 if number in self.updated else 1

    def changed(self, number: int, version: int) -> None:
        part = self.part(number)
        if self.judged:
            now = self.chunk(part)
            self.reference.add({name: now[name] for name in UPDATED}, -1)
            self.reference.add(self.values(number, version))
        self.updated[number] = version, part

    def chunk(self, rows: range) -> Chunk:
        """Rows as they are now."""
        found = dict(self.dataset.chunk(rows))
        for number in range(rows.start // self.slice_rows, (rows.stop - 1) // self.slice_rows + 1):
            version, part = self.updated.get(number, (0, range(0)))
            if version:
                both = range(max(part.start, rows.start), min(part.stop, rows.stop))
                for name, values in self.dataset.chunk(part, version, UPDATED).items():
                    found[name][both.start - rows.start : both.stop - rows.start] = values[
                        both.start - part.start : both.stop - part.start
                    ]
        return found

    def check(self, rows: range, answer: Any) -> int:
        """Raises Wrong. Returns how many columns were compared."""
        if type(answer) is not dict:
            raise Wrong(f"rows {rows.start} to {rows.stop}: got {type(answer).__name__}, expected a dict of columns")
        if set(answer) != set(NAMES):
            raise Wrong(f"rows {rows.start} to {rows.stop}: got columns {', '.join(map(str, answer))}")
        for name, right in self.chunk(rows).items():
            if not same(answer[name], right):
                raise Wrong(f"{name} of rows {rows.start} to {rows.stop}: {array_difference(answer[name], right)}")
        return len(NAMES)


@dataclass(frozen=True)
class Work:
    """What all phases of a trial share."""

    table: Table
    column: str
    repeats: int
    slices: int
    updates: int
    seed: int

    @property
    def judged(self) -> bool:
        return self.table.judged


class ClientWork:
    """The slices of one phase. There is one client."""

    def __init__(self, work: Work, phase: str, port: Arrays, round: int) -> None:
        self._work, self._phase, self._port, self._round = work, phase, port, round
        self._table = work.table

    def adding(self, rows: range, transactions: int = 1) -> Slices:
        """Rows at the end, in so many transactions of about as many each. Not in a further round: the store would
        never be full."""
        if self._round or not rows:
            return
        count = min(transactions, len(rows))
        ends = [rows.start + len(rows) * at // count for at in range(count + 1)]
        for start, stop in pairwise(ends):
            yield from self._added(range(start, stop))

    def _added(self, rows: range) -> Slices:
        """In one transaction."""
        held: AbstractContextManager[Any] = self._port.writing(len(rows))
        for part, chunk in self._table.dataset.chunks(rows):
            yield Operations(
                calls=lambda write: (write,),
                arguments=[chunk],
                check=partial(self._taken, part, chunk),
                weights=[len(part)],
                held=held,
                sizes=self._sizes([len(part) * ROW_BYTES]),
            )

    def _taken(self, rows: range, chunk: Chunk, answers: Sequence[Any]) -> int:
        for answer in answers:
            if type(answer) is Failure:
                # What comes after it would stand at other places.
                raise Wrong(f"rows {rows.start} to {rows.stop} were not taken: {answer.error}")
            self._table.taken(chunk)
        return 0

    def sums(self, cold: bool) -> Slices:
        """Cold is the first one only."""
        return self._sums(self._port.sum, cold)

    def frame_sums(self, cold: bool) -> Slices:
        frame = self._port.frame

        def summed(column: str) -> Any:
            return frame((column,))[column].sum()

        return self._sums(summed, cold)

    def _sums(self, call: Callable[[str], Any], cold: bool) -> Slices:
        work = self._work
        check = self._each(lambda answer: work.table.reference.check_sum(work.column, answer))
        count = (0 if self._round else 1) if cold else work.repeats
        return self._whole(call, work.column, (work.column,), count, check)

    def stats(self) -> Slices:
        reference = self._table.reference
        check = self._each(lambda answer: reference.check_stats(STATS, answer))
        return self._whole(self._port.stats, STATS, STATS, self._work.repeats, check)

    def _whole(
        self, call: Callable[[Any], Any], argument: Any, names: Sequence[str], count: int, check: Callable[..., int]
    ) -> Slices:
        """So many operations over all rows."""
        rows = self._rows()
        for _ in range(count):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[argument],
                check=check,
                sizes=self._sizes([rows * bytes_of(names)]),
            )

    def reads(self) -> Slices:
        rows, length = self._rows(), min(self._table.slice_rows, self._rows())
        # Neither the engine nor the trial: the inputs are the same for all of them.
        rng = np.random.default_rng([self._work.seed, crc32(self._phase.encode()), self._round])
        starts = rng.integers(0, rows - length, self._work.slices, endpoint=True).tolist()
        for at in range(0, len(starts), SLICE_OPERATIONS):
            parts = [range(start, start + length) for start in starts[at : at + SLICE_OPERATIONS]]
            yield Operations(
                calls=lambda _: (self._port.slice,),
                arguments=parts,
                check=partial(self._sliced, parts),
                sizes=self._sizes([length * ROW_BYTES] * len(parts)),
            )

    def _sliced(self, parts: Sequence[range], answers: Sequence[Any]) -> int:
        if not self._work.judged:
            return 0
        return sum(
            self._table.check(part, answer)
            for part, answer in zip(parts, answers, strict=False)
            if type(answer) is not Failure
        )

    def updating(self) -> Slices:
        """Slices next to each other, in random order; each again only when all were updated."""
        count = -(-self._rows() // self._table.slice_rows)
        order = Permutation(count, [self._work.seed, 5])
        first = self._round * self._work.updates
        for at in range(first, first + self._work.updates, SLICE_OPERATIONS):
            places = range(at, min(at + SLICE_OPERATIONS, first + self._work.updates))
            # Two of one slice would have to know of each other.
            asked = {int(order[place % count : place % count + 1][0]): 0 for place in places}
            for number in asked:
                asked[number] = self._table.next(number)
            changes = [
                Change(self._table.part(number).start, self._table.values(number, version))
                for number, version in asked.items()
            ]
            yield Operations(
                calls=lambda _: (self._port.update,),
                arguments=changes,
                check=partial(self._updated, list(asked.items())),
                sizes=self._sizes([(change.stop - change.start) * bytes_of(UPDATED) for change in changes]),
            )

    def _updated(self, asked: Sequence[tuple[int, int]], answers: Sequence[Any]) -> int:
        for (number, version), answer in zip(asked, answers, strict=False):
            if type(answer) is Failure:
                raise Wrong(f"slice {number} was not updated: {answer.error}")
            self._table.changed(number, version)
        return 0

    def _sizes(self, sizes: list[int]) -> list[int] | None:
        """What operations move; a floor moves nothing."""
        return sizes if self._work.judged else None

    def _rows(self) -> int:
        return self._table.rows

    def _each(self, check: Callable[[Any], int]) -> Callable[[Sequence[Any]], int]:
        def checked(answers: Sequence[Any]) -> int:
            if not self._work.judged:
                return 0
            return sum(check(answer) for answer in answers if type(answer) is not Failure)

        return checked
