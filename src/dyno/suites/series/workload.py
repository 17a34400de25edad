"""One trial of the series suite: its archive, what each phase needs before the clock starts, what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase
from dyno.contracts.suite import Job, Reported
from dyno.contracts.suite import Work as Slice
from dyno.host.filesystem import size_on_disk
from dyno.suites._shared.store import OnStore
from dyno.suites.series import conformance, survival, verify
from dyno.suites.series.dataset import ArrivalPattern, Dataset, SyntheticDataset
from dyno.suites.series.facility import SECOND, Facility
from dyno.suites.series.ioc import names as live_names
from dyno.suites.series.port import SAMPLE_BYTES, Series
from dyno.suites.series.samples import Digest
from dyno.suites.series.survival import Survival
from dyno.suites.series.work import ClientWork, Model, TrialState


def dataset(params: Mapping[str, Any], seed: int, place: Path) -> Dataset:
    """What the parameters ask for; `place`: a directory for what it is made of."""
    if params["archive"]:
        # Its library need not be here for others.
        from dyno.suites.series.pb_files import PbDataset

        return PbDataset(Path(str(params["archive"])), place, int(params["batch"]))
    way = ArrivalPattern(*(int(params[name]) for name in ("batch", "late_ppm", "resent_ppm", "corrected_ppm")))
    machine = Facility(seed, int(params["variables"]), int(params["per_half_hour"]))
    return SyntheticDataset(machine, int(params["half_hours"]), way)


class SeriesWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        self._dataset = dataset(params, job.seed, job.home / "dataset")
        self._archive = Model(self._dataset, judged=not job.spec.floor)
        self._work = TrialState(
            archive=self._archive,
            reads=int(params["reads"]),
            window_ns=int(params["window_s"]) * SECOND,
            watched=int(params["watched"]),
            seed=job.seed,
            survival=self._survival(int(params["kill_percent"])),
        )
        self._live: Any = None
        """The run of the phase `live`, once that has begun."""

    def _survival(self, percent: int) -> Survival | None:
        job = self._job
        return Survival(job.server, self._dataset, percent) if percent and not job.spec.floor else None

    # -- the archive ----------------------------------------------------------------------------------------

    def checks(self) -> Mapping[str, Callable[..., None]]:
        return conformance.BRIEF

    def port(self, engine: Engine, *how: Any) -> Any:
        return self._job.port(engine, *how)

    @contextmanager
    def connect(self) -> Iterator[Series]:
        names = self._dataset.names if self._live is None else live_names(int(self._job.params["live_variables"]))
        with closing(self.port(self.engine(), names)) as port:
            yield port

    def prepare(self, phase: Phase) -> None:
        if phase.name == "live":
            self._live = self._begin_live()
            return
        self.begin()
        if phase.name == "insert":
            return
        if self._work.survival is not None:
            raise Absent("is left out where insert loses a node")
        self.load(self._load_missing)
        self._count_missing()
        if self._job.spec.floor:
            return
        with self.connect() as port:
            port.settle()
        self.keep_up()

    def _begin_live(self) -> Any:
        """In a store of its own, in the place of the other: it is the last phase."""
        from dyno.suites.series.live import LiveLoad, LiveRun

        given = (int(self._job.params[f"live_{name}"]) for name in ("variables", "hz", "s", "period_ms"))
        live = LiveRun(self._job.home / "ioc", LiveLoad(*given))
        self.close()
        self.begin("live")
        return live

    @property
    def _whole(self) -> bool:
        return self._archive.samples >= self._dataset.total

    def _load_missing(self) -> None:
        """What the phase insert, ended by its budget or left out, did not bring in."""
        if self._whole:
            return
        if self._job.spec.floor:
            self._count_missing()
            return
        with self.connect() as port:
            for number, arrival in enumerate(self._dataset.arrivals()):
                if number >= self._archive.batches:
                    port.insert(arrival.batch)
                    self._archive.taken(arrival)
        self._written = True

    def _count_missing(self) -> None:
        """Of an archive that was loaded by another trial, or of one that keeps nothing."""
        if self._job.spec.floor:
            self._archive.samples = self._dataset.total
        if not self._whole:
            for arrival in self._dataset.arrivals():
                self._archive.taken(arrival)

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Slice]:
        if self._live is not None:
            return iter([Reported(partial(self._live.run, port), self._live.check)])
        share, cold = ClientWork(self._work, phase.name, port, round), phase.temperature == "cold"
        slices: dict[str, Callable[[], Iterator[Slice]]] = {
            "insert": share.inserting,
            "visible": share.watching,
            "extract-one": lambda: share.ones(cold),
            "extract-window": lambda: share.windows(cold),
            "extract-all": lambda: share.every(cold),
            "latest": lambda: share.lasts(cold),
            "downsample": lambda: share.means(cold),
        }
        return slices[phase.name.removesuffix("-cold").removesuffix("-hot")]()

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        return items * SAMPLE_BYTES if phase.name == "insert" else None

    def verify(self, phase: Phase) -> int:
        """After a phase that writes: every sample, by the digest over all of them."""
        if self._job.spec.floor or not phase.writes:
            return 0
        self._written = True
        if self._live is not None:
            with self.connect() as port:
                return int(self._live.verify(port))
        found = Digest()
        with self.connect() as port:
            if self._work.survival is not None:
                return self._work.survival.verify(survival.read_with_retries(port), self._archive.batches)
            port.settle()
            for piece in port.all():
                verify.add_verified(found, piece)
        return verify.verify_digest(found, self._archive.digest)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """How many samples there are, what of them all engines must agree on, and what each takes on disk."""
        if self._job.spec.floor or self._live is not None:
            return {}
        if self._work.survival is not None:
            return self._work.survival.facts()
        digest = self._archive.digest
        told: dict[str, Fact] = {"samples": digest.count, "digest": f"{digest.total:016x}"}
        if phase.writes and digest.count and (size := size_on_disk(self.engine().files())) is not None:
            told["bytes_per_sample"] = size / digest.count
        return told

    def trial_facts(self) -> Mapping[str, Fact]:
        """Of what was read in place of samples that are made up."""
        left_out = getattr(self._dataset, "left_out", None)
        return {} if left_out is None else {"files_left_out": left_out}
