"""Tests the work of the records suite: every engine gets the same operations in the same order; clients divide them
without gap or overlap; further rounds have other operations, or none; real stores answer everything correctly with
any mix, transaction size and number of clients; and a single wrong, stale, missing or surplus answer voids any
phase."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Phase, Tier, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Bulk, Job, Operations, Work
from dyno.measure.clients import run_phase
from dyno.measure.driver import measure
from dyno.measure.tally import Tally
from dyno.measure.warm_up import WARM
from dyno.suites.records import KEYS_PER_RECORD, KINDS, PARAMS, PHASES, SCAN_LENGTH, YCSB, mix_of
from dyno.suites.records.dataset import Dataset
from dyno.suites.records.port import VERSION_DIGITS, Key, Reader, Record, Records
from dyno.suites.records.workload import RecordsWorkload

ONCE = Pace()
"""Pace of a single round, however long it takes."""
SEED = 11
TXNS = (1, 7, "all")
BY_NAME = {phase.name: phase for phase in PHASES}
INSERTS = tuple(KEYS_PER_RECORD)
LOOKING_INSERTS = tuple(name for name in INSERTS if "-noblind-" in name)

every_txn = pytest.mark.parametrize("txn", TXNS)
ALL_KINDS = "get:30+scan:15+update:20+modify:15+insert:20"
MIXES = (*YCSB, ALL_KINDS)
every_mix = pytest.mark.parametrize("mix", MIXES)


def inserts(mix: str) -> bool:
    return "insert" in mix_of(mix).percent


@pytest.fixture(scope="module", autouse=True)
def little_to_collect() -> Iterator[None]:
    """Each measurement starts with a garbage collection. Frozen, the garbage of earlier tests is not collected
    again."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def of(engine: str) -> EngineSpec:
    """Returns the spec of an engine through its port of this suite."""
    spec = registry.reduce_to_suite(registry.suite("records"), registry.engine(engine))
    assert spec is not None
    return spec


def workload(
    home: Path, engine: str = "memory", tier: Tier = Tier.VOLATILE, clients: int = 1, **given: Any
) -> RecordsWorkload:
    spec = of(engine)
    defaults = {setting.name: setting.default for setting in PARAMS}
    params = {**defaults, "records": 60, "value_size": 20, **given}
    home.mkdir(parents=True, exist_ok=True)
    return RecordsWorkload(Job(spec, home, tier, spec.resolve({}), params, SEED, clients))


Stream = list[tuple[str, Any]]
"""Operations: 'operation' or 'item', and the argument."""


