"""Trial of the suite `arrays`: its store, the operations and facts of each phase, and the transactions of crash
tests."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase, Wrong
from dyno.contracts.suite import Job, Work
from dyno.suites._shared.store import OnStore
from dyno.suites.arrays import APPENDED, conformance
from dyno.suites.arrays.dataset import ROW_BYTES, Dataset
from dyno.suites.arrays.port import KEY, NUMERIC, Arrays, Change, Chunk
from dyno.suites.arrays.work import CHECKED_UPDATES, UPDATED, ClientWork, Model, TrialState, bytes_of


class ArraysWorkload(OnStore):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        self._rows = int(params["rows"])
        self._appends = int(params["appends"])
        slice_rows = min(int(params["slice_rows"]), self._rows)
        self._model = Model(Dataset(job.seed), slice_rows, judged=not job.spec.floor)
        self._state = TrialState(
            model=self._model,
            column=str(params["column"]),
            repeats=int(params["repeats"]),
            slices=int(params["slices"]),
            updates=int(params["updates"]),
            seed=job.seed,
        )

    # -- the store ------------------------------------------------------------------------------------------

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
            self._model.reference.count(len(missing))
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

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        work, cold = ClientWork(self._state, phase.name, port, round), phase.temperature == "cold"
        rows = self._model.rows
        slices: dict[str, Callable[[], Iterator[Work]]] = {
            "write": lambda: work.appends(range(rows, self._rows)),
            **dict.fromkeys(("read-sum-cold", "read-sum-hot"), lambda: work.sums(cold)),
            **dict.fromkeys(("read-sum-pandas-cold", "read-sum-pandas-hot"), lambda: work.sums(cold, by_frame=True)),
            "read-slice": work.reads,
            "read-column-stats": work.stats,
            "append": lambda: work.appends(range(rows, rows + -(-self._rows // APPENDED)), self._appends),
            "update-slice": work.updates,
        }
        return slices[phase.name]()

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if not phase.writes:
            return None
        updated = self._model.slice_rows * bytes_of(UPDATED)
        return items * (updated if phase.name == "update-slice" else ROW_BYTES)

    def verify(self, phase: Phase) -> int:
        """Checks the sum of every numeric column, and every value of some slices."""
        if not phase.writes:
            return 0
        self._written = True
        reference = self._model.reference
        if not reference.rows:
            return 0
        with self.connect() as port:
            compared = sum(reference.check_sum(name, port.sum(name)) for name in NUMERIC)
            return compared + sum(self._model.check(rows, port.slice(rows)) for rows in self._sample(phase.name))

    def _sample(self, phase: str) -> list[range]:
        """Returns slices to check: after updates, the last updated ones with their neighbours; otherwise five spread
        evenly."""
        model, length = self._model, self._model.slice_rows
        if phase == "update-slice":
            updated = [model.part(number) for number in list(model.updated)[-CHECKED_UPDATES:]]
            return [range(max(part.start - 1, 0), min(part.stop + 1, model.rows)) for part in updated]
        starts = np.linspace(0, max(model.rows - length, 0), 5).astype(int).tolist()
        return [range(start, min(start + length, model.rows)) for start in starts]

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Returns the size of the table as arrays, for comparison with its size on disk."""
        return {} if self._job.spec.floor else {"array_bytes": self._model.rows * ROW_BYTES}


APPENDED_ROWS, UPDATED_ROWS = 40, 10
UPDATE_EVERY = 3
"""One in so many transactions updates rows, if the engine supports updates."""


class ArraysHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`. A state is a digest of each
    column."""

    def __init__(self, job: Job) -> None:
        self._job, self._dataset = job, Dataset(job.seed)
        gaps = {gap.check for gap in job.spec.gaps}
        self._updating = not job.spec.in_place and "updates" not in gaps
        self._states: list[Mapping[str, Any]] = [{}]
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

    def state(self, commits: int) -> Mapping[str, Any]:
        while len(self._states) <= commits:
            number = len(self._states) - 1
            part = self._part(number)
            for name, values in self._values(number).items():
                before = self._columns[name]
                self._columns[name] = np.concatenate([before[: part.start], values, before[part.stop :]])
            self._states.append(_digests(self._columns))
        return self._states[commits]

    def found(self, port: Arrays) -> Mapping[str, Any]:
        total = int(port.sum(KEY))
        rows = next(rows for rows in count() if rows * (rows + 1) // 2 >= total)
        if rows * (rows + 1) // 2 != total:
            raise Wrong(f"{KEY} adds up to {total}, which is no sum of 1, 2, 3 and so on")
        return _digests(port.slice(range(rows))) if rows else {}

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
        return self._dataset.chunk(part, number, UPDATED) if self._updates(number) else self._dataset.chunk(part)


def _digests(columns: Chunk) -> Mapping[str, Any]:
    return {
        name: blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
        for name, values in columns.items()
    }


WORKLOAD = ArraysWorkload
