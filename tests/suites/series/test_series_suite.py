"""Tests the series suite: its samples are reproducible, its arrivals add up to the dataset, its digest notices any
loss, and every engine gets the same operations."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dyno import registry
from dyno.contracts.equality import same
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Bulk, Failure, Operations
from dyno.suites.series import SAMPLES, VARIABLES, samples, verify
from dyno.suites.series.dataset import (
    GROUPS,
    HALF_HOUR,
    SECOND,
    START,
    Facility,
    Model,
    SyntheticDataset,
)
from dyno.suites.series.port import SampleBatch, Samples, downsample
from dyno.suites.series.samples import Digest
from dyno.suites.series.workload import MINUTE, ClientWork

WAY = {"batch": 500, "late": 20_000, "resent": 20_000, "corrected": 10_000}


@pytest.fixture(scope="module")
def dataset() -> SyntheticDataset:
    return SyntheticDataset(Facility(1, 40, 200), 3, **WAY)


def every(dataset: SyntheticDataset) -> SampleBatch:
    """Returns all samples that are stored in the end, variable by variable."""
    found = [dataset.one(pv) for pv in range(len(dataset.names))]
    pv = np.repeat(np.arange(len(found), dtype="i4"), [len(each.ts) for each in found])
    return SampleBatch(pv, *(np.concatenate(parts) for parts in zip(*found, strict=True)))


# -- samples ----------------------------------------------------------------------------------------------


def test_full_facility_matches_published_half_hour() -> None:
    assert sum(GROUPS) == VARIABLES and VARIABLES * SAMPLES == 1_777_600
    machine = Facility(1, VARIABLES, SAMPLES)
    groups = [name.split(":")[0] for name in machine.names]
    assert [groups.count(f"G{number}") for number in (1, 2, 3, 4)] == list(GROUPS)
    assert len(set(machine.names)) == VARIABLES and max(map(len, machine.names)) <= 60


def test_sample_is_independent_of_other_computed_samples(dataset: SyntheticDataset) -> None:
    one = dataset.one(7)
    machine = Facility(1, 40, 200)
    ticks = np.array([3, 599, 200, 4])
    part = machine.samples(np.full(4, 7), ticks)
    same_value = one.val[ticks] == part.val
    assert same(part.ts, one.ts[ticks]) and same(part.stat, one.stat[ticks]) and same_value.any()
    assert not same(Facility(2, 40, 200).samples(np.full(4, 7), ticks).val, part.val)


def test_sample_times_stay_in_half_hour_with_gaps(dataset: SyntheticDataset) -> None:
    gaps = 0
    for pv in range(len(dataset.names)):
        ts = dataset.one(pv).ts
        assert (np.diff(ts) > 0).all()
        assert same((ts - START) // HALF_HOUR, np.repeat(np.arange(3), 200))
        gaps += int((np.diff(ts) > 3 * HALF_HOUR // 200).sum())
    assert dataset.start == START and dataset.end == START + 3 * HALF_HOUR and gaps > 5
    assert (every(dataset).ts % 1_000 != 0).mean() > 0.9, "whole nanoseconds"


def test_values_and_alarms_are_plausible(dataset: SyntheticDataset) -> None:
    found = every(dataset)
    assert np.isfinite(found.val).all() and len(np.unique(found.val)) > 1_000
    assert {0, 1, 2, 3} == set(np.unique(found.sevr).tolist())
    assert {0, 3, 4, 9} <= set(np.unique(found.stat).tolist())
    assert same(found.stat == 0, found.sevr == 0) and (found.sevr == 0).mean() > 0.5


# -- arrivals ---------------------------------------------------------------------------------------------


def test_arrivals_add_up_to_the_dataset(dataset: SyntheticDataset) -> None:
    kept: dict[tuple[int, int], tuple[Any, ...]] = {}
    late = again = changed = 0
    latest = 0
    for arrival in dataset.arrivals():
        rows = list(samples.iterate_rows(arrival.batch))
        keys = [(row[0], row[1]) for row in rows]
        assert len(set(keys)) == len(keys), "no batch has one twice"
        old = [key for key in keys if key in kept]
        assert arrival.new == len(keys) - len(old)
        again += len(old)
        changed += sum(kept[row[0], row[1]] != row[2:] for row in rows if (row[0], row[1]) in kept)
        if arrival.replaced is not None:
            replaced = samples.iterate_rows(arrival.replaced)
            assert {(pv, ts): kept[pv, ts] for pv, ts in old} == {(pv, ts): tuple(rest) for pv, ts, *rest in replaced}
        late += sum(ts < latest - 60 * SECOND for _, ts in keys)
        latest = max(latest, *(ts for _, ts in keys))
        kept |= {(row[0], row[1]): row[2:] for row in rows}
    found = every(dataset)
    assert kept == {(row[0], row[1]): row[2:] for row in samples.iterate_rows(found)}
    assert len(kept) == dataset.total and min(late, again, changed) > 50 and changed < again


def test_model_tracks_digest_and_latest_samples(dataset: SyntheticDataset) -> None:
    archive, right = Model(dataset), Digest()
    for arrival in dataset.arrivals():
        archive.add(arrival)
    found = every(dataset)
    right.add(found)
    assert archive.digest == right and archive.samples == dataset.total
    last = np.append(found.pv[1:] != found.pv[:-1], True)
    verify.verify_latest(archive.latest(), SampleBatch(*(values[last] for values in found)))


def test_plain_pattern_has_no_late_or_repeated_samples() -> None:
    plain = SyntheticDataset(Facility(1, 40, 50), 1, 120, 0, 0, 0)
    arrivals = list(plain.arrivals())
    assert [arrival.new for arrival in arrivals] == [120] * 16 + [80] and not any(a.replaced for a in arrivals)
    further = list(plain.further_batches(2))
    assert all(len(arrival.batch.ts) == 120 for arrival in further)
    assert min(further[0].batch.ts) >= plain.end > max(arrivals[-1].batch.ts)


# -- digests and checks -----------------------------------------------------------------------------------


def changed(batch: SampleBatch, name: str, change: Callable[[Any], Any]) -> SampleBatch:
    values = getattr(batch, name).copy()
    values[5] = change(values[5])
    return batch._replace(**{name: values})


@pytest.mark.claim("All engines return the same samples, in whatever order they arrive")
@pytest.mark.parametrize("name", SampleBatch._fields)
def test_digest_depends_on_every_field_but_not_order(dataset: SyntheticDataset, name: str) -> None:
    batch, right, other = next(dataset.arrivals()).batch, Digest(), Digest()
    right.add(batch)
    order = np.random.default_rng(1).permutation(len(batch.ts))
    for part in np.array_split(order, 3):
        other.add(SampleBatch(*(values[part] for values in batch)))
    assert other == right and str(len(batch.ts)) in str(right)
    wrong = Digest()
    wrong.add(changed(batch, name, lambda value: value + 1))
    assert wrong != right
    with pytest.raises(Wrong, match="expected"):
        verify.verify_digest(wrong, right)


def test_a_digest_notices_swapped_values(dataset: SyntheticDataset) -> None:
    batch, right, wrong = next(dataset.arrivals()).batch, Digest(), Digest()
    right.add(batch)
    wrong.add(batch._replace(val=batch.val[::-1]))
    assert wrong != right
    wrong.add(batch)
    right.add(batch._replace(val=batch.val[::-1]))
    assert wrong == right
    wrong.add(batch, -1)
    assert wrong != right


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda right: None, "got NoneType"),
        (lambda right: Samples(*(values[:-1] for values in right)), "expected 600"),
        (lambda right: right._replace(ts=right.ts + 1), "ts: at 0"),
        (lambda right: right._replace(val=right.val.astype("f4")), "val: got ndarray of float32"),
        (lambda right: right._replace(sevr=right.sevr.astype("i8")), "sevr: got ndarray of int64"),
        (lambda right: right._replace(stat=right.stat.tolist()), "stat: got list"),
        (lambda right: Samples(*(values[::-1] for values in right)), "ts: at 0"),
    ],
)
def test_wrong_samples_are_found(dataset: SyntheticDataset, wrong: Any, said: str) -> None:
    right = dataset.one(3)
    assert verify.verify_samples("it", right, right) == 600
    with pytest.raises(Wrong, match=f"it: .*{said}"):
        verify.verify_samples("it", wrong(right), right)


def test_wrong_buckets_are_found(dataset: SyntheticDataset) -> None:
    one = dataset.one(3)
    right = downsample(one, MINUTE)
    for begin, mean, low, high in zip(*(values.tolist() for values in right), strict=True):
        inside = one.val[(one.ts >= begin) & (one.ts < begin + MINUTE)]
        assert (inside.mean(), inside.min(), inside.max()) == (pytest.approx(mean, rel=1e-12), low, high)
    assert verify.verify_buckets("it", right, one, MINUTE) == len(right.ts)
    scale = max(abs(right.low[0]), abs(right.high[0]))
    for name, off in (("ts", 1), ("low", 1e-9), ("high", 1e-9), ("mean", 1e-11 * scale), ("mean", float("nan"))):
        values = getattr(right, name).copy()
        values[0] += off
        with pytest.raises(Wrong, match=f"it: {name}"):
            verify.verify_buckets("it", right._replace(**{name: values}), one, MINUTE)


def test_variable_ids_map_to_store_ids_by_name() -> None:
    numbers = samples.VariableIds(["c", "a"], [(0, "a"), (1, "b"), (2, "c")])
    assert numbers.to_store(np.array([0, 1, 1], "i4")).tolist() == [2, 0, 0]
    assert numbers.from_store([0, 2]).tolist() == [1, 0] and numbers.one(0) == 2 and numbers.count == 3


# -- the operations ---------------------------------------------------------------------------------------


PORT: Any = SimpleNamespace(
    insert="insert", one="one", window="window", latest="latest", downsample="downsample", all=lambda: iter(())
)


def share(dataset: SyntheticDataset, phase: str, number: int = 0, judged: bool = True) -> ClientWork:
    params = {"reads": 4, "window_s": 300, "watched": 2}
    return ClientWork(Model(dataset, judged), params, 1, phase, PORT, number)


@pytest.mark.parametrize("how", ["extract_one", "extract_window", "downsample"])
def test_all_engines_get_the_same_inputs(dataset: SyntheticDataset, how: str) -> None:
    def asked(number: int, cold: bool = False) -> list[Any]:
        return [part.arguments for part in getattr(share(dataset, how, number), how)(cold)]

    assert asked(0) == asked(0) != asked(1) and len(asked(0)) == 4
    assert len(asked(0, cold=True)) == 1 and asked(1, cold=True) == []


def test_windows_start_on_whole_seconds_within_data(dataset: SyntheticDataset) -> None:
    for number in range(5):
        for part in share(dataset, "w", number).extract_window(False):
            assert isinstance(part, Operations)
            ((_, start, end),) = part.arguments
            assert dataset.start <= start and end - start == 300 * SECOND and end <= dataset.end
            assert start % SECOND == 0
            assert part.weights is not None


def test_a_failed_insert_voids_the_phase(dataset: SyntheticDataset) -> None:
    first = next(iter(share(dataset, "insert").insert()))
    assert isinstance(first, Operations)
    with pytest.raises(Wrong, match="batch 0 was not inserted: OSError: full"):
        first.check([Failure("OSError: full")])
    assert list(share(dataset, "insert", 1).insert()) == []


def test_extract_all_counts_and_verifies_all_samples(dataset: SyntheticDataset) -> None:
    asked = share(dataset, "extract-all")
    port: Any = asked._port
    pieces = []
    for arrival in dataset.arrivals():
        asked._model.add(arrival)
    whole = every(dataset)
    for part in np.array_split(np.arange(len(whole.ts)), 7):
        pieces.append(SampleBatch(*(values[part] for values in whole)))

    def read(given: list[SampleBatch]) -> tuple[Bulk, Any]:
        port.all = lambda: iter(given)
        (bulk,) = asked.extract_all(False)
        assert isinstance(bulk, Bulk)
        answer = bulk.call(one for some in bulk.feed for one in some)
        assert bulk.counted is not None and bulk.counted(answer, 7) == sum(len(piece.ts) for piece in given)
        return bulk, answer

    bulk, answer = read(pieces)
    assert bulk.check(answer, 7) == 1
    bulk, answer = read(pieces[:-1])
    with pytest.raises(Wrong, match="the archive has"):
        bulk.check(answer, 6)
    # This call ends by its budget after two batches.
    port.all = lambda: iter(pieces)
    (ended,) = asked.extract_all(False)
    assert isinstance(ended, Bulk)
    answer = ended.call([True, True])
    assert answer is False and ended.check(answer, 2) == 0


def test_a_sample_that_never_becomes_readable_fails(
    dataset: SyntheticDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dyno.suites.series.workload.PATIENCE_S", 0)
    looks = iter([False, True])
    asked = share(dataset, "visible")
    asked._port = SimpleNamespace(insert=lambda batch: None, seen=lambda pv, ts: False)
    (part, _) = asked.poll_inserts()
    assert isinstance(part, Operations) and part.parts is not None
    with pytest.raises(TimeoutError, match="could not be read"):
        part.calls(None)[0](part.arguments[0])
    monkeypatch.setattr("dyno.suites.series.workload.PATIENCE_S", 60)
    asked._port = SimpleNamespace(insert=lambda batch: None, seen=lambda pv, ts: next(looks))
    answer = part.calls(None)[0](part.arguments[0])
    assert len(answer) == 2 and set(part.parts([answer])) == {"acknowledged", "readable"}


def test_answers_of_a_null_engine_are_not_checked(dataset: SyntheticDataset) -> None:
    asked = share(dataset, "p", judged=False)
    for how in ("extract_one", "extract_window", "downsample", "latest"):
        for part in getattr(asked, how)(False):
            assert part.check([None]) == 0
    (bulk,) = asked.extract_all(False)
    assert isinstance(bulk, Bulk) and bulk.counted is not None and bulk.counted(True, 0) == dataset.total


def test_default_engines_are_those_without_a_server() -> None:
    names = {spec.name for spec in registry.engines_for(registry.suite("series")) if spec.listing.by_default}
    assert {"null", "sqlite", "duckdb", "parquet", "lmdb", "rocksdb", "chdb"} <= names
    assert not names & {"mariadb", "postgresql", "mysql"}