def noting(slices: Iterable[Work], stream: Stream) -> Iterator[Work]:
    """Yields the same slices; appends their arguments to `stream` when they are consumed."""

    def note(feed: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        for items in feed:
            stream.extend(("item", item) for item in items)
            yield items

    for work in slices:
        if isinstance(work, Bulk):
            yield replace(work, feed=note(work.feed))
        else:
            assert isinstance(work, Operations)
            stream.extend(("operation", argument) for argument in work.arguments)
            yield work


def measured(whole: RecordsWorkload, phase: Phase, port: Any, clients: int = 1) -> Tally:
    """Measures the first client's share of a phase through `port`."""
    return measure(lambda number: whole.work(phase, port, 0, clients, number), ONCE, lambda: None)


def stream_of(whole: RecordsWorkload, phase: Phase, client: int = 0, clients: int = 1, number: int = 0) -> Stream:
    """Runs one client's share of a phase in one round, and returns its operations."""
    whole.prepare(phase)
    stream: Stream = []
    with whole.connect() as port:
        done = noting(whole.work(phase, port, client, clients, number), stream)
        tally = measure(lambda _: done, ONCE, lambda: None)
    assert (tally.void, tally.errors, tally.ended_by) == (None, 0, "count")
    return stream


# -- the same work ----------------------------------------------------------------------------------------


@pytest.mark.claim("All engines get the same inputs in the same order")
@every_txn
def test_engines_get_same_operations_in_every_phase(txn: Any, tmp_path: Path) -> None:
    memory, sqlite = (workload(tmp_path / name, name, txn=txn) for name in ("memory", "sqlite"))
    for phase in PHASES:
        one, other = stream_of(memory, phase), stream_of(sqlite, phase)
        assert one == other, phase.name
        assert len(one) > 0
    memory.close()
    sqlite.close()


@every_mix
def test_engines_get_same_operations_in_every_mix(mix: str, tmp_path: Path) -> None:
    one, other = (
        stream_of(workload(tmp_path / name, name, mix=mix, records=400), BY_NAME["mixed"])
        for name in ("memory", "sqlite")
    )
    assert one == other


def test_operations_do_not_depend_on_earlier_phases(tmp_path: Path) -> None:
    after_all = workload(tmp_path / "a")
    for phase in PHASES:
        last = stream_of(after_all, phase)
    assert last == stream_of(workload(tmp_path / "b"), PHASES[-1])


def test_another_seed_has_other_operations(tmp_path: Path) -> None:
    spec = of("memory")
    params = {setting.name: setting.default for setting in PARAMS} | {"records": 60}
    one, other = (
        RecordsWorkload(Job(spec, tmp_path / str(seed), Tier.VOLATILE, {}, params, seed, 1)) for seed in (1, 2)
    )
    assert stream_of(one, BY_NAME["rand-key"]) != stream_of(other, BY_NAME["rand-key"])


@pytest.mark.claim("A batch has the same keys in the same order for all; one wrong answer in it voids the phase")
@every_txn
@pytest.mark.parametrize("clients", [1, 3])
def test_batches_get_the_same_keys_as_single_reads(clients: int, txn: Any, tmp_path: Path) -> None:
    phase = BY_NAME["rand-key"]
    one_by_one, batched = (workload(tmp_path / str(size), txn=txn, batch=size, records=100) for size in (1, 16))
    for client in range(clients):
        keys = [key for _, key in stream_of(one_by_one, phase, client, clients)]
        batches = [batch for _, batch in stream_of(batched, phase, client, clients)]
        assert [key for batch in batches for key in batch] == keys
        assert [len(batch) for batch in batches[:-1]] == [16] * (len(batches) - 1)
        assert 0 < len(batches[-1]) <= 16


@pytest.mark.claim("A batch has the same keys in the same order for all; one wrong answer in it voids the phase")
def test_a_batch_counts_its_keys(tmp_path: Path) -> None:
    whole = workload(tmp_path, batch=16, records=100)
    whole.prepare(BY_NAME["rand-key"])
    with whole.connect() as port:
        tally = measured(whole, BY_NAME["rand-key"], port)
    assert (tally.operations, tally.items, tally.checked) == (7, 100, 100)


# -- upkeep -----------------------------------------------------------------------------------------------


@pytest.mark.claim("A query planner has statistics of a store before the store is read")
@pytest.mark.parametrize(
    ("phases", "kept"),
    [
        ("insert-blind-indices", ""),
        ("rand-key", "rand-key"),
        ("rand-key rand-index scan", "rand-key"),
        ("insert-blind-indices insert-noblind-indices rand-key scan", "rand-key"),
        ("rand-key update mixed delete", "rand-key mixed delete"),
        ("insert-noblind-indices update rand-key", "update rand-key"),
    ],
)
def test_upkeep_runs_once_between_writes_and_use(phases: str, kept: str, tmp_path: Path) -> None:
    whole, done = workload(tmp_path), list[str]()
    whole._job = replace(whole._job, spec=replace(whole._job.spec, upkeep=lambda engine: done.append(phase)))
    for phase in phases.split():
        stream_of(whole, BY_NAME[phase])
    assert done == kept.split()


# -- rounds -----------------------------------------------------------------------------------------------

REPEATED = ("rand-key", "rand-index", "scan", "rand-key-cold", "scan-cold", "update")
REPEATED_MIXES = tuple(mix for mix in YCSB if not inserts(mix))
ROUNDS = (0, 1, 2, WARM, WARM + 1)

repeated = pytest.mark.parametrize(
    ("phase", "mix"), [*((name, "a") for name in REPEATED), *(("mixed", mix) for mix in REPEATED_MIXES)]
)


@repeated
@every_txn
def test_further_rounds_have_other_operations_and_right_answers(
    phase: str, mix: str, txn: Any, tmp_path: Path
) -> None:
    whole = workload(tmp_path, mix=mix, txn=txn, records=4_000, operations=300)
    streams = [stream_of(whole, BY_NAME[phase], number=number) for number in ROUNDS]
    assert len({repr(stream) for stream in streams}) == len(ROUNDS)
    assert len({len(stream) for stream in streams}) == 1
    if BY_NAME[phase].writes:
        assert whole.verify(BY_NAME[phase]) > 0
    if phase == "rand-key":
        assert len({frozenset(key for _, key in stream) for stream in streams}) == 1, "every record, in each round"


@pytest.mark.claim(
    "Further rounds have the same inputs for all engines, and a warm-up does not change those of the first"
)
@repeated
def test_warm_up_does_not_change_the_first_round(phase: str, mix: str, tmp_path: Path) -> None:
    """A warm-up, whether short or long, doesn't change the first round, except for the version that a write
    stores."""
    one, other = (workload(tmp_path / name, mix=mix, records=400) for name in "ab")
    for number in (WARM, WARM + 1):
        stream_of(one, BY_NAME[phase], number=number)
    assert keys_of(stream_of(one, BY_NAME[phase])) == keys_of(stream_of(other, BY_NAME[phase]))


def keys_of(stream: Stream) -> list[Any]:
    return [(item["name"], item["location"]) if isinstance(item, dict) else item for item in records_of(stream)]


@pytest.mark.claim(
    "Further rounds have the same inputs for all engines, and a warm-up does not change those of the first"
)
@repeated
def test_engines_get_same_operations_in_further_rounds(phase: str, mix: str, tmp_path: Path) -> None:
    memory, sqlite = (workload(tmp_path / name, name, mix=mix, txn=7, records=200) for name in ("memory", "sqlite"))
    for number in (0, 1, WARM):
        one, other = (stream_of(whole, BY_NAME[phase], number=number) for whole in (memory, sqlite))
        assert one == other
        assert one
    memory.close()
    sqlite.close()


@pytest.mark.parametrize("number", ROUNDS[1:])
@pytest.mark.parametrize(
    ("phase", "mix"), [*((name, "a") for name in (*INSERTS, "delete")), ("mixed", "d"), ("mixed", "e")]
)
def test_phases_that_run_once_have_no_further_rounds(phase: str, mix: str, number: int, tmp_path: Path) -> None:
    whole = workload(tmp_path, "null", mix=mix)
    assert stream_of(whole, BY_NAME[phase])
    assert stream_of(whole, BY_NAME[phase], number=number) == []


# -- sizes of cold phases ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "records", "expected"),
    [
        ("rand-key-cold", 1, 1),
        ("rand-key-cold", 199, 1),
        ("rand-key-cold", 200, 2),
        ("rand-key-cold", 20_000, 200),
        ("scan-cold", 1, 1),
        ("scan-cold", 3_999, 1),
        ("scan-cold", 4_000, 2),
        ("scan-cold", 20_000, 10),
    ],
)
def test_cold_phase_size_is_small_but_positive(phase: str, records: int, expected: int, tmp_path: Path) -> None:
    for clients in (1, 3):
        shares = [share(tmp_path, BY_NAME[phase], client, clients, records=records) for client in range(clients)]
        assert sum(map(len, shares)) == expected
    assert len({key for stream in shares for _, key in stream}) == expected, "each another"


