"""Operations of each phase, built before the clock starts, and checks of their answers."""

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
from dyno.contracts.suite import Failure, Operations, Work, check_each
from dyno.suites._shared.permutation import Permutation
from dyno.suites.arrays.dataset import RANGES, ROW_BYTES, STATS, Dataset, Reference
from dyno.suites.arrays.port import BY_NAME, NAMES, Arrays, Change, Chunk

Slices = Iterator[Work]
UPDATED = tuple(RANGES)
"""Columns that an update changes."""
SLICE_OPERATIONS = 256
"""Maximum number of reads or updates whose inputs and answers are in memory at once."""
CHECKED_UPDATES = 200
"""Maximum number of slices that are read again after the updates."""


def bytes_of(names: Sequence[str]) -> int:
    """Returns the bytes of a row with these columns, as arrays."""
    return sum(np.dtype(BY_NAME[name].dtype).itemsize for name in names)


@dataclass
class Model:
    """Expected contents of the store: the number of rows, and the slices that were updated."""

    dataset: Dataset
    slice_rows: int
    judged: bool = True
    """False for a null engine, whose answers are not checked."""
    reference: Reference = field(default_factory=Reference)
    updated: dict[int, tuple[int, range]] = field(default_factory=dict)
    """Version and rows of each updated slice, by number of the slice."""

    @property
    def rows(self) -> int:
        return self.reference.rows

    def append(self, chunk: Chunk) -> None:
        """Adds rows at the end."""
        if self.judged:
            self.reference.add(chunk)
        self.reference.count(len(chunk[NAMES[0]]))

    def part(self, number: int) -> range:
        """Returns the rows of a slice."""
        return range(number * self.slice_rows, min((number + 1) * self.slice_rows, self.rows))

    def values(self, number: int, version: int) -> Chunk:
        """Returns the values of a slice's updated columns in that version."""
        return self.dataset.chunk(self.part(number), version, UPDATED)

    def next(self, number: int) -> int:
        """Returns the version that a slice's next update writes."""
        return self.updated[number][0] + 1 if number in self.updated else 1

    def update(self, number: int, version: int) -> None:
        part = self.part(number)
        if self.judged:
            now = self.chunk(part)
            self.reference.add({name: now[name] for name in UPDATED}, -1)
            self.reference.add(self.values(number, version))
        self.updated[number] = version, part

    def chunk(self, rows: range) -> Chunk:
        """Returns the expected current values of these rows."""
        chunk = dict(self.dataset.chunk(rows))
        for number in range(rows.start // self.slice_rows, (rows.stop - 1) // self.slice_rows + 1):
            version, part = self.updated.get(number, (0, range(0)))
            if version:
                both = range(max(part.start, rows.start), min(part.stop, rows.stop))
                for name, values in self.dataset.chunk(part, version, UPDATED).items():
                    chunk[name][both.start - rows.start : both.stop - rows.start] = values[
                        both.start - part.start : both.stop - part.start
                    ]
        return chunk

    def check(self, rows: range, answer: Any) -> int:
        """Compares a slice. Returns the number of compared columns. Raises Wrong."""
        if type(answer) is not dict:
            raise Wrong(f"rows {rows.start} to {rows.stop}: got {type(answer).__name__}, expected a dict of columns")
        if set(answer) != set(NAMES):
            raise Wrong(f"rows {rows.start} to {rows.stop}: got columns {', '.join(map(str, answer))}")
        for name, expected in self.chunk(rows).items():
            if not same(answer[name], expected):
                difference = array_difference(answer[name], expected)
                raise Wrong(f"{name} of rows {rows.start} to {rows.stop}: {difference}")
        return len(NAMES)


@dataclass(frozen=True)
class TrialState:
    """Model and parameters that all phases of a trial share."""

    model: Model
    column: str
    repeats: int
    slices: int
    updates: int
    seed: int


class ClientWork:
    """Work of one phase for the only client."""

    def __init__(self, state: TrialState, phase: str, port: Arrays, round: int) -> None:
        self._state, self._phase, self._port, self._round = state, phase, port, round
        self._model = state.model

    def appends(self, rows: range, transactions: int = 1) -> Slices:
        """Yields appends of these rows, in several transactions of about the same size. Further rounds append
        nothing, since the table would grow without limit."""
        if self._round or not rows:
            return

        def appended(part: range, chunk: Chunk, answers: Sequence[Any]) -> int:
            for answer in answers:
                if type(answer) is Failure:
                    # Stop here, since all later rows would be at wrong positions.
                    raise Wrong(f"rows {part.start} to {part.stop} were not written: {answer.error}")
                self._model.append(chunk)
            return 0

        count = min(transactions, len(rows))
        ends = [rows.start + len(rows) * at // count for at in range(count + 1)]
        for start, stop in pairwise(ends):
            held: AbstractContextManager[Any] = self._port.writing(stop - start)
            for part, chunk in self._model.dataset.chunks(range(start, stop)):
                yield Operations(
                    calls=lambda write: (write,),
                    arguments=[chunk],
                    check=partial(appended, part, chunk),
                    weights=[len(part)],
                    held=held,
                    sizes=self._sizes([len(part) * ROW_BYTES]),
                )

    def sums(self, cold: bool, by_frame: bool = False) -> Slices:
        """Yields sums of the column by the engine or by a DataFrame. If `cold`, only the first round has one."""
        state, frame = self._state, self._port.frame

        def sum_frame(column: str) -> Any:
            return frame((column,))[column].sum()

        call, count = sum_frame if by_frame else self._port.sum, (0 if self._round else 1) if cold else state.repeats
        return self._reduce(call, state.column, (state.column,), count, state.model.reference.check_sum)

    def stats(self) -> Slices:
        return self._reduce(self._port.stats, STATS, STATS, self._state.repeats, self._model.reference.check_stats)

    def _reduce(
        self, call: Callable[[Any], Any], argument: Any, names: Sequence[str], count: int, check: Callable[..., int]
    ) -> Slices:
        """Yields operations over all rows of some columns. `check` takes the argument and the answer."""
        for _ in range(count):
            yield Operations(
                calls=lambda _: (call,),
                arguments=[argument],
                check=check_each([argument], check, self._model.judged),
                sizes=self._sizes([self._model.rows * bytes_of(names)]),
            )

    def reads(self) -> Slices:
        rows = self._model.rows
        length = min(self._model.slice_rows, rows)
        # The seed depends on neither engine nor trial, so that all of them get the same inputs.
        rng = np.random.default_rng([self._state.seed, crc32(self._phase.encode()), self._round])
        starts = rng.integers(0, rows - length, self._state.slices, endpoint=True).tolist()
        for at in range(0, len(starts), SLICE_OPERATIONS):
            parts = [range(start, start + length) for start in starts[at : at + SLICE_OPERATIONS]]
            yield Operations(
                calls=lambda _: (self._port.slice,),
                arguments=parts,
                check=check_each(parts, self._model.check, self._model.judged),
                sizes=self._sizes([length * ROW_BYTES] * len(parts)),
            )

    def updates(self) -> Slices:
        """Yields updates of adjacent slices in random order. No slice is updated again before all slices have
        been."""

        def updated(versions: Sequence[tuple[int, int]], answers: Sequence[Any]) -> int:
            for (number, version), answer in zip(versions, answers, strict=False):
                if type(answer) is Failure:
                    raise Wrong(f"slice {number} was not updated: {answer.error}")
                self._model.update(number, version)
            return 0

        count = -(-self._model.rows // self._model.slice_rows)
        order = Permutation(count, [self._state.seed, 5])
        first = self._round * self._state.updates
        for at in range(first, first + self._state.updates, SLICE_OPERATIONS):
            positions = range(at, min(at + SLICE_OPERATIONS, first + self._state.updates))
            # Avoid updating a slice twice in one batch, since versions are known only after the check.
            numbers = dict.fromkeys(int(order[each % count : each % count + 1][0]) for each in positions)
            versions = [(number, self._model.next(number)) for number in numbers]
            changes = [
                Change(self._model.part(number).start, self._model.values(number, version))
                for number, version in versions
            ]
            yield Operations(
                calls=lambda _: (self._port.update,),
                arguments=changes,
                check=partial(updated, versions),
                sizes=self._sizes([(change.stop - change.start) * bytes_of(UPDATED) for change in changes]),
            )

    def _sizes(self, sizes: list[int]) -> list[int] | None:
        """Returns the bytes that operations move; None for a null engine, which moves none."""
        return sizes if self._model.judged else None
