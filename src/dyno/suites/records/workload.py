"""Trial of the suite `records`: its stores, the work of each phase, and the check of a store afterwards."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import monotonic
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.engine import Engine
from dyno.contracts.equality import difference, same, shorten
from dyno.contracts.model import Caveat, Phase, Wrong
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT, Exchange, NativeCall
from dyno.contracts.roles import NativeWorkload, PayloadWorkload
from dyno.contracts.suite import Job, Work
from dyno.suites._shared.slots import SLOTS, Slots
from dyno.suites._shared.store import RemoteStore
from dyno.suites.records import COLD_KEYS, COLD_SCANS, INSERTS, KEYS_PER_RECORD, SCANS, SUITE, conformance
from dyno.suites.records.dataset import ABSENT, Model
from dyno.suites.records.layer import ENCODERS, NATIVE, LayeredRecords, pack
from dyno.suites.records.mixed import mix_operations
from dyno.suites.records.port import INDEXES, PORT, Reader, Record, Records, entries
from dyno.suites.records.work import ClientWork, Slices

SAMPLED, BRIEFLY_SAMPLED = 100, 25
"""Number of records that are looked up after a phase that writes: in a thorough trial, and in others."""
SAMPLE_SECONDS, LEAST_SAMPLED = 5, 5
"""How long, and for how many records at least, a sample is looked up: some engines read everything for each one."""
# Limited, since a log-structured engine may walk over all its tombstones for each absent record.
MAX_ABSENT = 5
MAX_WALKED = 1_000_000
PAGE = 1_000
MAX_PAGE, PAGE_BYTES = 30_000, 4 << 20
"""Number and size of the records that are read at once in key order. Some engines read everything for each scan, and
would need hours for smaller pages."""


def verify(model: Model, port: Records, phase: str, indexed: bool, thorough: bool = True) -> int:
    """Compares a sample of the store, and, if `thorough`, every record and index entry. Returns the number of
    compared answers. Raises Wrong."""
    rng = np.random.default_rng([model.dataset.seed, 99])
    # Drop duplicates: in a store of a few large records, a hundred draws would compare the same records repeatedly.
    drawn = rng.integers(0, len(model.dataset.names), SAMPLED if thorough else BRIEFLY_SAMPLED)
    numbers = rng.permutation(np.unique(drawn)).tolist()
    with port.reading() as reader:
        compared = 0
        if thorough:
            # Compare whole records first, so that the records of the sample below are recognized by their hashes.
            compared += _walk(model, reader, phase)
        for number in _in_time(numbers):
            _expect(model, phase, number, reader.get(model.dataset.key(number)))
            compared += 1
        if indexed:
            # Look up the sample by each index: the present records, and a few that must be absent.
            absent = [number for number in numbers if model.versions[number] == ABSENT]
            searched = [number for number in numbers if number not in absent[MAX_ABSENT:]]
            for index, function in INDEXES.items():
                find = reader.finder(index)
                for number in _in_time(searched):
                    _expect(model, phase, number, find(function(_stubless(model, number))))
                    compared += 1
            if thorough:
                compared += _entries(model, reader, phase)
    return compared


def _in_time(numbers: Iterable[int]) -> Iterator[int]:
    """Yields the numbers for SAMPLE_SECONDS, and LEAST_SAMPLED of them however long it takes."""
    end = monotonic() + SAMPLE_SECONDS
    for at, number in enumerate(numbers):
        if at >= LEAST_SAMPLED and monotonic() > end:
            return
        yield number


def _entries(model: Model, reader: Reader, phase: str) -> int:
    """Compares the first million entries of each index that is stored beside the records. Each record must have one
    entry. A lookup can't find an entry left over from a deleted record, since the record itself is gone."""
    dataset = model.dataset
    versions = model.versions
    compared = 0
    present = min(int((versions != ABSENT).sum()), MAX_WALKED)
    for index, function in INDEXES.items():
        stored = entries(reader, index)
        if stored is None:
            continue
        count = 0
        last = b""
        limited = islice(stored, MAX_WALKED)
        while chunk := list(islice(limited, PAGE)):
            names = np.array([_name(entry) for entry in chunk], dtype=dataset.names.dtype)
            ranks = np.minimum(np.searchsorted(dataset.in_order, names), len(dataset.order) - 1)
            for entry, number in zip(chunk, dataset.order[ranks].tolist(), strict=True):
                right = pack(b"", (function(_stubless(model, number)), *dataset.key(number)))
                if versions[number] == ABSENT or not same(entry, right) or entry <= last:
                    raise Wrong(f"after {phase}, index {index} has an entry of no record: {shorten(entry)}")
                last = entry
            count += len(chunk)
        if count != present:
            raise Wrong(f"after {phase}, index {index} has {count:,} entries, expected {present:,}")
        compared += count
    return compared