# -- the shares of clients --------------------------------------------------------------------------------


def share(home: Path, phase: Phase, client: int, clients: int, **given: Any) -> Stream:
    """Returns the operations of one client among several, on the null engine, where the others need not run."""
    return stream_of(workload(home / f"{client}-{clients}", "null", clients=clients, **given), phase, client, clients)


def records_of(stream: Stream) -> list[Any]:
    """Returns the records or keys of all transactions, in one list."""
    one_by_one: list[Any] = []
    for kind, argument in stream:
        one_by_one += argument if kind == "operation" and isinstance(argument, list) else [argument]
    return one_by_one


@pytest.mark.claim("Each client writes its own records, and all records are assigned")
@pytest.mark.parametrize("clients", [1, 2, 3, 7])
@every_txn
@pytest.mark.parametrize("phase", [*INSERTS, "rand-key", "delete"])
def test_clients_divide_all_records_exactly(phase: str, txn: Any, clients: int, tmp_path: Path) -> None:
    shares = [records_of(share(tmp_path, BY_NAME[phase], client, clients, txn=txn)) for client in range(clients)]
    dataset = Dataset(60, 0, 20, SEED)
    make: Callable[[int], Any] = dataset.record if phase in INSERTS else dataset.key
    assert Counter(map(str, chain.from_iterable(shares))) == Counter(str(make(number)) for number in range(60))
    for client, part in enumerate(shares):
        assert {str(item) for item in part} == {str(make(number)) for number in range(client, 60, clients)}


@pytest.mark.parametrize("clients", [1, 3])
def test_clients_find_every_record_once_by_either_index(clients: int, tmp_path: Path) -> None:
    values = [
        value.lower()[::-1]
        for client in range(clients)
        for _, value in share(tmp_path, BY_NAME["rand-index"], client, clients)
    ]
    assert sorted(values) == sorted(name.decode() for name in Dataset(60, 0, 20, SEED).names)


@pytest.mark.claim("Each client writes its own records, and all records are assigned")
@pytest.mark.parametrize("operations", [1, 20, 60])
@pytest.mark.parametrize("clients", [1, 2, 7])
@pytest.mark.parametrize("phase", ["update", "delete"])
def test_clients_write_own_records_and_requested_total(
    phase: str, clients: int, operations: int, tmp_path: Path
) -> None:
    dataset, total = Dataset(60, 0, 20, SEED), 0
    owner = {dataset.key(number): number % clients for number in range(60)}
    for client in range(clients):
        written = records_of(share(tmp_path, BY_NAME[phase], client, clients, txn=7, operations=operations))
        total += len(written)
        keys = [(item["name"], item["location"]) if isinstance(item, dict) else item for item in written]
        assert {owner[key] for key in keys} <= {client}
    assert total == operations


@every_mix
@pytest.mark.parametrize("clients", [1, 3])
def test_mix_clients_write_own_records_and_insert_once(mix: str, clients: int, tmp_path: Path) -> None:
    dataset = known_of(mix, 500, clients).dataset
    number = {dataset.key(n): n for n in range(len(dataset.names))}
    total, inserted = 0, Counter[int]()
    for client in range(clients):
        stream = share(tmp_path, BY_NAME["mixed"], client, clients, mix=mix, operations=500)
        total += len(stream)
        for record in records_of([(kind, argument) for kind, argument in stream if isinstance(argument, list)]):
            written = number[record["name"], record["location"]]
            assert written % clients == client
            inserted[written] += written >= 60
    assert total == 500
    assert set(inserted.values()) <= {0, 1}
    assert (inserted.total() > 0) == inserts(mix)


def test_clients_have_different_operations(tmp_path: Path) -> None:
    one, other = (share(tmp_path, BY_NAME["scan"], client, 2, records=2_000) for client in range(2))
    assert one != other and len(one) == len(other) == 50


# -- right answers ----------------------------------------------------------------------------------------


def all_phases(whole: RecordsWorkload, clients: int = 1, how: str = "threads") -> Iterator[tuple[Phase, Tally]]:
    for phase in PHASES:
        whole.prepare(phase)
        tally = run_phase(whole, phase, clients, how, ONCE)
        assert (tally.void, tally.errors, tally.first_error, tally.ended_by) == (None, 0, None, "count"), phase.name
        if phase.writes:
            assert whole.verify(phase) > 0
        yield phase, tally


FEWER = {"scan": 15, "rand-key-cold": 3, "scan-cold": 1}
"""Operations on 300 records, for phases that don't have one per record."""


def everything(whole: RecordsWorkload) -> list[Record]:
    with whole.connect() as port:
        return port.reader().scanner(100_000)(("", ""))


