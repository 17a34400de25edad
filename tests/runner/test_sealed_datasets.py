"""Tests loaded stores: a store is filled once for all trials of a cell, and each trial begins with a copy that
behaves like a store of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from madeup import a_sample, an_attempt

from dyno import registry
from dyno.contracts.model import Tier
from dyno.contracts.suite import Job
from dyno.contracts.value_types import Value
from dyno.host import filesystem
from dyno.options import RunRequest
from dyno.runner import plan
from dyno.runner.trial import Datasets
from dyno.suites.records.dataset import Dataset

# -- files ---------------------------------------------------------------------------------------------------------

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two files, one with a hole in its middle and at its end."""
    home = tmp_path / "store"
    (home / "inner").mkdir(parents=True)
    (home / "inner" / "small").write_bytes(b"some bytes")
    with (home / "sparse").open("wb") as file:
        for at in (0, 8 * MIB):
            file.seek(at)
            file.write(os.urandom(MIB))
        file.truncate(64 * MIB)
    return home


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("shares", [True, False], ids=["as it can", "without shared blocks"])
def test_copy_keeps_contents_and_holes_and_is_writable(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    if not shares:
        monkeypatch.setattr(filesystem, "_FICLONE", 0)
    before, blocks = contents(store), (store / "sparse").stat().st_blocks
    assert filesystem.seal([store], tmp_path / "kept")
    assert not store.exists()
    store.mkdir()
    filesystem.copy(tmp_path / "kept" / "0", store)
    assert contents(store) == before
    # The copy has the same holes, apart from the file system's overhead.
    assert abs((store / "sparse").stat().st_blocks - blocks) < 64
    assert {path.stat().st_mode & 0o222 for path in store.rglob("*") if path.is_file()} != {0}
    (store / "sparse").write_bytes(b"")
    assert contents(tmp_path / "kept" / "0") == before


def test_copy_keeps_preallocated_space_and_file_modes(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "_FICLONE", 0)
    (store / "log").write_bytes(b"begins")
    with (store / "log").open("r+b") as log:
        os.posix_fallocate(log.fileno(), 0, 16 * MIB)
    for path, mode in ((store, 0o700), (store / "inner", 0o750), (store / "log", 0o600)):
        path.chmod(mode)
    assert filesystem.seal([store], tmp_path / "kept")
    store.mkdir()
    filesystem.copy(tmp_path / "kept" / "0", store)
    about = (store / "log").stat()
    assert (about.st_size, about.st_blocks * 512 >= 16 * MIB) == (16 * MIB, True)
    modes = [path.stat().st_mode & 0o777 for path in (store, store / "inner", store / "log")]
    assert modes == [0o700, 0o750, 0o600]


def test_copy_replaces_previous_directory_contents(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "_FICLONE", 0)
    before = contents(store)
    assert filesystem.seal([store], tmp_path / "kept")
    # A file that was a directory, a directory that was a link, and files with other contents.
    (store / "small" / "deep").mkdir(parents=True)
    (store / "small" / "deep" / "file").write_bytes(b"old")
    (store / "sparse").write_bytes(b"x" * 80 * MIB)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"stays")
    (store / "inner").symlink_to(tmp_path / "outside")
    (store / "other").symlink_to(tmp_path / "outside" / "file")
    filesystem.copy(tmp_path / "kept" / "0", store)
    assert contents(store) == before
    assert sorted(path.name for path in store.iterdir()) == ["inner", "sparse"]
    assert contents(tmp_path / "outside") == {"file": b"stays"}
    (store / "inner" / "small").write_bytes(b"longer than it was before")
    (store / "inner" / "large").mkdir()
    filesystem.copy(tmp_path / "kept" / "0", store)
    assert contents(store) == before
    assert sorted(path.name for path in (store / "inner").iterdir()) == ["small"]


def test_directories_are_sealed_all_or_none(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, rename = tmp_path / "other", Path.rename
    other.mkdir()

    def refuse(path: Path, target: Path) -> Path:
        if path == other:
            raise PermissionError(path)
        return rename(path, target)

    before = contents(store)
    monkeypatch.setattr(Path, "rename", refuse)
    assert not filesystem.seal([store, other], tmp_path / "kept" / "0")
    assert contents(store) == before and other.is_dir()
    assert list((tmp_path / "kept").iterdir()) == []
    (store / "small").write_bytes(b"is writable")
    monkeypatch.setattr(Path, "rename", rename)
    assert filesystem.seal([store, other], tmp_path / "kept" / "0")
    assert {path.name for path in (tmp_path / "kept" / "0").iterdir()} == {"0", "1"}


def test_sealed_files_are_read_only(store: Path, tmp_path: Path) -> None:
    filesystem.seal([store], tmp_path / "kept")
    assert {path.stat().st_mode & 0o222 for path in (tmp_path / "kept").rglob("*") if path.is_file()} == {0}


@pytest.mark.parametrize("linked", ["sparse", "inner"])
def test_directory_with_symlink_is_not_sealed(store: Path, tmp_path: Path, linked: str) -> None:
    (store / "link").symlink_to(store / linked)
    assert not filesystem.seal([store], tmp_path / "kept")
    assert (store / "sparse").exists()
    assert not (tmp_path / "kept").exists()


def test_directory_is_not_sealed_without_free_space(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=filesystem.SPARE_BYTES))
    assert not filesystem.seal([store], tmp_path / "kept")
    assert (store / "sparse").exists()