def _name(entry: object) -> bytes:
    """Returns the name in an index entry; empty for a malformed entry."""
    if type(entry) is bytes:
        parts: list[bytes] = entry.split(b"\0")
    else:
        parts = []
    if len(parts) > 1:
        return parts[1]
    return b""


def _stubless(model: Model, number: int) -> Record:
    """Returns the indexed fields of a record. A large stub takes long to generate and isn't indexed."""
    name, location = model.dataset.key(number)
    return {"name": name, "location": location, "stub": ""}


def _walk(model: Model, reader: Reader, phase: str) -> int:
    """Compares the first million records in key order: none may be lost, wrong or surplus."""
    order = model.dataset.order
    present = order[model.versions[order] != ABSENT][:MAX_WALKED].tolist()
    length = min(max(int(PAGE_BYTES / model.dataset.mean_record_bytes), 2), MAX_PAGE)
    scan = reader.scanner(length)
    start = ("", "")
    overlap = 0
    walked = 0
    more = True

    def out_of_place(got: object, expected: object) -> Wrong:
        return Wrong(f"after {phase}, record {walked:,} in key order: {difference(got, expected)}")

    while more and walked < MAX_WALKED:
        page = scan(start)
        more = len(page) == length
        # A scan includes the key that it starts from.
        records = page[overlap:][: MAX_WALKED - walked]
        numbers = present[walked : walked + len(records)]
        for number, got, right in zip(numbers, records, model.right(numbers, records), strict=False):
            if not right:
                raise out_of_place(got, model.current(number))
            walked += 1
        if len(numbers) < len(records):
            raise out_of_place(records[len(numbers)], None)
        if more:
            start = (page[-1]["name"], page[-1]["location"])
            overlap = 1
    if walked < len(present):
        raise out_of_place(None, model.current(present[walked]))
    return walked


def _expect(model: Model, phase: str, number: int, got: object) -> None:
    if not model.right([number], [got])[0]:
        expected = model.current(number)
        raise Wrong(f"after {phase} the store holds {shorten(got)} where {shorten(expected)} was expected")


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
    """Number of items that the phase counts for each stored record; None if unknown or none is stored."""


def _insert(name: str) -> PhaseWork:
    keys = KEYS_PER_RECORD[name]
    blind = "-blind-" in name
    indexed = name.endswith("-indices")
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
        "mixed": PhaseWork(mix_operations),
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

    def __init__(self, reader: Reader, exchange: Exchange) -> None:
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


class RecordsWorkload(RemoteStore, NativeWorkload, PayloadWorkload):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._model = Model(job.params, job.clients, job.seed, not job.spec.floor)
        self._dataset = self._model.dataset
        self._indexed = False

    def port(self, engine: Engine, *how: bool) -> Records:
        return open_port(self._job, engine, *how)

    def port_arguments(self) -> tuple[bool]:
        return (self._indexed,)

    def caveats(self) -> Iterable[Caveat]:
        if PORT not in self._job.spec.ports and not NATIVE:
            yield Caveat("python-keys", "keys are packed in Python, as the native module is not built: takes longer")

    def native_port(self, phase: Phase) -> type[NativeRecords] | None:
        if self._job.options.get(CLIENT) != NATIVE_CLIENT:
            return None
        if SUITE.can_load_natively(phase.name, self._job.params):
            return NativeRecords
        return None

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

    def work(self, phase: Phase, port: Records, client: int, clients: int, round: int) -> Iterator[Work]:
        phase_work = PHASE_WORK[phase.name]
        if phase_work.once and round > 0:
            return iter(())
        return phase_work.build(ClientWork(self._model, phase.name, port, client, clients, round))

    def describe_store(self) -> dict[str, object]:
        versions = zlib.compress(self._model.versions.tobytes(), 1)
        return {**super().describe_store(), "indexed": self._indexed, "versions": versions}

    def join_store(self, state: Any) -> None:
        super().join_store(state)
        self._indexed = state["indexed"]
        self._model.versions[:] = _versions(state)

    def learn_writes(self, before: Any, after: Any) -> None:
        written = _versions(after)
        changed = written != _versions(before)
        self._model.versions[changed] = written[changed]

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """Returns the number of characters of the records, which are ASCII; None if a mix writes some of them."""
        per_record = PHASE_WORK[phase.name].items_per_stored
        if per_record is None:
            return None
        return round(items // per_record * self._dataset.mean_record_bytes)

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        with self.connect() as port:
            return verify(self._model, port, phase.name, self._indexed, self._job.thorough)


def _versions(state: Mapping[str, Any]) -> NDArray[np.int32]:
    return np.frombuffer(zlib.decompress(state["versions"]), dtype=np.int32)


class RecordsHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`. A slot is a record's stub."""

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

    def state(self, commits: int) -> Mapping[str, object]:
        return self._slots.state(commits)

    def found(self, port: Records) -> Mapping[str, object]:
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