@every_txn
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_every_phase_counts_items_and_has_no_errors(engine: str, txn: Any, tmp_path: Path) -> None:
    whole = workload(tmp_path, engine, txn=txn, records=300)
    expected = [Dataset(300, 0, 20, SEED).record(number) for number in range(300)]
    for phase, tally in all_phases(whole):
        if phase.name in INSERTS:
            assert tally.items == 300 * KEYS_PER_RECORD[phase.name]
            assert everything(whole) == sorted(expected, key=lambda record: record["name"])
            assert tally.checked == (300 if phase.name in LOOKING_INSERTS else 0)
        elif phase.name in FEWER:
            assert tally.items == FEWER[phase.name]
            assert tally.checked >= tally.items * (SCAN_LENGTH // 2 if phase.name == "scan" else 1)
        else:
            assert tally.items == 300
            assert tally.checked >= 300
        bulk = txn == "all" and phase.writes and phase.name != "mixed"
        assert tally.bulk == bulk
        if not bulk:
            per = int(txn) if phase.writes and phase.name != "mixed" else 1
            assert tally.operations == -(-tally.items // KEYS_PER_RECORD.get(phase.name, 1) // per)
    assert everything(whole) == []
    whole.close()


@every_txn
@every_mix
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_every_mix_has_right_answers(engine: str, mix: str, txn: Any, tmp_path: Path) -> None:
    whole = workload(tmp_path, engine, mix=mix, txn=txn, records=200, operations=1_000)
    phase = BY_NAME["mixed"]
    whole.prepare(phase)
    tally = run_phase(whole, phase, 1, "threads", ONCE)
    assert (tally.void, tally.errors, tally.operations, tally.items) == (None, 0, 1_000, 1_000)
    assert tally.checked >= 920
    assert whole.verify(phase) > 0
    grown = len(everything(whole)) - 200
    assert grown == pytest.approx(1_000 * mix_of(mix).percent.get("insert", 0) / 100, rel=0.5)
    whole.close()


@pytest.mark.parametrize("distribution", ["uniform", "zipfian", "latest", "zipfian:0.8", "latest:1", "hotspot:20:80"])
@every_mix
def test_every_mix_runs_with_every_distribution(mix: str, distribution: str, tmp_path: Path) -> None:
    whole = workload(tmp_path, mix=mix, distribution=distribution, records=100, operations=1_000)
    for name in ("update", "mixed"):
        whole.prepare(BY_NAME[name])
        assert run_phase(whole, BY_NAME[name], 1, "threads", ONCE).void is None
        whole.verify(BY_NAME[name])


@every_mix
def test_a_mix_records_latencies_by_kind(mix: str, tmp_path: Path) -> None:
    whole, phase = workload(tmp_path, mix=mix, operations=400), BY_NAME["mixed"]
    whole.prepare(phase)
    tally = run_phase(whole, phase, 1, "threads", ONCE)
    counts = {kind: int(recorder.counts.sum()) for kind, recorder in tally.by_kind.items()}
    assert counts.keys() == mix_of(mix).percent.keys() and sum(counts.values()) == 400
    for kind, percent in mix_of(mix).percent.items():
        assert counts[kind] == pytest.approx(4 * percent, abs=40)


def reads(mix: str) -> float:
    return sum(percent for kind, percent in mix_of(mix).percent.items() if not KINDS[kind]) / 100


def share_of_reads(mix: str, tmp_path: Path) -> float:
    stream = stream_of(workload(tmp_path, mix=mix, records=100, operations=5_000), BY_NAME["mixed"])
    return sum(isinstance(argument, tuple) for _, argument in stream) / len(stream)


@pytest.mark.parametrize(("mix", "reads"), [*((mix, reads(mix)) for mix in MIXES), ("80:20", 0.8)])
def test_a_mix_has_the_stated_fraction_of_reads(mix: str, reads: float, tmp_path: Path) -> None:
    assert share_of_reads(mix, tmp_path) == pytest.approx(reads, abs=0.02)


# -- several clients --------------------------------------------------------------------------------------

SHARED = [("rocksdb", "threads"), ("sqlite", "processes"), ("lmdb", "processes")]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("engine", "how"), SHARED)
@pytest.mark.parametrize("txn", [7, "all"])
def test_two_clients_write_all_records_in_every_phase(engine: str, how: str, txn: Any, tmp_path: Path) -> None:
    spec = of(engine)
    assert spec.clients == how
    if spec.find_missing_modules():
        pytest.skip(spec.remedy)
    whole = workload(tmp_path, engine, Tier.PROCESS, clients=2, txn=txn, records=301)
    expected = sorted((Dataset(301, 0, 20, SEED).record(n) for n in range(301)), key=lambda record: record["name"])
    for phase, tally in all_phases(whole, 2, how):
        if phase.name in INSERTS:
            assert tally.items == 301 * KEYS_PER_RECORD[phase.name]
            assert everything(whole) == expected
    assert everything(whole) == []
    whole.close()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("engine", "how"), SHARED)
@every_mix
def test_two_clients_run_every_mix(engine: str, how: str, mix: str, tmp_path: Path) -> None:
    if registry.engine(engine).find_missing_modules():
        pytest.skip(registry.engine(engine).remedy)
    whole = workload(tmp_path, engine, Tier.PROCESS, clients=2, mix=mix, records=200, operations=600)
    phase = BY_NAME["mixed"]
    whole.prepare(phase)
    tally = run_phase(whole, phase, 2, how, ONCE)
    assert (tally.void, tally.first_error, tally.operations) == (None, None, 600)
    assert whole.verify(phase) > 0
    whole.close()


@pytest.mark.parametrize("mix", "ade")
def test_more_clients_than_records_are_allowed(mix: str, tmp_path: Path) -> None:
    whole = workload(tmp_path, "rocksdb", Tier.PROCESS, clients=3, records=2, mix=mix)
    for _ in all_phases(whole, 3):
        pass


# -- wrong answers ----------------------------------------------------------------------------------------


