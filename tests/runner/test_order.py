"""The order of events in a trial, which is the same for all engines of a run.

Guards rules 1, 4 and 5 of measuring: all engines get the same inputs in the same order; each trial has a fresh
process and directory, begins with conformance checks and ends by closing the store; a block has one trial of every
cell, in shuffled order. The engines of `tests/plugins/recorder` record their calls.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from shell import COMMAND, RECORDER, Shell, small

from dyno.options import RunRequest
from dyno.runner import plan
from dyno.suites.records.layer import RECORD, pack

pytestmark = pytest.mark.usefixtures("processes")

INSERTS = "insert-blind-noindices,insert-blind-indices,insert-noblind-noindices,insert-noblind-indices"
READING = "rand-key,scan,delete"
PHASES = f"{INSERTS},rand-key,rand-index,scan,update,mixed,delete"
RECORDS = 40
Event = dict[str, Any]


class Life:
    """The calls recorded by one process of a recording engine."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.calls = [event["call"] for event in events]
        self.opened = [event for event in events if event["call"] == "open"]
        self.name = self.opened[0]["name"]
        self.measured = [event["home"] for event in self.opened if not is_conformance(event)]
        # The trial's directory, which contains its stores.
        self.home = Path(self.measured[0]).parent

    def asked(self) -> list[Event]:
        """Every call in order, without the fields that differ between engines: process, thread, options, and
        directories.
        """
        passed_over = ("pid", "thread", "name", "options", "others", "where")
        return [
            {k: self._relative(v) if k == "home" else v for k, v in event.items() if k not in passed_over}
            for event in self.events
        ]

    def _relative(self, home: str) -> str:
        return str(Path(home).relative_to(self.home))


def is_conformance(event: Event) -> bool:
    return "conformance" in Path(event["home"]).parts


def lives(
    shell: Shell, engines: str, *more: str, samples: int = 2, phases: str = PHASES, in_own_process: bool = False
) -> list[Life]:
    """Runs recording engines. Returns the records of all processes, in the order of their start."""
    log = shell.home / "calls"
    log.unlink(missing_ok=True)
    shell.plugins = [RECORDER]
    shell.given["RECORDER_LOG"] = str(log)
    plan = small(param_records=RECORDS, samples=samples, phases=phases)
    words = ("run", "records", "-e", engines, *plan, *more, "-o", shell.file, "--overwrite")
    ended = shell.sh(*COMMAND, *words) if in_own_process else shell.dyno(*words)
    assert ended.status == 0, ended
    events = [json.loads(line) for line in log.read_text().splitlines()]
    # Trials run one after the other, so the calls of each process are contiguous.
    return [Life(list(together)) for _, together in groupby(events, key=lambda event: event["pid"])]


@pytest.fixture(scope="module")
def life(shared_shell: Shell) -> Life:
    """A single trial with every phase."""
    (only,) = lives(shared_shell, "recorder", samples=1)
    return only


@pytest.fixture(scope="module")
def reads(shared_shell: Shell) -> Life:
    """A single trial without an insert phase."""
    (only,) = lives(shared_shell, "recorder", samples=1, phases=READING)
    return only


@pytest.fixture(scope="module")
def blocks(shared_shell: Shell) -> list[Life]:
    """Three blocks of two engines. In a process of its own, the run starts a fork server for each."""
    phases = "insert-blind-indices,rand-key"
    workers = lives(shared_shell, "recorder,recorder-b", samples=3, phases=phases, in_own_process=True)
    assert len(workers) == 6
    return workers


@pytest.mark.claim("An engine passes a model-based check before it is measured")
def test_conformance_precedes_measuring_in_separate_directories(life: Life) -> None:
    checks = [is_conformance(event) for event in life.opened]
    assert checks[0]
    assert checks == sorted(checks, reverse=True), "a conformance check after measuring began"
    # The stores of conformance checks are closed before the first measured store opens.
    before = life.calls[: life.calls.index("version")]
    measured = life.events.index(next(event for event in life.opened if not is_conformance(event)))
    assert before[:measured].count("open") == before[:measured].count("close") == checks.count(True)
    assert {"commit", "get", "seek"} <= set(before[:measured]), "the checks write, read and scan"


