"""Trial of the suite `records`: its stores, the preparation of each phase, and the work of each phase."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Caveat, Phase, Wrong
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT, Exchange, NativeCall
from dyno.contracts.suite import Job, Work
from dyno.suites._shared.slots import SLOTS, Slots
from dyno.suites._shared.store import OnStore
from dyno.suites.records import COLD_KEYS, COLD_SCANS, INSERTS, KEYS_PER_RECORD, SCANS, SUITE, conformance
from dyno.suites.records.dataset import ABSENT, Model
from dyno.suites.records.encoding import ENCODERS, NATIVE
from dyno.suites.records.layer import LayeredRecords
from dyno.suites.records.mixed import mixed
from dyno.suites.records.port import INDEXES, PORT, Records
from dyno.suites.records.verify import verify
from dyno.suites.records.work import ClientWork, Slices

LOAD_BATCH = 50_000


@dataclass(frozen=True)
class PhaseWork:
    """Work of one phase. Only this depends on a phase's name."""

    build: Callable[[ClientWork], Slices]
    """Returns a client's operations, in the order of execution."""
    empty: bool = False
    """Whether the phase starts with its own empty store rather than with every record."""
    indexed: bool = True
    once: bool = False
    """Whether further rounds do nothing, since a record is inserted or deleted only once."""
    items_per_stored: int | None = None
    """Number of items that the phase counts for each stored record; None if it stores no records or an unknown
    number."""


def _insert(name: str) -> PhaseWork:
    keys, blind, indexed = KEYS_PER_RECORD[name], "-blind-" in name, name.endswith("-indices")
    build = partial(ClientWork.insert, blind=blind, keys=keys)
    return PhaseWork(build, empty=True, indexed=indexed, once=True, items_per_stored=keys)


PHASE_WORK: Mapping[str, PhaseWork] = MappingProxyType(
    {
        **{name: _insert(name) for name in INSERTS},
        "rand-key": PhaseWork(ClientWork.rand_key),
        "rand-index": PhaseWork(ClientWork.rand_index),
        "scan": PhaseWork(partial(ClientWork.scan, fraction=SCANS)),
        "rand-key-cold": PhaseWork(partial(ClientWork.rand_key, fraction=COLD_KEYS)),
        "scan-cold": PhaseWork(partial(ClientWork.scan, fraction=COLD_SCANS)),
        "update": PhaseWork(ClientWork.update, items_per_stored=1),
        "mixed": PhaseWork(mixed),
        "delete": PhaseWork(ClientWork.delete, once=True),
    }
)


def open_port(job: Job, engine: Engine, indexed: bool) -> Records:
    """Returns the engine's `records` port, or the record layer over its `ordered-kv` port."""
    if PORT in job.spec.ports:
        port: Records = job.port(engine, indexed)
        return port
    return LayeredRecords(job.port(engine), ENCODERS[str(job.params["encoder"])], indexed)


class NativeReader:
    """Reader whose operations are native calls, except scans, for which some servers need two requests."""

    def __init__(self, reader: Any, exchange: Exchange) -> None:
        self._reader, self._exchange = reader, exchange
        self.get = NativeCall(reader.get, exchange)
        self.scanner, self.get_many = reader.scanner, reader.get_many

    def finder(self, index: str) -> NativeCall:
        return NativeCall(self._reader.finder(index), self._exchange)


class NativeRecords:
    """Port `records` of a server, with native calls for operations on a single record."""

    def __init__(self, port: Any) -> None:
        self._port, self.exchange = port, port.exchange
        self.close = port.close
        self.insert, self.replace, self.delete = (
            NativeCall(method, self.exchange) for method in (port.insert, port.replace, port.delete)
        )

    @contextmanager
    def reading(self) -> Iterator[NativeReader]:
        with self._port.reading() as reader:
            yield NativeReader(reader, self.exchange)

    def reader(self) -> NativeReader:
        return NativeReader(self._port.reader(), self.exchange)


