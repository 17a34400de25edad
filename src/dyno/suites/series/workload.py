"""Trial of the suite `series`: its archive, the operations and facts of each phase, and the transactions of crash
tests."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase
from dyno.contracts.suite import Job, Reported, Work
from dyno.host.filesystem import size_on_disk
from dyno.suites._shared.store import OnStore
from dyno.suites.series import conformance, verify
from dyno.suites.series.dataset import ArrivalPattern, Dataset, Model, SyntheticDataset
from dyno.suites.series.facility import SECOND, Facility
from dyno.suites.series.ioc import names as live_names
from dyno.suites.series.port import DTYPES, FIELDS, SAMPLE_BYTES, SampleBatch, Series
from dyno.suites.series.verify import Survival
from dyno.suites.series.work import ClientWork, TrialState


def dataset(params: Mapping[str, Any], seed: int, directory: Path) -> Dataset:
    """Returns the dataset that the parameters select. `directory`: place for its arrays."""
    if params["archive"]:
        # Import here, since only PB files need this library.
        from dyno.suites.series.pb_files import PbDataset

        return PbDataset(Path(str(params["archive"])), directory, int(params["batch"]))
    pattern = ArrivalPattern(*(int(params[name]) for name in ("batch", "late_ppm", "resent_ppm", "corrected_ppm")))
    facility = Facility(seed, int(params["variables"]), int(params["per_half_hour"]))
    return SyntheticDataset(facility, int(params["half_hours"]), pattern)


class SeriesWorkload(OnStore):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        self._dataset = dataset(params, job.seed, job.home / "dataset")
        self._model = Model(self._dataset, judged=not job.spec.floor)
        percent = int(params["kill_percent"])
        self._state = TrialState(
            model=self._model,
            reads=int(params["reads"]),
            window_ns=int(params["window_s"]) * SECOND,
            watched=int(params["watched"]),
            seed=job.seed,
            survival=Survival(job.server, self._dataset, percent) if percent and not job.spec.floor else None,
        )
        self._live: Any = None
        """The `LiveRun` of the phase `live`, once that phase has begun."""

    # -- the archive ----------------------------------------------------------------------------------------

    def port_arguments(self) -> tuple[Any, ...]:
        live = self._live is not None
        return (live_names(int(self._job.params["live_variables"])) if live else self._dataset.names,)

    def prepare(self, phase: Phase) -> None:
        if phase.name == "live":
            from dyno.suites.series.live import LiveLoad, LiveRun

            params = (self._job.params[f"live_{name}"] for name in ("variables", "hz", "s", "period_ms"))
            self._live = LiveRun(self._job.home / "ioc", LiveLoad(*map(int, params)))
            # Replace the store by a new one. `live` is the last phase, so the old store is no longer needed.
            self.close()
            self.begin("live")
            return
        self.begin()
        if phase.name == "insert":
            return
        if self._state.survival is not None:
            raise Absent("is left out where insert loses a node")
        if self._job.spec.floor:
            self._model.samples = self._dataset.total
            return
        self.load(self._load_missing)
        if not self._model.complete:
            # Another trial has loaded the archive.
            for arrival in self._dataset.arrivals():
                self._model.add(arrival)
        with self.connect() as port:
            port.settle()
        self.keep_up()

    def _load_missing(self) -> None:
        """Inserts the batches that the phase `insert` did not insert because it was left out or reached its
        budget."""
        if self._model.complete:
            return
        with self.connect() as port:
            for number, arrival in enumerate(self._dataset.arrivals()):
                if number >= self._model.batches:
                    port.insert(arrival.batch)
                    self._model.add(arrival)
        self._written = True

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        if self._live is not None:
            return iter([Reported(partial(self._live.run, port), self._live.check)])
        work = ClientWork(self._state, phase.name, port, round)
        if phase.writes:
            return work.insert() if phase.name == "insert" else work.visible()
        reads: dict[str, Callable[[bool], Iterator[Work]]] = {
            "extract-one": work.extract_one,
            "extract-window": work.extract_window,
            "extract-all": work.extract_all,
            "latest": work.latest,
            "downsample": work.downsample,
        }
        return reads[phase.name.rpartition("-")[0]](phase.temperature == "cold")

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        return items * SAMPLE_BYTES if phase.name == "insert" else None

    def verify(self, phase: Phase) -> int:
        """Compares the digest over all samples after a phase that writes."""
        if not phase.writes:
            return 0
        self._written = True
        with self.connect() as port:
            if self._live is not None:
                return int(self._live.verify(port))
            if self._state.survival is not None:
                return self._state.survival.verify(verify.read_with_retries(port), self._model.batches)
            port.settle()
            digest = verify.digest_of(port.all())
        return verify.verify_digest(digest, self._model.digest)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Returns the number and the digest of the samples, which must be the same for all engines, and bytes on disk
        per sample."""
        if self._job.spec.floor or self._live is not None:
            return {}
        if self._state.survival is not None:
            return self._state.survival.facts()
        digest = self._model.digest
        facts: dict[str, Fact] = {"samples": digest.count, "digest": f"{digest.total:016x}"}
        if phase.writes and digest.count and (size := size_on_disk(self.engine().files())) is not None:
            facts["bytes_per_sample"] = size / digest.count
        return facts

    def trial_facts(self) -> Mapping[str, Fact]:
        left_out = getattr(self._dataset, "left_out", None)
        return {} if left_out is None else {"files_left_out": left_out}