def test_only_insert_phases_open_a_fresh_store(life: Life) -> None:
    assert [Path(home).name for home in life.measured] == INSERTS.split(",")
    assert all(event["found"] == [] for event in life.opened), "a store was opened where another had been"


def test_reads_without_insert_phase_use_store_loaded_once(reads: Life) -> None:
    assert len(reads.measured) == 1
    at = reads.calls.index("version")
    loaded = [event for event in reads.events[:at] if event["call"] == "commit" and len(event["keys"]) == 3 * RECORDS]
    assert len(loaded) == 1, "all records, each with two index entries, before the first phase"


def test_stores_are_closed_last_and_never_overlap(life: Life) -> None:
    assert life.calls[-1] == "close"
    assert life.calls.count("open") == life.calls.count("close")
    assert life.calls.count("connect") == life.calls.count("disconnect") > 0
    assert life.calls.count("begin reading") == life.calls.count("end reading") > 0
    # No two stores are open at once: the last phase's store must not slow down the next phase.
    at_once = 0
    for call in life.calls:
        at_once += (call == "open") - (call == "close")
        assert 0 <= at_once <= 1


def test_a_write_phase_is_followed_by_reading_back(life: Life) -> None:
    at = max(index for index, event in enumerate(life.events) if event["call"] == "commit" and event["deleted"])
    after = life.calls[at:]
    # After the deletes, the sample is checked by key, by index and in key order. It is drawn without duplicates.
    assert after.count("get") > RECORDS * 3 // 4
    assert after.count("seek") > 0


@pytest.mark.claim("Each trial has a fresh process and a fresh directory")
def test_each_trial_has_fresh_process_and_directory(shared_shell: Shell, blocks: list[Life]) -> None:
    assert len({event["pid"] for life in blocks for event in life.events}) == 6
    assert len({life.home for life in blocks}) == 6
    # No data of an earlier trial or store remains.
    for life in blocks:
        starts = [life.opened[0], *(event for event in life.opened if not is_conformance(event))]
        assert [event["others"] for event in starts] == [[]] * len(starts)
    homes = {event["home"] for life in blocks for event in life.opened}
    assert len(homes) == sum(len({event["home"] for event in life.opened}) for life in blocks), "shared by trials"
    assert not any(Path(home).exists() for home in homes)
    assert shared_shell.left() == []
    assert shared_shell.strays() == []


@pytest.mark.claim("All engines get the same inputs in the same order")
def test_engines_get_same_calls_in_same_order(shell: Shell) -> None:
    workers = lives(shell, "recorder,recorder-b,recorder:pause_us=50")
    assert len(workers) == 6
    assert {life.name for life in workers} == {"recorder", "recorder-b"}
    for block in (workers[:3], workers[3:]):
        first = block[0].asked()
        assert len(first) > 10 * RECORDS
        for life in block[1:]:
            assert life.asked() == first
    # Between blocks, only what checks the store differs: all writes are the same.
    writes = [[event["keys"] for event in measured(life) if event["call"] == "commit"] for life in workers]
    assert writes.count(writes[0]) == 6


def test_blocks_get_same_reads(shell: Shell) -> None:
    workers = lives(shell, "recorder,recorder-b", phases="rand-key,rand-index,scan")
    calls = [life.asked()[life.calls.index("version") :] for life in workers]
    assert len(calls[0]) > 3 * RECORDS
    assert calls.count(calls[0]) == 4


def test_later_trials_of_a_row_check_less(shell: Shell) -> None:
    workers = lives(shell, "recorder,recorder-b", samples=3, phases="insert-noblind-indices,rand-key,delete")
    assert [any(map(is_conformance, life.opened)) for life in workers] == [True] * 2 + [False] * 4
    reads = [[read for e in measured(life) if e["call"] in READS for read in kv_read(e)] for life in workers]
    assert [read.count(ALL_ENTRIES) for read in reads] == [2 * 2] * 2 + [0] * 4
    # The measured reads are the same; a smaller sample is looked up afterwards.
    gets = [sum(what == "get" for what, _ in read) for read in reads]
    assert RECORDS < gets[2] < gets[0]
    assert len(set(gets[2:])) == 1