# -- stores --------------------------------------------------------------------------------------------------------

SUITE = registry.suite("records")
PHASES = {phase.name: phase for phase in SUITE.phases}
RECORDS = 300
PARAMS: dict[str, Value] = {
    "records": RECORDS,
    "txn": "all",
    "operations": "all",
    "value_size": 150,
    "encoder": "msgpack",
}
ON_DISK = [
    name
    for name in ("lmdb", "sqlite", "leveldb", "rocksdb", "duckdb")
    if not registry.engine(name).explain_unavailability()
]


def job(home: Path, engine: str, tier: Tier = Tier.PROCESS, seed: int = 1) -> Job:
    spec = registry.reduce_to_suite(SUITE, registry.engine(engine))
    assert spec is not None
    home.mkdir()
    params: dict[str, Value] = {setting.name: setting.default for setting in SUITE.params} | PARAMS
    return Job(spec, home, tier, spec.resolve({}), params, seed, 1, sealed=home.parent / "sealed" / "0")


@contextmanager
def trial(home: Path, engine: str, **more: Any) -> Iterator[Any]:
    """The workload of a trial, before its reading phase."""
    workload = SUITE.workload(job(home, engine, **more))
    workload.prepare(PHASES["rand-key"])
    yield workload
    workload.close()


def found(workload: Any, seed: int = 1) -> int:
    """Returns the number of records in a store."""
    dataset = Dataset(RECORDS, 0, 150, seed)
    numbers = range(dataset.records)
    with workload.connect() as port:
        read = port.reader().get
        return sum(read(dataset.key(number)) == dataset.record(number) for number in numbers)


@pytest.mark.claim("Every trial of a cell begins with the same loaded store")
@pytest.mark.parametrize("engine", ON_DISK)
def test_trial_begins_with_all_records_after_earlier_deletes(tmp_path: Path, engine: str) -> None:
    for number in range(3):
        with trial(tmp_path / str(number), engine) as workload:
            assert found(workload) == 300
            with workload.connect() as port:
                port.delete([workload._dataset.key(number) for number in range(100)])
            assert found(workload) == 200


@pytest.mark.claim("Every trial of a cell begins with the same loaded store")
def test_a_store_is_filled_once_for_all_trials(tmp_path: Path) -> None:
    with trial(tmp_path / "a", "sqlite"):
        pass
    # A trial with another seed would fill a store with other data, but it gets the data of the first seed.
    with trial(tmp_path / "b", "sqlite", seed=2) as workload:
        assert (found(workload, seed=1), found(workload, seed=2)) == (300, 0)


@pytest.mark.parametrize(("engine", "tier"), [("memory", Tier.VOLATILE), ("null", Tier.PROCESS)])
def test_engine_without_files_is_filled_in_each_trial(tmp_path: Path, engine: str, tier: Tier) -> None:
    with trial(tmp_path / "a", engine, tier=tier) as workload:
        assert found(workload) == (0 if engine == "null" else 300)
    assert not (tmp_path / "sealed").exists()


def test_trial_fills_its_own_store_without_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "SPARE_BYTES", 1 << 60)
    with trial(tmp_path / "a", "sqlite") as workload:
        assert found(workload) == 300
    assert not (tmp_path / "sealed" / "0" / "loaded").exists()


@pytest.mark.claim("Every trial of a cell begins with the same loaded store")
def test_interrupted_fill_leaves_no_sealed_store(tmp_path: Path) -> None:
    workload = SUITE.workload(job(tmp_path / "a", "sqlite"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    workload._dataset.record = killed  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        workload.prepare(PHASES["rand-key"])
    assert not (tmp_path / "sealed" / "0" / "loaded").exists()


# -- the run's side ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "attempt", "kept"),
    [
        ({"samples": 3}, {"block": 0}, True),
        ({"samples": 3}, {"block": 2}, False),
        ({"samples": 3, "until": "5%"}, {"block": 2}, True),
        ({"samples": 3}, {"block": 0, "outcome": "crash"}, False),
        ({"samples": 3}, {"block": 0, "void": "a wrong answer"}, False),
    ],
    ids=["in the middle", "the last", "no last", "crashed", "void"],
)
def test_sealed_store_is_kept_while_needed_and_trusted(
    tmp_path: Path, asked: dict[str, Any], attempt: dict[str, Any], kept: bool
) -> None:
    datasets = Datasets(plan.make(RunRequest("selftest", engines=["synthetic"], **asked)), tmp_path)
    datasets.path(0).mkdir(parents=True)
    sample = replace(a_sample("work", 1_000.0), void=attempt.get("void"))
    ended = replace(an_attempt(attempt["block"], sample), outcome=attempt.get("outcome", "ok"))
    datasets.remove_finished(ended)
    assert datasets.path(0).exists() is kept