class Known:
    """The records of a workload by number and by key. Names depend on the number of records, spare ones included."""

    def __init__(self, spare: int = 0) -> None:
        self.dataset = Dataset(60, spare, 20, SEED)
        self.numbers = {self.dataset.key(number): number for number in range(60)}


Lie = Callable[[Any, Known], Any]
"""Changes a right answer; returns None if it can't change this one."""


class Liar:
    """A port that answers correctly, except for one answer of `method`: number `at` of those that the lie can
    change."""

    def __init__(self, port: Records, method: str, lie: Callable[[Any], Any], at: int = 0) -> None:
        self.port, self.method, self.lie, self.left, self.lied = port, method, lie, at, False

    def answer(self, method: str, truth: Any) -> Any:
        if method != self.method or self.lied:
            return truth
        lie = self.lie(truth)
        if lie is None:
            return truth
        self.left -= 1
        self.lied = self.left < 0
        return (None if lie is NOTHING else lie) if self.lied else truth

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self.port.reading() as reader:
            yield LyingReader(reader, self)

    def reader(self) -> Reader:
        return LyingReader(self.port.reader(), self)

    def insert(self, records: Iterable[Record]) -> None:
        self.port.insert(records)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        return list(self.answer("replace", self.port.replace(records)))

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        return list(self.answer("delete", self.port.delete(keys)))

    def close(self) -> None:
        self.port.close()


@dataclass
class LyingReader(Reader):
    reader: Reader
    liar: Liar

    def get(self, key: Key) -> Record | None:
        answer_found: Record | None = self.liar.answer("get", self.reader.get(key))
        return answer_found

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return list(self.liar.answer("get_many", self.reader.get_many(keys)))

    def finder(self, index: str) -> Callable[[str], Record | None]:
        find = self.reader.finder(index)
        return lambda value: self.liar.answer("find", find(value))

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        scan = self.reader.scanner(count)
        return lambda key: list(self.liar.answer("scan", scan(key)))


NOTHING = object()
"""Stands for None as a wrong answer, since a lie that returns None changes nothing."""

STRANGER = {"name": "zzzzzzzzzz", "location": "ZZZZZZZZZZ", "stub": "x" * 20}


def wrong(record: Any, known: Known | None = None) -> Any:
    return record and {**record, "stub": record["stub"][:-1] + "*"}


def stale(record: Any, known: Known) -> Any:
    """Returns the version of a record before its last replacement."""
    number = known.numbers.get((record["name"], record["location"])) if record else None
    version = int(record["stub"][:VERSION_DIGITS]) if record else 0
    return None if version == 0 or number is None else known.dataset.record(number, version - 1)


def another(record: Any, known: Known) -> Any:
    others = (known.dataset.record(number) for number in range(2))
    return record and next(other for other in others if other["name"] != record["name"])


def missing(record: Any, known: Known) -> Any:
    return record and NOTHING


def surplus(record: Any, known: Known) -> Any:
    return None if record else known.dataset.record(0)


def one_of(lie: Lie) -> Lie:
    """Changes one record in a list."""

    def lie_in_list(answers: Any, known: Known) -> Any:
        for at, answer in enumerate(answers):
            lied = lie(answer, known)
            if lied is not None:
                return [*answers[:at], None if lied is NOTHING else lied, *answers[at + 1 :]]
        return None

    return lie_in_list


def without(at: int) -> Lie:
    return lambda answers, _: [*answers[:at], *answers[at + 1 :]] if len(answers) > at else None


def with_more(more: Any) -> Lie:
    return lambda answers, _: [*answers, more]


def without_the_last(answers: Any, known: Known) -> Any:
    return answers[:-1] if answers else None


def empty(answers: Any, known: Known) -> Any:
    return [] if answers else None


def with_a_double(answers: Any, known: Known) -> Any:
    return [answers[0], *answers] if answers else None


def with_one_from_before(answers: Any, known: Known) -> Any:
    """Adds a record that exists, but comes before the start of the scan."""
    first = min((known.dataset.record(number) for number in range(60)), key=lambda record: record["name"])
    return [first, *answers] if answers and answers[0]["name"] > first["name"] else None


def out_of_order(answers: Any, known: Known) -> Any:
    return [answers[1], answers[0], *answers[2:]] if len(answers) > 1 else None


def other_way(answers: Any, known: Known) -> Any:
    return [not answers[0], *answers[1:]]


RECORD_LIES: list[Lie] = [wrong, stale, another, missing]
LISTS: dict[str, Lie] = {
    "wrong": one_of(wrong),
    "stale": one_of(stale),
    "missing": without(1),
    "first missing": without(0),
    "last missing": without_the_last,
    "none": empty,
    "surplus": with_more(STRANGER),
    "double": with_a_double,
    "one from before": with_one_from_before,
    "out of order": out_of_order,
}
OLDS: dict[str, Lie] = {
    "wrong": one_of(wrong),
    "stale": one_of(stale),
    "no old value": one_of(missing),
    "missing": without(0),
    "surplus": with_more(None),
}

CASES: list[tuple[str, str, str, Lie]] = [
    *(("rand-key", "get", lie.__name__, lie) for lie in RECORD_LIES),
    *(("rand-index", "find", lie.__name__, lie) for lie in RECORD_LIES),
    *(("scan", "scan", name, lie) for name, lie in LISTS.items()),
    *(("update", "replace", name, lie) for name, lie in OLDS.items()),
    *((name, "replace", "surplus", one_of(surplus)) for name in LOOKING_INSERTS),
    *((name, "replace", "missing", without(0)) for name in LOOKING_INSERTS),
    *(("delete", "delete", name, lie) for name, lie in (("not there", other_way), ("missing", without(0)))),
    ("delete", "delete", "surplus", with_more(True)),
]


