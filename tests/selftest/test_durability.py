"""Guards the promises of tiers. At tiers `process` and `power`, a process killed by SIGKILL while it commits loses no
acknowledged transaction and leaves no half of one. At tier `power`, system calls show that every commit flushes to
the device. At tier `process`, they show that every commit is written but not flushed, which distinguishes the two
tiers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import committer
import pytest
from committer import after, key
from needed import require, unavailable
from shell import DISK, TESTS
from stores import Store, journals, stores

from dyno import registry
from dyno.contracts.model import Tier
from dyno.selftest.flushes import BROKEN, COMMITS, DECLARED, NOTHING, PROVEN, TierProof, claims, judge_tier, proofs
from dyno.selftest.trace import Commit, TraceSummary
from dyno.servers import leftover_processes
from dyno.suites.records.port import INDEXES, Key, Record

pytestmark = pytest.mark.usefixtures("processes")

SCRIPT = str(Path(committer.__file__))
KILLED_AFTER = {Tier.PROCESS: (1, 83), Tier.POWER: (40,)}
"""Number of acknowledgements after which each process is killed. Each continues on the store of the previous one. One
is enough at tier power: a trace shows that it flushes every commit.
"""
PLUGIN = TESTS / "plugins" / "forgetful"


def distinct_stores(*tiers: Tier) -> list[Store]:
    """Stores with distinct settings: leaves out SQLite with the tier's own journal mode, which equals its default
    options.
    """
    spec = registry.engine("sqlite")
    others = [s for s in journals(*tiers) if s.given["journal_mode"] != spec.tiers[s.tier]["journal_mode"]]
    return [*stores(*tiers), *others]


every_durable_store = pytest.mark.parametrize(
    "store",
    [
        store
        for store in distinct_stores(Tier.PROCESS, Tier.POWER)
        # A store without atomicity may keep half of the transaction in flight; separate tests cover these stores.
        if not any(gap.check == "atomicity" for gap in store.spec.gaps)
    ],
    ids=str,
)


def arguments(store: Store, home: Path, acks: int, start: int) -> list[str]:
    job = {
        "engine": store.spec.name,
        "tier": store.tier.value,
        "given": dict(store.given),
        "home": str(home),
        "start": start,
    }
    return [sys.executable, SCRIPT, json.dumps(job), str(acks)]


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the plug-in available in this process and in its children."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])]))
    _forget()
    yield
    _forget()


def _forget() -> None:
    """Clears the caches of known plug-ins."""
    for known in (registry._sources, registry.engine):
        known.cache_clear()


# -- contents after SIGKILL --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on a disk, accessible to a server that runs as another user."""
    parent = DISK if DISK.is_dir() else tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=parent) as place:
        Path(place).chmod(0o711)
        yield Path(place)


@pytest.fixture
def home(disk: Path, request: pytest.FixtureRequest) -> Path:
    """Directory for one store; opening the store creates it."""
    return disk / f"{abs(hash(request.node.name)):x}"


def killed(store: Store, home: Path, start: int, acks: int) -> int:
    """Starts a process that commits from transaction `start` on, and kills it after `acks` acknowledgements.

    Returns the number of acknowledged transactions, including the first `start` and any acknowledged after the kill.
    """
    reading, writing = os.pipe()
    process = subprocess.Popen(arguments(store, home, writing, start), pass_fds=[writing])
    os.close(writing)
    done = start
    try:
        with os.fdopen(reading) as told:
            for line in told:
                assert int(line) == done
                done += 1
                if done == start + acks:
                    # Kills the server's processes, if the engine has a server.
                    leftover_processes.clear(home)
                    process.kill()
    finally:
        process.kill()
        process.wait()
    assert done >= start + acks, f"it ended by itself with status {process.returncode} after {done - start}"
    return done


