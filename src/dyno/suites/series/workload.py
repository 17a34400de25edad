"""Trial of the suite `series`, and its transactions for crash tests."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from hashlib import blake2b
from pathlib import Path
from time import perf_counter_ns as now
from time import sleep
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase, Value, Wrong
from dyno.contracts.roles import PayloadWorkload, TrialFactsWorkload
from dyno.contracts.suite import Bulk, Failure, Job, Operations, Reported, Work, check_each
from dyno.host.filesystem import size_on_disk
from dyno.suites._shared.store import OnStore
from dyno.suites.series import VISIBLE, conformance, verify
from dyno.suites.series.dataset import SECOND, Arrival, Dataset, Facility, Model, SyntheticDataset
from dyno.suites.series.ioc import names as live_names
from dyno.suites.series.port import DTYPES, FIELDS, SAMPLE_BYTES, SampleBatch, Samples, Series
from dyno.suites.series.samples import Digest
from dyno.suites.series.verify import Survival

if TYPE_CHECKING:
    from dyno.suites.series.live import LiveRun

MINUTE, DAY = 60 * SECOND, 86_400 * SECOND
POLL_S, PATIENCE_S = 0.001, 60
"""Interval at which a sample is polled until it is readable, and the time after which polling is an error."""


def dataset(params: Mapping[str, Value], seed: int, directory: Path) -> Dataset:
    """Returns the dataset that the parameters select. `directory`: place for its arrays."""
    if params["archive"]:
        # Import here, since only PB files need this library.
        from dyno.suites.series.pb_files import PbDataset

        return PbDataset(Path(str(params["archive"])), directory, int(params["batch"]))
    pattern = (int(params[name]) for name in ("batch", "late_ppm", "resent_ppm", "corrected_ppm"))
    facility = Facility(seed, int(params["variables"]), int(params["per_half_hour"]))
    return SyntheticDataset(facility, int(params["half_hours"]), *pattern)


class ClientWork:
    """Work of one phase in one round. The suite has one client."""

    def __init__(
        self,
        model: Model,
        params: Mapping[str, Value],
        seed: int,
        phase: str,
        port: Series,
        round: int,
        survival: Survival | None = None,
    ) -> None:
        self._model = model
        self._dataset = model.dataset
        self._params = params
        self._survival = survival
        self._phase = phase
        self._port = port
        self._round = round
        # The seed depends on neither engine nor trial, so that all of them get the same inputs.
        self._seed = [seed, crc32(phase.encode()), round]

    # -- writes ---------------------------------------------------------------------------------------------

    def insert(self) -> Iterator[Work]:
        """Yields inserts of all batches in the first round."""
        if self._round:
            return
        survival, insert = self._survival, self._port.insert
        for number, arrival in enumerate(self._dataset.arrivals()):
            if number >= self._model.batches:
                call: Callable[[SampleBatch], object] = insert
                if survival:
                    call = survival.call(number, insert)
                yield self._make_insert(call, arrival, weights=[arrival.new])

    def poll_inserts(self) -> Iterator[Work]:
        """Yields inserts of batches after all others. Each is polled until its last sample is readable."""

        def insert_and_poll(batch: SampleBatch) -> tuple[int, int]:
            """Returns the ns until the batch was acknowledged, and further ns until it was readable."""
            pv = int(batch.pv[-1])
            ts = int(batch.ts[-1])
            seen = self._port.seen
            begin = now()
            self._port.insert(batch)
            over = now()
            while not seen(pv, ts):
                if now() - over > PATIENCE_S * SECOND:
                    raise TimeoutError(f"a sample could not be read {PATIENCE_S} s after it was acknowledged")
                sleep(POLL_S)
            return over - begin, now() - over

        def parts(answers: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
            return {name: [answer[at] for answer in answers] for at, name in enumerate(VISIBLE)}

        for arrival in self._dataset.further_batches(int(self._params["watched"])) if not self._round else ():
            yield self._make_insert(insert_and_poll, arrival, parts=parts)

    def _make_insert(self, call: Callable[[SampleBatch], object], arrival: Arrival, **details: Any) -> Operations:
        def acknowledge(answers: Sequence[object]) -> int:
            for answer in answers:
                if type(answer) is Failure and self._survival is not None:
                    # A failure counts as an error. Only acknowledged batches must survive.
                    self._survival.record_failure(self._model.batches)
                elif type(answer) is Failure:
                    raise Wrong(f"batch {self._model.batches} was not inserted: {answer.error}")
                self._model.add(arrival)
            return 0

        return Operations(lambda _: (call,), [arrival.batch], acknowledge, **details)

    # -- reads ----------------------------------------------------------------------------------------------

    def extract_one(self, cold: bool) -> Iterator[Work]:
        for pv in self._variables(cold):
            right, name = self._dataset.one(pv), self._dataset.names[pv]
            yield self._read(self._port.one, (pv,), right, partial(verify.verify_samples, name, right=right))

    def extract_window(self, cold: bool) -> Iterator[Work]:
        """Yields reads of windows, which start at random whole seconds and end before the data does."""
        dataset, length = self._dataset, int(self._params["window_s"]) * SECOND
        span = max((dataset.end - dataset.start - length) // SECOND, 0)
        rng = np.random.default_rng([*self._seed, 1])
        for pv in self._variables(cold):
            start = dataset.start + int(rng.integers(0, span, endpoint=True)) * SECOND
            right = _samples_between(dataset.one(pv), start, start + length)
            check = partial(verify.verify_samples, f"a window of {dataset.names[pv]}", right=right)
            yield self._read(self._port.window, (pv, start, start + length), right, check)

    def downsample(self, cold: bool) -> Iterator[Work]:
        dataset = self._dataset
        start = max(dataset.end - DAY, dataset.start)
        for pv in self._variables(cold):
            right = _samples_between(dataset.one(pv), start, dataset.end)
            check = partial(verify.verify_buckets, f"minutes of {dataset.names[pv]}", samples=right, bucket=MINUTE)
            yield self._read(self._port.downsample, (pv, start, dataset.end, MINUTE), None, check)

    def latest(self, cold: bool) -> Iterator[Work]:
        for _ in range(self._count(cold)):
            yield self._read(self._port.latest, (), None, lambda got: verify.verify_latest(got, self._model.latest()))

    def _read(
        self,
        call: Callable[..., object],
        arguments: tuple[object, ...],
        right: Samples | None,
        check: Callable[[object], int],
    ) -> Operations:
        """Returns a read, which counts as many items as `right` has samples, or one if that is None."""
        return Operations(
            calls=lambda _: (lambda given: call(*given),),
            arguments=[arguments],
            check=check_each([arguments], lambda _, answer: check(answer), self._model.judged),
            weights=None if right is None else [len(right.ts)],
        )

    def extract_all(self, cold: bool) -> Iterator[Work]:
        """Yields one call that reads everything. The clock stops while a batch is checked."""
        if not self._count(cold):
            return
        judged = self._model.judged
        digest = Digest()
        count = 0
        waiting = list[SampleBatch]()

        def check_waiting() -> None:
            if judged:
                verify.digest_of(waiting, digest)
            waiting.clear()

        def feed() -> Iterator[tuple[bool]]:
            while True:
                check_waiting()
                yield (True,)

        def read_all(turns: Iterable[object]) -> bool:
            """Reads all samples. Returns whether it finished before the time was over."""
            nonlocal count
            turn = iter(turns)
            for piece in self._port.all():
                count += len(piece.ts)
                waiting.append(piece)
                if next(turn, None) is None:
                    return False
            return True

        def check(finished: bool, taken: int) -> int:
            check_waiting()
            if judged and finished:
                return verify.verify_digest(digest, self._model.digest)
            return 0

        yield Bulk(
            call=read_all,
            feed=feed(),
            items_per_record=1,
            check=check,
            counted=lambda finished, taken: count if judged else self._dataset.total,
        )

    def _count(self, cold: bool) -> int:
        """Returns the number of reads in this round. A cold phase has one read, in the first round."""
        if cold:
            if self._round:
                return 0
            return 1
        return int(self._params["reads"])

    def _variables(self, cold: bool) -> list[int]:
        variables = len(self._dataset.names)
        drawn: list[int] = np.random.default_rng([*self._seed, 0]).integers(0, variables, self._count(cold)).tolist()
        return drawn


def _samples_between(samples: Samples, start: int, end: int) -> Samples:
    first, last = np.searchsorted(samples.ts, [start, end])
    return Samples(*(values[first:last] for values in samples))


class SeriesWorkload(OnStore, PayloadWorkload, TrialFactsWorkload):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._dataset = dataset(job.params, job.seed, job.home / "dataset")
        self._model = Model(self._dataset, judged=not job.spec.floor)
        percent = 0 if job.spec.floor else int(job.params["kill_percent"])
        self._survival = Survival(job.server, self._dataset, percent) if percent else None
        """Set if a node is killed in the middle of `insert`."""
        self._live: LiveRun | None = None
        """The `LiveRun` of the phase `live`, once that phase has begun."""

    def port_arguments(self) -> tuple[Sequence[str]]:
        live = self._live is not None
        return (live_names(int(self._job.params["live_variables"])) if live else self._dataset.names,)

    def prepare(self, phase: Phase) -> None:
        if phase.name == "live":
            from dyno.suites.series.live import LiveRun

            params = (self._job.params[f"live_{name}"] for name in ("variables", "hz", "s", "period_ms"))
            self._live = LiveRun(self._job.home / "ioc", *map(int, params))
            # Replace the store by a new one. `live` is the last phase, so the old store is no longer needed.
            self.close()
            self.begin("live")
            return
        self.begin()
        if phase.name == "insert":
            return
        if self._survival is not None:
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
        """Inserts the batches that the phase `insert` left out or did not reach within its budget."""
        if self._model.complete:
            return
        with self.connect() as port:
            for number, arrival in enumerate(self._dataset.arrivals()):
                if number >= self._model.batches:
                    port.insert(arrival.batch)
                    self._model.add(arrival)
        self._written = True

    def work(self, phase: Phase, port: Series, client: int, clients: int, round: int) -> Iterator[Work]:
        if self._live is not None:
            return iter([Reported(partial(self._live.run, port), self._live.check)])
        work = ClientWork(self._model, self._job.params, self._job.seed, phase.name, port, round, self._survival)
        if phase.writes:
            if phase.name == "insert":
                return work.insert()
            return work.poll_inserts()
        reads: dict[str, Callable[[bool], Iterator[Work]]] = {
            "extract-one": work.extract_one,
            "extract-window": work.extract_window,
            "extract-all": work.extract_all,
            "latest": work.latest,
            "downsample": work.downsample,
        }
        return reads[phase.name.rpartition("-")[0]](phase.temperature == "cold")

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if phase.name == "insert":
            return items * SAMPLE_BYTES
        return None

    def verify(self, phase: Phase) -> int:
        """Compares the digest over all samples after a phase that writes."""
        if not phase.writes:
            return 0
        self._written = True
        with self.connect() as port:
            if self._live is not None:
                return int(self._live.verify(port))
            if self._survival is not None:
                return self._survival.verify(verify.read_with_retries(port), self._model.batches)
            port.settle()
            digest = verify.digest_of(port.all())
        return verify.verify_digest(digest, self._model.digest)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Returns number and digest of the samples, the same for all engines, and bytes on disk per
        sample."""
        if self._job.spec.floor or self._live is not None:
            return {}
        if self._survival is not None:
            return self._survival.facts()
        digest = self._model.digest
        facts: dict[str, Fact] = {"samples": digest.count, "digest": f"{digest.total:016x}"}
        if phase.writes and digest.count and (size := size_on_disk(self.engine().files())) is not None:
            facts["bytes_per_sample"] = size / digest.count
        return facts

    def trial_facts(self) -> Mapping[str, Fact]:
        left_out = getattr(self._dataset, "left_out", None)
        if left_out is None:
            return {}
        return {"files_left_out": left_out}