def lied_to(
    whole: RecordsWorkload, known: Known, phase: Phase, method: str, lie: Lie, at: int = 0, clients: int = 1
) -> Tally:
    """Runs the phase with one lie, on a store where many records were replaced before."""
    if not phase.name.startswith("insert-"):
        for _ in range(2):
            stream_of(whole, BY_NAME["update"])
    whole.prepare(phase)
    with whole.connect() as port:
        liar = Liar(port, method, lambda truth: lie(truth, known), at)
        tally = measured(whole, phase, liar, clients)
    assert liar.lied, "the lie was never told"
    return tally


@pytest.mark.claim("Every answer of a read is compared with the dataset")
@every_txn
@pytest.mark.parametrize(("phase", "method", "name", "lie"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_one_wrong_answer_voids_the_phase(
    phase: str, method: str, name: str, lie: Lie, txn: Any, tmp_path: Path
) -> None:
    for at in range(2 if txn != "all" or method in ("get", "find", "scan") else 1):
        whole = workload(tmp_path / str(at), txn=txn, distribution="uniform")
        assert lied_to(whole, Known(), BY_NAME[phase], method, lie, at).void


BATCH_LIES: dict[str, Lie] = {**OLDS, "out of order": out_of_order}


@pytest.mark.claim("A batch has the same keys in the same order for all; one wrong answer in it voids the phase")
@every_txn
@pytest.mark.parametrize("lie", BATCH_LIES.values(), ids=BATCH_LIES)
def test_one_wrong_answer_voids_a_batched_phase(lie: Lie, txn: Any, tmp_path: Path) -> None:
    for at in range(2):
        whole = workload(tmp_path / str(at), txn=txn, batch=7, distribution="uniform")
        assert lied_to(whole, Known(), BY_NAME["rand-key"], "get_many", lie, at).void


@pytest.mark.parametrize("lie", [wrong, stale, another, missing])
def test_wrong_answer_to_repeated_read_voids_the_phase(lie: Lie, tmp_path: Path) -> None:
    """The second time an answer is recognized by its hash, which includes the version: a stale answer was right
    once."""
    known, phase = Known(), BY_NAME["rand-key"]
    for at in range(5):
        whole = workload(tmp_path / str(at), distribution="uniform")
        for before in ("update", "rand-key", "update"):
            stream_of(whole, BY_NAME[before])
        with whole.connect() as port:
            liar = Liar(port, "get", lambda truth: lie(truth, known), at)
            assert measured(whole, phase, liar).void
        assert liar.lied


COLD_CASES = [(f"{phase}-cold", *rest) for phase, *rest in CASES if phase in ("rand-key", "scan")]


@pytest.mark.parametrize(("phase", "method", "name", "lie"), COLD_CASES, ids=[f"{c[0]}-{c[2]}" for c in COLD_CASES])
def test_one_wrong_answer_voids_a_cold_phase(phase: str, method: str, name: str, lie: Lie, tmp_path: Path) -> None:
    # With so few records the phase has one operation.
    whole = workload(tmp_path, distribution="uniform")
    assert lied_to(whole, Known(), BY_NAME[phase], method, lie).void


MIXED_CASES: list[tuple[str, str, str, Lie]] = [
    *((mix, "get", lie.__name__, lie) for mix in "abcdf" for lie in RECORD_LIES),
    *((mix, "replace", name, lie) for mix in "abf" for name, lie in OLDS.items()),
    *(("e", "scan", name, lie) for name, lie in LISTS.items()),
    *((ALL_KINDS, "scan", name, lie) for name, lie in LISTS.items()),
    (ALL_KINDS, "replace", "stale", one_of(stale)),
]


@pytest.mark.parametrize(
    ("mix", "method", "lie"),
    [pytest.param(mix, method, lie, id=f"{mix}-{method}-{name}") for mix, method, name, lie in MIXED_CASES],
)
def test_one_wrong_answer_voids_a_mix(mix: str, method: str, lie: Lie, tmp_path: Path) -> None:
    # The lie is at several positions, so that in mix f both kinds of reads, alone and before a write, are changed.
    for at in (0, 1, 3):
        whole = workload(tmp_path / str(at), mix=mix, operations=150, distribution="uniform")
        assert lied_to(whole, known_of(mix, 150, 1), BY_NAME["mixed"], method, lie, at).void


def known_of(mix: str, operations: int, clients: int) -> Known:
    return Known(operations + clients if inserts(mix) else 0)


SHARED_CASES: list[tuple[str, str, str, Lie]] = [
    *(("a", "get", lie.__name__, lie) for lie in RECORD_LIES),
    *((mix, "scan", name, LISTS[name]) for name in LISTS for mix in ("e", ALL_KINDS)),
]


@pytest.mark.parametrize(
    ("mix", "method", "lie"),
    [pytest.param(mix, method, lie, id=f"{mix}-{method}-{name}") for mix, method, name, lie in SHARED_CASES],
)
def test_one_wrong_answer_voids_a_multi_client_mix(mix: str, method: str, lie: Lie, tmp_path: Path) -> None:
    # Client 0 of 2 runs while the other is idle. Half of its reads are of the other client's records.
    for at in range(4):
        home = tmp_path / str(at)
        whole = workload(home, clients=2, mix=mix, operations=500, distribution="uniform")
        assert lied_to(whole, known_of(mix, 500, 2), BY_NAME["mixed"], method, lie, at, clients=2).void


def without_a_new_one(answers: Any, known: Known) -> Any:
    new = [answer for answer in answers if (answer["name"], answer["location"]) not in known.numbers]
    return [answer for answer in answers if answer != new[0]] if new else None


def with_a_stale_own(answers: Any, known: Known) -> Any:
    own = [answer for answer in answers if known.numbers[answer["name"], answer["location"]] % 2 == 0]
    return next(([old if one == new else one for one in answers] for new in own if (old := stale(new, known))), None)


@pytest.mark.claim("With several clients, a scan must have the client's own writes of a moment ago")
@pytest.mark.parametrize(
    ("mix", "lie"), [("scan:5+insert:95", without_a_new_one), ("scan:5+update:95", with_a_stale_own)]
)
def test_scan_lacking_own_latest_writes_voids_a_mix(mix: str, lie: Lie, tmp_path: Path) -> None:
    # All operations are in one slice, so that the writes are newer than the versions known before it.
    for at in range(4):
        whole = workload(tmp_path / str(at), clients=2, mix=mix, operations=200)
        assert lied_to(whole, known_of(mix, 200, 2), BY_NAME["mixed"], "scan", lie, at, clients=2).void


@pytest.mark.parametrize(("mix", "lengths"), [("e", {100}), ("scan:100", set(range(1, 101)))])
def test_mix_scans_have_up_to_100_records(mix: str, lengths: set[int], tmp_path: Path) -> None:
    whole, phase, counts = workload(tmp_path, "null", mix=mix, operations=2_000), BY_NAME["mixed"], list[int]()
    whole.prepare(phase)
    with whole.connect() as port:
        port.scanner = lambda count: lambda key: counts.append(count)
        for each in whole.work(phase, port, 0, 1, 0):
            assert isinstance(each, Operations)
            for call, argument in zip(each.calls(None), each.arguments, strict=True):
                call(argument)
    assert set(counts) == lengths
    assert mix == "e" or chisquare(np.bincount(counts)[1:]).pvalue > 0.001


def test_latest_reads_follow_inserts(tmp_path: Path) -> None:
    records, mix = 200, "get:50+insert:50"
    whole = workload(tmp_path, mix=mix, distribution="latest:0.99", records=records, operations=1_000)
    number = {whole._dataset.key(n): n for n in range(records + 1_001)}
    newest, ages, numbers = records - 1, list[int](), list[int]()
    for _, argument in stream_of(whole, BY_NAME["mixed"]):
        if isinstance(argument, list):
            newest += 1
            assert number[argument[0]["name"], argument[0]["location"]] == newest
        else:
            numbers.append(number[argument])
            ages.append(newest - number[argument])
    assert min(ages) == 0 and np.median(ages) < 30
    assert np.mean(np.array(numbers[-300:]) >= records) > 0.9


def test_scan_starting_too_early_voids_multi_client_mix(tmp_path: Path) -> None:
    whole, phase, known = (
        workload(tmp_path, clients=2, mix="e", operations=500),
        BY_NAME["mixed"],
        known_of("e", 500, 2),
    )
    whole.prepare(phase)
    with whole.connect() as port:
        liar = Liar(port, "scan", lambda truth: with_one_from_before(truth, known))
        assert measured(whole, phase, liar, clients=2).void


# -- wrong stores -----------------------------------------------------------------------------------------


class Careless(Liar):
    """A port that answers correctly, but doesn't store what it acknowledges."""

    def __init__(self, port: Records, damage: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__(port, "none", lambda _: None)
        self.damage, self.done = damage, False

    def damaged(self, items: Iterable[Any]) -> list[Any]:
        whole = list(items)
        if self.done:
            return whole
        self.done = True
        return self.damage(whole)

    def insert(self, records: Iterable[Record]) -> None:
        self.port.insert(self.damaged(records))

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        news = list(records)
        with self.port.reading() as reader:
            latest = {(new["name"], new["location"]): reader.get((new["name"], new["location"])) for new in news}
        olds = []
        for new in news:
            key = new["name"], new["location"]
            olds.append(latest[key])
            latest[key] = new
        self.port.replace(self.damaged(news))
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        keys = list(keys)
        self.port.delete(self.damaged(keys))
        return [True] * len(keys)


DAMAGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "missing": lambda items: items[:-1],
    "wrong": lambda items: [*items[:-1], wrong(items[-1])],
    "surplus": lambda items: [*items, STRANGER],
}


@pytest.mark.claim("A store that does not hold what was written is detected")
@every_txn
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("phase", [*INSERTS, "update"])
def test_store_that_differs_from_writes_fails_verification(phase: str, damage: str, txn: Any, tmp_path: Path) -> None:
    # With few updates, no later update notices the damage before the phase is over.
    whole = workload(tmp_path, txn=txn, distribution="uniform", operations=3 if phase == "update" else "all")
    whole.prepare(BY_NAME[phase])
    with whole.connect() as port:
        tally = measured(whole, BY_NAME[phase], Careless(port, DAMAGES[damage]))
    assert tally.void is None
    with pytest.raises(Wrong, match=rf"^after {phase}"):
        whole.verify(BY_NAME[phase])


@every_txn
def test_undeleted_record_fails_verification(txn: Any, tmp_path: Path) -> None:
    whole, phase = workload(tmp_path, txn=txn), BY_NAME["delete"]
    whole.prepare(phase)
    with whole.connect() as port:
        tally = measured(whole, phase, Careless(port, DAMAGES["missing"]))
    assert tally.void is None
    with pytest.raises(Wrong, match=r"^after delete"):
        whole.verify(phase)


@pytest.mark.claim("A store that does not hold what was written is detected")
@pytest.mark.parametrize("letter", [b"n", b"l"], ids=["rev_name", "rev_location"])
def test_missing_index_entry_fails_verification(letter: bytes, tmp_path: Path) -> None:
    whole, phase = workload(tmp_path), BY_NAME["insert-blind-indices"]
    stream_of(whole, phase)
    assert whole.verify(phase) > 0
    entries: Any = whole.engine()
    lost = next(entry for entry in entries.store if entry.startswith(letter))
    del entries.store[lost]
    with pytest.raises(Wrong, match=r"^after insert-blind-indices the store holds None"):
        whole.verify(phase)


@pytest.mark.parametrize("place", [0, 1, 998, 999, 1_000, 1_001, 1_999, 2_000, 2_499])
@pytest.mark.parametrize("damage", ["missing", "surplus"])
def test_one_missing_or_surplus_record_fails_verification(damage: str, place: int, tmp_path: Path) -> None:
    whole, phase = workload(tmp_path, records=2_500, operations=1), BY_NAME["update"]
    stream_of(whole, phase)
    dataset = Dataset(2_500, 0, 20, SEED)
    name, location = dataset.key(int(dataset.order[place]))
    with whole.connect() as port:
        if damage == "missing":
            assert port.delete([(name, location)]) == [True]
        else:
            port.insert([{"name": name + "a", "location": location + "A", "stub": "x"}])
    with pytest.raises(Wrong, match=r"^after update"):
        whole.verify(phase)


# -- payload ----------------------------------------------------------------------------------------------


def strings(stream: Stream) -> int:
    """Returns the number of bytes of the records' strings."""
    return sum(len(text.encode()) for record in records_of(stream) for text in record.values())


# Mix d has spare names, which only `mixed` writes.
@pytest.mark.claim("Write amplification is relative to what the application stored")
@pytest.mark.parametrize("mix", "ad")
@pytest.mark.parametrize("phase", INSERTS)
def test_insert_payload_equals_the_written_bytes(phase: str, mix: str, tmp_path: Path) -> None:
    whole = workload(tmp_path, mix=mix, records=7, value_size=33)
    written = strings(stream_of(whole, BY_NAME[phase]))
    assert 7 * (33 + 2 * 8) < written < 7 * (33 + 2 * 12)
    assert whole.payload_bytes(BY_NAME[phase], 7 * KEYS_PER_RECORD[phase]) == written


@pytest.mark.claim("Write amplification is relative to what the application stored")
def test_update_payload_approximates_the_written_bytes(tmp_path: Path) -> None:
    whole, phase = workload(tmp_path, records=500, value_size=150), BY_NAME["update"]
    stream = stream_of(whole, phase)
    assert len(stream) == 500
    assert whole.payload_bytes(phase, 500) == pytest.approx(strings(stream), rel=2 / 170)


@pytest.mark.parametrize("phase", [phase.name for phase in PHASES if phase.name not in (*INSERTS, "update")])
def test_payload_of_reads_mixes_and_deletes_is_unknown(phase: str, tmp_path: Path) -> None:
    assert workload(tmp_path).payload_bytes(BY_NAME[phase], 60) is None


# -- errors -----------------------------------------------------------------------------------------------


class Flaky(Liar):
    """A port whose transaction number `at` raises and stores nothing."""

    def __init__(self, port: Records, at: int) -> None:
        super().__init__(port, "none", lambda _: None)
        self.at = at

    def fail(self) -> None:
        self.at -= 1
        if self.at == -1:
            raise TimeoutError("busy")

    def insert(self, records: Iterable[Record]) -> None:
        self.fail()
        super().insert(records)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        self.fail()
        return super().replace(records)

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        self.fail()
        return super().delete(keys)


@pytest.mark.parametrize("txn", [1, 7])
@pytest.mark.parametrize("phase", [*INSERTS, "update", "mixed", "delete"])
def test_failed_transaction_counts_as_error_without_voiding(phase: str, txn: int, tmp_path: Path) -> None:
    whole = workload(tmp_path, txn=txn, mix="a", distribution="zipfian")
    whole.prepare(BY_NAME[phase])
    with whole.connect() as port:
        tally = measured(whole, BY_NAME[phase], Flaky(port, 1))
    assert (tally.errors, tally.first_error) == (1, "TimeoutError: busy")
    assert tally.void is None
    assert whole.verify(BY_NAME[phase]) > 0


@pytest.mark.parametrize("mix", "def")
def test_failed_write_does_not_void_a_mix(mix: str, tmp_path: Path) -> None:
    whole, phase = workload(tmp_path, mix=mix, operations=500), BY_NAME["mixed"]
    whole.prepare(phase)
    with whole.connect() as port:
        tally = measured(whole, phase, Flaky(port, 1))
    assert (tally.errors, tally.void) == (1, None)
    assert whole.verify(phase) > 0


def test_verifying_generates_each_stub_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a few large records, generating each stub again for a hundred draws, by key and by each index, would take
    minutes."""
    phase, generated = BY_NAME["update"], Counter[int]()
    whole = workload(tmp_path, records=8)
    whole.prepare(phase)
    run_phase(whole, phase, 1, "threads", ONCE)
    record = Dataset.record

    def counted(dataset: Dataset, number: int, version: int = 0) -> Record:
        generated[number] += 1
        return record(dataset, number, version)

    monkeypatch.setattr(Dataset, "record", counted)
    # The terms are the walk, the sample by key, the sample by two indexes, and the entries of these indexes.
    assert whole.verify(phase) == 8 + 8 + 2 * 8 + 2 * 8
    assert generated and max(generated.values()) == 1
    whole.close()