def held(store: Store, home: Path) -> dict[Key, Record]:
    """All records of the reopened store. Asserts that each is found by its key and its indexes."""
    with store.open(home) as port, port.reading() as reader:
        every = reader.scanner(1_000_000)(("", ""))
        for found in every:
            assert reader.get((found["name"], found["location"])) == found
            for index, function in INDEXES.items():
                assert reader.finder(index)(function(found)) == found
        names = [found["name"] for found in every]
        assert names == sorted(set(names)), "the scan is out of order"
        for gone in {key(number) for number in range(2 * len(every))} - {(n, n.upper()) for n in names}:
            assert reader.get(gone) is None
            for index, function in INDEXES.items():
                assert reader.finder(index)(function({"name": gone[0], "location": gone[1]})) is None
    return {(found["name"], found["location"]): found for found in every}


def survived(store: Store, home: Path, acknowledged: int) -> int:
    """Number of transactions in the store: all acknowledged ones, and perhaps the one in flight."""
    found = held(store, home)
    for steps in (acknowledged, acknowledged + 1):
        if found == after(steps):
            return steps
    lost = sorted(name for (name, _), row in after(acknowledged).items() if found.get((name, name.upper())) != row)
    pytest.fail(f"{acknowledged} transactions were acknowledged, and of their records these are not right: {lost}")


@pytest.mark.claim("Tier process survives SIGKILL")
@every_durable_store
def test_acknowledged_transactions_survive_a_process_kill(store: Store, home: Path) -> None:
    require(store.spec)
    held_by_now = 0
    for acks in KILLED_AFTER[store.tier]:
        acknowledged = killed(store, home, held_by_now, acks)
        held_by_now = survived(store, home, acknowledged)


def test_engine_that_acknowledges_buffered_writes_is_caught(forgetful: None, tmp_path: Path) -> None:
    store = Store(registry.engine("forgetful"), Tier.PROCESS)
    acknowledged = killed(store, tmp_path, 0, 40)
    with pytest.raises(pytest.fail.Exception, match="were acknowledged, and of their records these are not right"):
        survived(store, tmp_path, acknowledged)


@pytest.mark.parametrize("lost", [slice(None), slice(1), slice(20, None)], ids=["whole", "one record", "half"])
def test_loss_from_the_last_transaction_is_caught(lost: slice, tmp_path: Path) -> None:
    store, acknowledged = Store(registry.engine("sqlite"), Tier.PROCESS), 33
    kept = after(acknowledged)
    last = sorted(kept.keys() - after(acknowledged - 1).keys())
    assert len(last) == max(committer.SIZES)
    for gone in last[lost]:
        del kept[gone]
    with store.open(tmp_path) as port:
        port.insert(kept.values())
    with pytest.raises(pytest.fail.Exception, match="these are not right"):
        survived(store, tmp_path, acknowledged)


# -- flushes -----------------------------------------------------------------------------------------------


def asked(store: Store) -> str:
    options = "+".join(f"{name}={value}" for name, value in store.given.items())
    return f"{store.spec.name}:{options}" if options else store.spec.name


def proof(engine: str, tier: Tier, place: Path) -> TierProof:
    """Observed system calls of 100 commits of the engine, with the verdict; skips the test if they can't
    be traced.
    """
    require(registry.engine(engine.partition(":")[0]))
    (found,) = proofs(claims([engine], tier.value), place)
    if found.seen is None:
        unavailable(f"engine {engine}: {found.why}")
    return found


@pytest.mark.claim("Tier power flushes every commit before it is acknowledged")
@pytest.mark.parametrize("store", distinct_stores(Tier.POWER), ids=str)
def test_tier_power_flushes_every_commit(store: Store, disk: Path) -> None:
    found = proof(asked(store), Tier.POWER, disk)
    assert (found.verdict, found.why) == (PROVEN, "")
    assert found.seen is not None and found.seen.flushed == COMMITS
    assert sum(found.seen.flushes.values()) >= COMMITS