VARIABLES, MAX_WRITES, MAX_SAMPLES = 40, 4, 250
NAMES = [f"crash:{number:02}" for number in range(VARIABLES)]
COUNTER = 0
"""Variable of which every batch has one sample: the number of batches so far."""
START_NS, STEP_NS, APART_NS = 1_577_836_800_000_000_000, 60_000_000_000, 10_000_000
"""Time of the first batch, time between two batches, and time between two samples of a batch."""


class SeriesHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`. A state has a digest of each
    variable's samples by time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._digests = [blake2b(digest_size=16) for _ in NAMES]
        self._states: list[Mapping[str, Any]] = [{}]

    def open(self, engine: Engine) -> AbstractContextManager[Series]:
        return closing(self._job.port(engine, NAMES))

    def commit(self, port: Series, number: int) -> None:
        port.insert(self._batch(number))

    def state(self, commits: int) -> Mapping[str, Any]:
        while len(self._states) <= commits:
            # A batch is later than all previous ones, so its samples come last.
            batch = self._batch(len(self._states) - 1)
            for variable in np.unique(batch.pv).tolist():
                self._digests[variable].update(_bytes(batch, batch.pv == variable))
            written = self._states[-1].keys() | {NAMES[variable] for variable in batch.pv.tolist()}
            self._states.append(
                {n: d.copy().digest() for n, d in zip(NAMES, self._digests, strict=True) if n in written}
            )
        return self._states[commits]

    def found(self, port: Series) -> Mapping[str, Any]:
        port.settle()
        pieces = list(port.all())
        if not pieces:
            return {}
        whole = SampleBatch(*map(np.concatenate, zip(*pieces, strict=True)))
        order = np.lexsort((whole.ts, whole.pv))
        whole = SampleBatch(*(values[order] for values in whole))
        return {
            NAMES[variable]: blake2b(_bytes(whole, whole.pv == variable), digest_size=16).digest()
            for variable in np.unique(whole.pv).tolist()
        }

    def _batch(self, number: int) -> SampleBatch:
        rng = random.Random(f"{self._job.seed} {number}")
        counts = {COUNTER: 1}
        for variable in rng.sample(range(1, VARIABLES), rng.randint(1, MAX_WRITES)):
            counts[variable] = round(MAX_SAMPLES ** rng.random())
        pv = np.repeat(list(counts), list(counts.values()))
        at = np.concatenate([np.arange(count) for count in counts.values()])
        val = np.where(pv == COUNTER, number + 1, [round(rng.uniform(-1e6, 1e6), 3) for _ in pv])
        columns = (pv, START_NS + number * STEP_NS + at * APART_NS, val, pv % 20, pv % 4)
        return SampleBatch(*(np.asarray(values, DTYPES[name]) for name, values in zip(FIELDS, columns, strict=True)))


def _bytes(batch: SampleBatch, selected: Any) -> bytes:
    """Returns the bytes of the selected samples, row by row, so that a digest can be continued with later samples."""
    rows = np.empty(int(selected.sum()), [(name, DTYPES[name]) for name in FIELDS[1:]])
    for name, values in zip(FIELDS[1:], batch[1:], strict=True):
        rows[name] = values[selected]
    return rows.tobytes()


WORKLOAD = SeriesWorkload
