"""Trial of the suite `arrays`, and its transactions for crash tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from hashlib import blake2b
from itertools import count, pairwise
from typing import TypeVar
from zlib import crc32

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase, Value, Wrong
from dyno.contracts.roles import PayloadWorkload
from dyno.contracts.suite import Failure, Job, Operations, Work, check_each
from dyno.suites._shared.permutation import Permutation
from dyno.suites._shared.store import OnStore
from dyno.suites.arrays import APPENDED, conformance
from dyno.suites.arrays.dataset import ROW_BYTES, STATS, UPDATED, Dataset, Model, bytes_of
from dyno.suites.arrays.port import KEY, NUMERIC, Arrays, Change, Chunk

T = TypeVar("T")
Slices = Iterator[Work]
SLICE_OPERATIONS = 256
"""Maximum number of reads or updates whose inputs and answers are in memory at once."""
CHECKED_UPDATES = 200
"""Maximum number of slices that are read again after the updates, if the table is not read back whole."""
READ_BACK_ROWS, READ_BACK_ROWS_AT_ONCE = 200_000, 10_000
"""Number of rows that are read back after a phase that writes: the whole table or evenly spread parts."""


class ClientWork:
    """Work of one phase for the only client."""

    def __init__(self, model: Model, params: Mapping[str, Value], phase: str, port: Arrays, round: int) -> None:
        self._model = model
        self._params = params
        self._phase = phase
        self._port = port
        self._round = round

    def appends(self, rows: range, transactions: int = 1) -> Slices:
        """Yields appends of these rows, in several transactions of about the same size. Further rounds append
        nothing, since the table would grow without limit."""
        if self._round or not rows:
            return

        def record_append(part: range, chunk: Chunk, answers: Sequence[object]) -> int:
            for answer in answers:
                if type(answer) is Failure:
                    # Stop here, since all later rows would be at wrong positions.
                    raise Wrong(f"rows {part.start} to {part.stop} were not written: {answer.error}")
                self._model.append(chunk)
            return 0

        count = min(transactions, len(rows))
        ends = [rows.start + len(rows) * at // count for at in range(count + 1)]
        for start, stop in pairwise(ends):
            held: AbstractContextManager[object] = self._port.writing(stop - start)
            for part, chunk in self._model.dataset.chunks(range(start, stop)):
                yield Operations(
                    calls=lambda write: (write,),
                    arguments=[chunk],
                    check=partial(record_append, part, chunk),
                    weights=[len(part)],
                    held=held,
                    sizes=self._sizes([len(part) * ROW_BYTES]),
                )

    def sums(self, cold: bool, by_frame: bool = False) -> Slices:
        """Yields sums of the column by the engine or by a DataFrame. If `cold`, only the first round has one."""
        column = str(self._params["column"])
        count = int(self._params["repeats"])
        if cold and self._round == 0:
            count = 1
        elif cold:
            count = 0
        frame = self._port.frame

        def sum_frame(column: str) -> object:
            return frame((column,))[column].sum()

        call = self._port.sum
        if by_frame:
            call = sum_frame
        return self._reduce(call, column, (column,), count, self._model.check_sum)

    def stats(self) -> Slices:
        repeats = int(self._params["repeats"])
        return self._reduce(self._port.stats, STATS, STATS, repeats, self._model.check_stats)

    def _reduce(
        self, call: Callable[[T], object], argument: T, names: Sequence[str], count: int, check: Callable[..., int]
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
        rng = np.random.default_rng([self._model.dataset.seed, crc32(self._phase.encode()), self._round])
        starts = rng.integers(0, rows - length, int(self._params["slices"]), endpoint=True).tolist()
        for at in range(0, len(starts), SLICE_OPERATIONS):
            parts = [range(start, start + length) for start in starts[at : at + SLICE_OPERATIONS]]
            yield Operations(
                calls=lambda _: (self._port.slice,),
                arguments=parts,
                check=check_each(parts, self._model.check, self._model.judged),
                sizes=self._sizes([length * ROW_BYTES] * len(parts)),
            )

    def updates(self) -> Slices:
        """Yields updates of adjacent slices in random order. All are updated before one is updated again."""

        def record_updates(versions: Sequence[tuple[int, int]], answers: Sequence[object]) -> int:
            for (number, version), answer in zip(versions, answers, strict=False):
                if type(answer) is Failure:
                    raise Wrong(f"slice {number} was not updated: {answer.error}")
                self._model.update(number, version)
            return 0

        count, updates = -(-self._model.rows // self._model.slice_rows), int(self._params["updates"])
        order = Permutation(count, [self._model.dataset.seed, 5])
        first = self._round * updates
        for at in range(first, first + updates, SLICE_OPERATIONS):
            positions = range(at, min(at + SLICE_OPERATIONS, first + updates))
            # Avoid updating a slice twice in one batch, since versions are known only after the check.
            numbers = dict.fromkeys(int(order[each % count : each % count + 1][0]) for each in positions)
            versions = [(number, self._model.next_version(number)) for number in numbers]
            changes = [
                Change(self._model.part(number).start, self._model.values(number, version))
                for number, version in versions
            ]
            yield Operations(
                calls=lambda _: (self._port.update,),
                arguments=changes,
                check=partial(record_updates, versions),
                sizes=self._sizes([(change.stop - change.start) * bytes_of(UPDATED) for change in changes]),
            )

    def _sizes(self, sizes: list[int]) -> list[int] | None:
        """Returns the bytes that operations move; None for a null engine, which moves none."""
        if self._model.judged:
            return sizes
        return None


class ArraysWorkload(OnStore, PayloadWorkload):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._rows = int(job.params["rows"])
        slice_rows = min(int(job.params["slice_rows"]), self._rows)
        self._model = Model(Dataset(job.seed), slice_rows, judged=not job.spec.floor)

    def prepare(self, phase: Phase) -> None:
        gap = next((gap for gap in self._job.spec.gaps if gap.check == "updates"), None)
        if phase.name == "update-slice" and gap is not None:
            raise Absent(gap.reason)
        self.begin()
        if phase.name == "write":
            return
        # Rows that the phase `write` did not add because it was left out or reached its budget.
        missing = range(self._model.rows, self._rows)
        if self._job.spec.floor:
            self._model.rows += len(missing)
            return

        def append_missing() -> None:
            if missing:
                with self.connect() as port, port.writing(len(missing)) as write:
                    for _, chunk in self._model.dataset.chunks(missing):
                        write(chunk)
                        self._model.append(chunk)
                self._written = True

        self.load(append_missing)
        # Rows that another trial has loaded.
        for _, chunk in self._model.dataset.chunks(range(self._model.rows, self._rows)):
            self._model.append(chunk)
        self.keep_up()

    def work(self, phase: Phase, port: Arrays, client: int, clients: int, round: int) -> Iterator[Work]:
        work = ClientWork(self._model, self._job.params, phase.name, port, round)
        rows = self._model.rows
        cold = phase.temperature == "cold"
        appends = int(self._job.params["appends"])
        slices: dict[str, Callable[[], Iterator[Work]]] = {
            "write": lambda: work.appends(range(rows, self._rows)),
            **dict.fromkeys(("read-sum-cold", "read-sum-hot"), lambda: work.sums(cold)),
            **dict.fromkeys(("read-sum-pandas-cold", "read-sum-pandas-hot"), lambda: work.sums(cold, by_frame=True)),
            "read-slice": work.reads,
            "read-column-stats": work.stats,
            "append": lambda: work.appends(range(rows, rows + -(-self._rows // APPENDED)), appends),
            "update-slice": work.updates,
        }
        return slices[phase.name]()

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if not phase.writes:
            return None
        updated = self._model.slice_rows * bytes_of(UPDATED)
        return items * (updated if phase.name == "update-slice" else ROW_BYTES)

    def verify(self, phase: Phase) -> int:
        """Checks the sum of every numeric column, and every value of the rows that are read back."""
        if not phase.writes:
            return 0
        self._written = True
        model = self._model
        if not model.rows:
            return 0
        with self.connect() as port:
            compared = sum(model.check_sum(name, port.sum(name)) for name in NUMERIC)
            return compared + sum(model.check(rows, port.slice(rows)) for rows in self._read_back(phase.name))

    def _read_back(self, phase: str) -> list[range]:
        """Returns the rows to read back. Of updates, also the last updated slices with their neighbours."""
        model, length = self._model, READ_BACK_ROWS_AT_ONCE
        if model.rows <= READ_BACK_ROWS:
            return [range(start, min(start + length, model.rows)) for start in range(0, model.rows, length)]
        starts = np.linspace(0, model.rows - length, READ_BACK_ROWS // length).astype(int).tolist()
        parts = [range(start, start + length) for start in starts]
        if phase == "update-slice":
            updated = [model.part(number) for number in list(model.updated)[-CHECKED_UPDATES:]]
            parts += [range(max(part.start - 1, 0), min(part.stop + 1, model.rows)) for part in updated]
        return parts

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Returns the size of the table as arrays, for comparison with its size on disk."""
        if self._job.spec.floor:
            return {}
        return {"array_bytes": self._model.rows * ROW_BYTES}