@pytest.mark.claim("Tier process hands every commit to the kernel and flushes none")
@pytest.mark.parametrize("store", distinct_stores(Tier.PROCESS), ids=str)
def test_tier_process_writes_every_commit_without_flushing(store: Store, disk: Path) -> None:
    found = proof(asked(store), Tier.PROCESS, disk)
    # No warning that the tier costs more than it promises.
    assert (found.verdict, found.why) == (PROVEN, "")
    assert found.seen is not None and found.seen.written == COMMITS
    assert sum(found.seen.flushes.values()) < COMMITS / 2


def test_tier_volatile_promises_nothing_but_shows_counts(disk: Path) -> None:
    found = proof("sqlite", Tier.VOLATILE, disk)
    assert (found.verdict, found.why) == (NOTHING, "")
    assert found.seen is not None and not found.seen.flushes and found.seen.written == COMMITS


def test_proof_shows_the_settings_of_the_engine(disk: Path) -> None:
    found = proof("sqlite:journal_mode=persist", Tier.POWER, disk)
    assert found.settings == {"journal_mode": "persist", "synchronous": "extra"}
    assert found.version is not None and found.version.startswith("SQLite 3.")


COSTLY = "it flushes as often as it commits, which costs more than is promised"
UNWRITTEN = "100 of 100 commits were acknowledged before anything was written"
UNFLUSHED = "100 of 100 commits were acknowledged before they were flushed"
MAPPED = "no trace shows what it writes through its mapping of log"


@pytest.mark.claim("Tier power flushes every commit before it is acknowledged")
@pytest.mark.parametrize(
    ("how", "process", "power"),
    [
        ("buffer", (BROKEN, UNWRITTEN), (BROKEN, UNFLUSHED)),
        ("flushed", (PROVEN, COSTLY), (PROVEN, "")),
        ("synchronous", (PROVEN, COSTLY), (PROVEN, "")),
        ("mapped", (DECLARED, MAPPED), (BROKEN, UNFLUSHED)),
        ("mapped-flushed", (PROVEN, COSTLY), (PROVEN, "")),
    ],
)
def test_engine_that_breaks_its_tier_is_caught(
    forgetful: None, disk: Path, how: str, process: tuple[str, str], power: tuple[str, str]
) -> None:
    found = proof(f"forgetful:how={how}", Tier.POWER, disk)
    assert (found.verdict, found.why) == power
    # The engine behaves the same at every tier.
    assert found.seen is not None and judge_tier(Tier.PROCESS, found.seen) == process


@pytest.mark.parametrize(
    ("seen", "process", "power"),
    [
        (TraceSummary(), DECLARED, DECLARED),
        (TraceSummary((Commit(True, True),) * (COMMITS - 1)), DECLARED, DECLARED),
        (TraceSummary((Commit(True, False),) * COMMITS, unseen=("io_uring",)), PROVEN, DECLARED),
        (TraceSummary((Commit(False, False),) * COMMITS, unseen=("io_uring",)), DECLARED, DECLARED),
        (TraceSummary((Commit(True, True),) * COMMITS, unseen=("io_uring",)), PROVEN, PROVEN),
    ],
)
def test_tier_unproven_by_an_incomplete_trace_is_declared(seen: TraceSummary, process: str, power: str) -> None:
    assert judge_tier(Tier.PROCESS, seen)[0] == process
    assert judge_tier(Tier.POWER, seen)[0] == power


def test_broken_tier_counts_the_unflushed_commits() -> None:
    seen = TraceSummary((Commit(True, True), Commit(True, False)) * (COMMITS // 2))
    assert judge_tier(Tier.PROCESS, seen) == (PROVEN, "")
    assert judge_tier(Tier.POWER, seen) == (BROKEN, UNFLUSHED.replace("100", "50", 1))


def test_history_inserts_replaces_and_deletes_only_existing_records() -> None:
    assert {kind for kind, _ in islice(committer.history(), 10)} == {"insert", "replace", "delete"}
    # Raises a KeyError if the history deletes a missing record.
    assert len(after(500)) > len(after(100)) > 100