class RecordsWorkload(OnStore):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._model = Model(job.params, job.clients, job.seed, not job.spec.floor)
        self._dataset = self._model.dataset
        self._indexed = False

    def port(self, engine: Engine, *how: Any) -> Records:
        return open_port(self._job, engine, *how)

    def port_arguments(self) -> tuple[Any, ...]:
        return (self._indexed,)

    def caveats(self) -> Iterable[Caveat]:
        if PORT not in self._job.spec.ports and not NATIVE:
            yield Caveat("python-keys", "keys are packed in Python, as the native module is not built: takes longer")

    def native(self, phase: Phase) -> Callable[[Any], Any] | None:
        native = self._job.options.get(CLIENT) == NATIVE_CLIENT and SUITE.natively(phase.name, self._job.params)
        return NativeRecords if native else None

    def prepare(self, phase: Phase) -> None:
        needs = PHASE_WORK[phase.name]
        if needs.empty:
            self._new_store(phase.name, needs.indexed)
            with self.connect():
                pass
        else:
            if self._store is None or self._indexed != needs.indexed:
                self._new_store("loaded" if needs.indexed else "loaded-noindices", needs.indexed)
                self.load(self._load_missing)
                self._model.versions[: self._dataset.records] = 0
            else:
                self._load_missing()
            self.keep_up()
        self._written |= phase.writes

    def _new_store(self, name: str, indexed: bool) -> None:
        self.close()
        self._indexed = indexed
        self.begin(name)
        self._model.clear()

    def _load_missing(self) -> None:
        """Inserts the records that an earlier phase deleted, or did not insert within its budget."""
        missing = np.flatnonzero(self._model.versions[: self._dataset.records] == ABSENT)
        self._written |= len(missing) > 0
        with self.connect() as port:
            for start in range(0, len(missing), LOAD_BATCH):
                batch = missing[start : start + LOAD_BATCH].tolist()
                port.insert([self._dataset.record(number) for number in batch])
                self._model.versions[batch] = 0

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        phase_work = PHASE_WORK[phase.name]
        if phase_work.once and round > 0:
            return iter(())
        return phase_work.build(ClientWork(self._model, phase.name, port, client, clients, round))

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """Returns the number of characters in the records' strings, which are ASCII; None for a mix, since it writes
        an unknown number of records."""
        per_record = PHASE_WORK[phase.name].items_per_stored
        return None if per_record is None else round(items // per_record * self._dataset.mean_record_bytes)

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        with self.connect() as port:
            return verify(self._model, port, phase.name, self._indexed)


class RecordsHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`. A slot is a record; its value is
    the stub."""

    def __init__(self, job: Job) -> None:
        single = any(gap.check == "atomicity" for gap in job.spec.gaps)
        self._job, self._slots = job, Slots(job.seed, single)

    def open(self, engine: Engine) -> AbstractContextManager[Records]:
        return closing(open_port(self._job, engine, True))

    def commit(self, port: Records, number: int) -> None:
        writes = self._slots.writes(number)
        if None in writes.values():
            port.delete([(slot, slot.upper()) for slot in writes])
        else:
            port.replace(
                [{"name": slot, "location": slot.upper(), "stub": str(value)} for slot, value in writes.items()]
            )

    def state(self, commits: int) -> Mapping[str, Any]:
        return self._slots.state(commits)

    def found(self, port: Records) -> Mapping[str, Any]:
        with port.reading() as reader:
            records = reader.scanner(2 * SLOTS)(("", ""))
            for record in records:
                if reader.get((record["name"], record["location"])) != record:
                    raise Wrong(f"{record['name']}: the scan and a lookup by key differ")
                for index, function in INDEXES.items():
                    if reader.finder(index)(function(record)) != record:
                        raise Wrong(f"{record['name']}: the scan and a lookup by {index} differ")
        return {record["name"]: record["stub"] for record in records}


WORKLOAD = RecordsWorkload