VARIABLES = 40
MAX_WRITES = 4
MAX_SAMPLES = 250
NAMES = [f"crash:{number:02}" for number in range(VARIABLES)]
COUNTER = 0
"""Variable of which every batch has one sample: the number of batches so far."""
START_NS = 1_577_836_800_000_000_000
STEP_NS = 60_000_000_000
APART_NS = 10_000_000
"""Time of the first batch, time between two batches, and time between two samples of a batch."""


class SeriesHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`, by a digest of each variable."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._digests = [blake2b(digest_size=16) for _ in NAMES]
        self._states: list[Mapping[str, bytes]] = [{}]

    def open(self, engine: Engine) -> AbstractContextManager[Series]:
        return closing(self._job.port(engine, NAMES))

    def commit(self, port: Series, number: int) -> None:
        port.insert(self._batch(number))

    def state(self, commits: int) -> Mapping[str, bytes]:
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

    def found(self, port: Series) -> Mapping[str, bytes]:
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


def _bytes(batch: SampleBatch, selected: NDArray[np.bool_]) -> bytes:
    """Returns the bytes of the selected samples, row by row, so that a digest can be continued with later samples."""
    rows = np.empty(int(selected.sum()), [(name, DTYPES[name]) for name in FIELDS[1:]])
    for name, values in zip(FIELDS[1:], batch[1:], strict=True):
        rows[name] = values[selected]
    return rows.tobytes()


WORKLOAD = SeriesWorkload
