"""One trial of the arrays suite: its store, the preparation and the operations of each phase, and its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dyno.contracts.model import Absent, Fact, Phase
from dyno.contracts.suite import Job, Work
from dyno.suites._shared.store import OnStore
from dyno.suites.arrays import APPENDED, conformance
from dyno.suites.arrays.dataset import ROW_BYTES, Dataset
from dyno.suites.arrays.port import NUMERIC
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
        self.load(self._load_missing)
        self._count_missing()
        self.keep_up()

    def _missing(self) -> range:
        """Rows that the phase write did not add, if it was left out or reached its budget."""
        return range(self._model.rows, self._rows)

    def _load_missing(self) -> None:
        if not self._missing() or self._job.spec.floor:
            self._count_missing()
            return
        with self.connect() as port, port.writing(len(self._missing())) as write:
            for _, chunk in self._model.dataset.chunks(self._missing()):
                write(chunk)
                self._model.append(chunk)
        self._written = True

    def _count_missing(self) -> None:
        """Adds the rows of a store that another trial has loaded, or that a null engine doesn't keep."""
        if self._job.spec.floor:
            self._model.reference.count(len(self._missing()))
        for _, chunk in self._model.dataset.chunks(self._missing()):
            self._model.append(chunk)

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        work, cold = ClientWork(self._state, phase.name, port, round), phase.temperature == "cold"
        slices: dict[str, Callable[[], Iterator[Work]]] = {
            "write": lambda: work.appends(range(self._model.rows, self._rows)),
            "read-sum-cold": lambda: work.sums(cold),
            "read-sum-hot": lambda: work.sums(cold),
            "read-sum-pandas-cold": lambda: work.sums(cold, by_frame=True),
            "read-sum-pandas-hot": lambda: work.sums(cold, by_frame=True),
            "read-slice": work.reads,
            "read-column-stats": work.stats,
            "append": lambda: work.appends(
                range(self._model.rows, self._model.rows + -(-self._rows // APPENDED)), self._appends
            ),
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
        if self._job.spec.floor or not phase.writes:
            return 0
        self._written = True
        reference, compared = self._model.reference, 0
        if not reference.rows:
            return 0
        with self.connect() as port:
            for name in NUMERIC:
                compared += reference.check_sum(name, port.sum(name))
            for rows in self._sample(phase.name):
                compared += self._model.check(rows, port.slice(rows))
        return compared

    def _sample(self, phase: str) -> list[range]:
        """Slices to check: the first, the last and some between; or those updated last, with their neighbours."""
        model, length = self._model, self._model.slice_rows
        if phase == "update-slice":
            updated = [model.part(number) for number in list(model.updated)[-CHECKED_UPDATES:]]
            return [range(max(part.start - 1, 0), min(part.stop + 1, model.rows)) for part in updated]
        starts = np.linspace(0, max(model.rows - length, 0), 5).astype(int).tolist()
        return [range(start, min(start + length, model.rows)) for start in starts]

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """The size of the table as arrays, to compare its size on disk with."""
        return {} if self._job.spec.floor else {"array_bytes": self._model.rows * ROW_BYTES}


WORKLOAD = ArraysWorkload