APPENDED_ROWS, UPDATED_ROWS = 40, 10
UPDATE_EVERY = 3
"""One in so many transactions updates rows, if the engine supports updates."""


class ArraysHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`, by a digest of each column."""

    def __init__(self, job: Job) -> None:
        self._job, self._dataset = job, Dataset(job.seed)
        gaps = {gap.check for gap in job.spec.gaps}
        self._updating = not job.spec.crashes.in_place and "updates" not in gaps
        self._states: list[Mapping[str, bytes]] = [{}]
        self._columns = {name: values.copy() for name, values in self._dataset.chunk(range(0)).items()}

    def open(self, engine: Engine) -> AbstractContextManager[Arrays]:
        return closing(self._job.port(engine))

    def commit(self, port: Arrays, number: int) -> None:
        part = self._part(number)
        if self._updates(number):
            port.update(Change(part.start, self._values(number)))
            return
        with port.writing(len(part)) as write:
            write(self._values(number))

    def state(self, commits: int) -> Mapping[str, bytes]:
        while len(self._states) <= commits:
            number = len(self._states) - 1
            part = self._part(number)
            for name, values in self._values(number).items():
                before = self._columns[name]
                self._columns[name] = np.concatenate([before[: part.start], values, before[part.stop :]])
            self._states.append(_digests(self._columns))
        return self._states[commits]

    def found(self, port: Arrays) -> Mapping[str, bytes]:
        total = int(port.sum(KEY))
        rows = next(rows for rows in count() if rows * (rows + 1) // 2 >= total)
        if rows * (rows + 1) // 2 != total:
            raise Wrong(f"{KEY} adds up to {total}, which is no sum of 1, 2, 3 and so on")
        if rows:
            return _digests(port.slice(range(rows)))
        return {}

    def _updates(self, number: int) -> bool:
        return self._updating and number % UPDATE_EVERY == UPDATE_EVERY - 1

    def _part(self, number: int) -> range:
        """Returns the rows that a transaction updates or appends."""
        rows = APPENDED_ROWS * (number - (number // UPDATE_EVERY if self._updating else 0))
        if not self._updates(number):
            return range(rows, rows + APPENDED_ROWS)
        start = number * 7919 % (rows - UPDATED_ROWS)
        return range(start, start + UPDATED_ROWS)

    def _values(self, number: int) -> Chunk:
        part = self._part(number)
        if self._updates(number):
            return self._dataset.chunk(part, number, UPDATED)
        return self._dataset.chunk(part)


def _digests(columns: Chunk) -> Mapping[str, bytes]:
    return {
        name: blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
        for name, values in columns.items()
    }


WORKLOAD = ArraysWorkload
