"""One trial of the records suite: its stores, what each phase needs before the clock starts, and what must be
true afterwards. The phases' operations are in `work`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Caveat, Phase
from dyno.contracts.suite import Job
from dyno.contracts.suite import Work as Slice
from dyno.suites._shared.store import OnStore
from dyno.suites.records import conformance
from dyno.suites.records.dataset import ABSENT, Dataset
from dyno.suites.records.encoders import ENCODERS
from dyno.suites.records.keys import NATIVE
from dyno.suites.records.layer import LayeredRecords
from dyno.suites.records.params import mix_of
from dyno.suites.records.port import PORT, Records
from dyno.suites.records.recipes import RECIPES
from dyno.suites.records.verify import verify
from dyno.suites.records.work import ClientWork, Work

LOAD_BATCH = 50_000
BRIEF = ("overwrite", "delete", "persistence")
"""The checks before measuring: those that take next to no time."""


def open_port(job: Job, engine: Engine, indexed: bool) -> Records:
    """The engine's `records` port, or the record layer over its `ordered-kv` port."""
    if PORT in job.spec.ports:
        port: Records = job.port(engine, indexed)
        return port
    return LayeredRecords(job.port(engine), ENCODERS[str(job.params["encoder"])], indexed)


class RecordsWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        records, asked = int(params["records"]), params["operations"]
        operations = records if asked == "all" else int(asked)
        mix, distribution = mix_of(str(params["mix"])), str(params["distribution"])
        # Names kept for records that a mix inserts; each client's share is rounded up.
        spare = operations + job.clients if mix.write == "insert" else 0
        self._work = Work(
            dataset=Dataset(records, spare, int(params["value_size"]), job.seed),
            mix=mix,
            distribution=mix.distribution if distribution == "mix" else distribution,
            txn=params["txn"],
            batch=int(params["batch"]),
            operations=operations,
            judged=not job.spec.floor,
        )
        self._dataset, self._model = self._work.dataset, self._work.model
        self._indexed = False

    def checks(self) -> Mapping[str, conformance.Check]:
        return {name: conformance.CHECKS[name] for name in BRIEF}

    def port(self, engine: Engine, *how: Any) -> Records:
        return open_port(self._job, engine, *how)

    @contextmanager
    def connect(self) -> Iterator[Records]:
        with closing(open_port(self._job, self.engine(), self._indexed)) as port:
            yield port

    def caveats(self) -> Iterable[Caveat]:
        if PORT not in self._job.spec.ports and not NATIVE:
            yield Caveat("python-keys", "keys are packed in Python, as the native module is not built: takes longer")

    def prepare(self, phase: Phase) -> None:
        recipe = RECIPES[phase.name]
        if recipe.empty:
            self._new_store(phase.name, recipe.indexed)
            with self.connect():
                pass
        elif self._store is None or self._indexed != recipe.indexed:
            self._new_store("loaded" if recipe.indexed else "loaded-noindices", recipe.indexed)
            self.load(self._load_missing)
            self._model.versions[: self._dataset.records] = 0
        else:
            self._load_missing()
        if not recipe.empty:
            self.keep_up()
        self._written |= phase.writes

    def _new_store(self, name: str, indexed: bool) -> None:
        self.close()
        self._indexed = indexed
        self.begin(name)
        self._model.clear()

    def _load_missing(self) -> None:
        """Brings in what an insert phase, ended by its budget, or an earlier delete left out."""
        base = self._model.versions[: self._dataset.records]
        missing = np.flatnonzero(base == ABSENT)
        self._written |= len(missing) > 0
        with self.connect() as port:
            for start in range(0, len(missing), LOAD_BATCH):
                batch = missing[start : start + LOAD_BATCH].tolist()
                port.insert([self._dataset.record(number) for number in batch])
                self._model.versions[batch] = 0

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Slice]:
        recipe = RECIPES[phase.name]
        if recipe.once and round > 0:
            return iter(())
        return recipe.build(ClientWork(self._work, phase.name, port, client, clients, round))

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """The characters of the records' strings, which are ASCII; of a mix it is not known which were written."""
        stored = RECIPES[phase.name].stored
        return None if stored is None else round(items // stored * self._dataset.mean_record_bytes)

    def verify(self, phase: Phase) -> int:
        if self._job.spec.floor or not phase.writes:
            return 0
        with self.connect() as port:
            return verify(self._work, port, phase.name, self._indexed)