def test_different_seed_requests_different_keys(shell: Shell, reads: Life) -> None:
    """Proves that the test above doesn't compare constants."""
    (other,) = lives(shell, "recorder", "--seed", "2", samples=1, phases=READING)
    one, two = ([event["key"] for event in measured(life) if event["call"] == "get"] for life in (reads, other))
    assert min(len(one), len(two)) >= RECORDS
    assert one[:RECORDS] != two[:RECORDS]


def test_both_ports_get_the_same_requests(shell: Shell) -> None:
    workers = lives(shell, "recorder,recorder-records", samples=1, phases="insert-noblind-indices,rand-key,delete")
    (kv,) = (measured(life) for life in workers if life.name == "recorder")
    (records,) = (measured(life) for life in workers if life.name == "recorder-records")

    inserted, *_, deleted = (event["keys"] for event in kv if event["call"] == "commit")
    (replaced,) = (event["keys"] for event in records if event["call"] == "replace")
    (removed,) = (event["keys"] for event in records if event["call"] == "delete")
    assert [key for key in inserted if is_record(key)] == [stored(key) for key in replaced]
    assert [key for key in deleted if is_record(key)] == [stored(key) for key in removed]
    assert sorted(replaced) == sorted(removed) != replaced, "in random order"

    reads = [read for event in kv if event["call"] in READS for read in kv_read(event)]
    # After each writing phase, the entries of both indexes are read; only a key-value engine stores them separately.
    assert reads.count(ALL_ENTRIES) == 2 * 2
    reads = [read for read in reads if read != ALL_ENTRIES]
    assert reads == [read for event in records for read in record_read(event)]
    assert [what for what, _ in reads].count("get") > 3 * RECORDS


ALL_ENTRIES = ("find", "")
READS = ("get", "seek")


def measured(life: Life) -> list[Event]:
    return life.events[life.calls.index("version") :]


def is_record(key: str) -> bool:
    return key.startswith(RECORD.hex())


def stored(key: list[str]) -> str:
    return pack(RECORD, tuple(key)).hex()


def kv_read(event: Event) -> list[tuple[str, str]]:
    """A seek is a scan of records, or a lookup in an index by its letter and the value."""
    key = event["key"]
    if event["call"] == "get":
        return [("get", key)]
    return [("scan", key) if is_record(key) else ("find", key[2:])]


def record_read(event: Event) -> list[tuple[str, str]]:
    """The equivalent key-value reads for one read of records: a find is followed by a get."""
    if event["call"] == "find":
        get = [("get", stored(event["found"]))] if event["found"] else []
        return [("find", pack(b"", (event["value"],)).hex()), *get]
    return [(event["call"], stored(event["key"]))] if event["call"] in ("get", "scan") else []


@pytest.mark.claim("The order of trials is shuffled in each block")
def test_blocks_hold_every_cell_once_shuffled_by_seed(shell: Shell) -> None:
    words = small(param_records="10,20", samples=2, seed=1)
    ended = shell.dyno("run", "records", "-e", "memory", *words, "-o", shell.file)
    assert ended.status == 0, ended
    request = RunRequest(
        "records", engines=["memory"], params={"records": [10, 20]}, phases=["rand-key"], samples=2, seed=1
    )
    planned = [plan.make(replace(request, seed=seed)) for seed in (1, 2)]
    first, other = ([[trial.cell for trial in made.block(number)] for number in (0, 1)] for made in planned)
    trials = [(line["block"], line["cell"]) for line in shell.attempts()]
    assert trials == [(number, cell) for number in (0, 1) for cell in first[number]]
    for block in first:
        assert sorted(block) == list(range(shell.planned() // 2))
        assert len(block) >= 4
    assert first[0] != first[1], "every block in the same order"
    assert other != first


@pytest.mark.claim("Memory layout is drawn anew for each block")
@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")
def test_memory_layout_is_drawn_anew_for_each_block(blocks: list[Life]) -> None:
    """Otherwise the kernel's random choices at a process start would be the same in every trial."""
    where = [life.opened[0]["where"] for life in blocks]
    assert where[::2] == where[1::2]
    assert len(set(where)) == 3
