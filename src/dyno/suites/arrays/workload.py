"""One trial of the arrays suite: its store, what each phase needs before the clock starts, what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase
from dyno.contracts.suite import Job
from dyno.contracts.suite import Work as Slice
from dyno.suites._shared.store import OnStore
from dyno.suites.arrays import conformance
from dyno.suites.arrays.dataset import ROW_BYTES, Dataset
from dyno.suites.arrays.params import APPENDED
from dyno.suites.arrays.port import NUMERIC, Arrays
from dyno.suites.arrays.work import CHECKED_UPDATES, UPDATED, ClientWork, Table, Work, bytes_of


class ArraysWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        self._rows = int(params["rows"])
        self._appends = int(params["appends"])
        slice_rows = min(int(params["slice_rows"]), self._rows)
        self._table = Table(Dataset(job.seed), slice_rows, judged=not job.spec.floor)
        self._work = Work(
            table=self._table,
            column=str(params["column"]),
            repeats=int(params["repeats"]),
            slices=int(params["slices"]),
            updates=int(params["updates"]),
            seed=job.seed,
        )

    # -- the store ------------------------------------------------------------------------------------------

    def checks(self) -> Mapping[str, conformance.Check]:
        return conformance.BRIEF

    def port(self, engine: Engine, *how: Any) -> Any:
        return self._job.port(engine)

    @contextmanager
    def connect(self) -> Iterator[Arrays]:
        with closing(self.port(self.engine())) as port:
            yield port

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
        """Rows that the phase write, ended by its budget or left out, did not bring in."""
        return range(self._table.rows, self._rows)

    def _load_missing(self) -> None:
        if not self._missing() or self._job.spec.floor:
            self._count_missing()
            return
        with self.connect() as port, port.writing(len(self._missing())) as write:
            for _, chunk in self._table.dataset.chunks(self._missing()):
                write(chunk)
                self._table.taken(chunk)
        self._written = True

    def _count_missing(self) -> None:
        """Of a store that was loaded by another trial, or of one that keeps nothing."""
        if self._job.spec.floor:
            self._table.reference.count(len(self._missing()))
        for _, chunk in self._table.dataset.chunks(self._missing()):
            self._table.taken(chunk)

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Slice]:
        share, cold = ClientWork(self._work, phase.name, port, round), phase.temperature == "cold"
        slices: dict[str, Callable[[], Iterator[Slice]]] = {
            "write": lambda: share.adding(range(self._table.rows, self._rows)),
            "read-sum-cold": lambda: share.sums(cold),
            "read-sum-hot": lambda: share.sums(cold),
            "read-sum-pandas-cold": lambda: share.frame_sums(cold),
            "read-sum-pandas-hot": lambda: share.frame_sums(cold),
            "read-slice": share.reads,
            "read-column-stats": share.stats,
            "append": lambda: share.adding(
                range(self._table.rows, self._table.rows + -(-self._rows // APPENDED)), self._appends
            ),
            "update-slice": share.updating,
        }
        return slices[phase.name]()

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if not phase.writes:
            return None
        updated = self._table.slice_rows * bytes_of(UPDATED)
        return items * (updated if phase.name == "update-slice" else ROW_BYTES)

    def verify(self, phase: Phase) -> int:
        """After a phase that writes: the sum of every numeric column, and every value of some slices."""
        if self._job.spec.floor or not phase.writes:
            return 0
        self._written = True
        reference, compared = self._table.reference, 0
        if not reference.rows:
            return 0
        with self.connect() as port:
            for name in NUMERIC:
                compared += reference.check_sum(name, port.sum(name))
            for rows in self._sample(phase.name):
                compared += self._table.check(rows, port.slice(rows))
        return compared

    def _sample(self, phase: str) -> list[range]:
        """Of the first rows, of the last and of some between; of those that were updated, with their neighbours."""
        table, length = self._table, self._table.slice_rows
        if phase == "update-slice":
            some = [table.part(number) for number in list(table.updated)[-CHECKED_UPDATES:]]
            return [range(max(part.start - 1, 0), min(part.stop + 1, table.rows)) for part in some]
        starts = np.linspace(0, max(table.rows - length, 0), 5).astype(int).tolist()
        return [range(start, min(start + length, table.rows)) for start in starts]

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """How large the table is as arrays: what its size on disk is to be held against."""
        return {} if self._job.spec.floor else {"array_bytes": self._table.rows * ROW_BYTES}
