"""Whole runs of a suite that uses more than operations timed by Dyno: work measured by an external program, the
suite's own files, bytes, parts of latencies, and facts of a trial.
"""

from __future__ import annotations

from typing import Any

import pytest
from shell import TESTS, Shell

pytestmark = pytest.mark.usefixtures("processes")

BYTES = 64 * 4096


@pytest.fixture(scope="module")
def ran(shared_shell: Shell) -> Shell:
    shared_shell.plugins = [TESTS / "plugins" / "outsider"]
    words = ("run", "outsider", "-e", "dd,timed", "--samples", "2", "-o", shared_shell.file)
    status, _, err = shared_shell.dyno(*words)
    assert status == 0, err
    return shared_shell


def cell(ran: Shell, engine: str, phase: str) -> dict[str, Any]:
    return ran.cells()[engine, phase]


def test_external_program_figures_are_attributed_to_it(ran: Shell) -> None:
    row = cell(ran, "dd", "tool")
    assert row["valid"] and row["reported_by"] == "dd 1.0"
    assert (row["operations"], row["items"]) == (2 * 64, 64)
    # 63 latencies of 1 µs and one of 50 µs, from the program's histogram rather than from the duration of the call.
    assert row["latency_ns"]["p50"] == 1_000 and row["latency_ns"]["max"] >= 50_000
    assert row["latency_by_kind_ns"]["read"]["p95"] == 1_000
    assert row["series"][0][0]["p99_ns"] == 50_000
    assert row["facts"] == {"copies": 1}
    (sample, *_) = (s for attempt in ran.attempts("dd") for s in attempt["samples"] if s["phase"] == "tool")
    assert sample["checked"] == 64 and sample["client"]["user_ns"] is not None
    assert "dd 1.0" in ran.dyno("show", ran.file).out


def test_suite_files_are_evicted_but_not_engine_size(ran: Shell) -> None:
    for attempt in ran.attempts("timed"):
        (cold,) = (sample for sample in attempt["samples"] if sample["phase"] == "read-cold")
        assert cold["residency"]["file_bytes"] >= BYTES
        assert cold["residency"]["resident_bytes"] == 0
        assert cold["bytes_on_disk"] is None
    assert cell(ran, "timed", "read-cold")["temperature"] == "cold"


def test_row_has_bandwidth_and_latency_by_part(ran: Shell) -> None:
    row = cell(ran, "timed", "read-cold")
    (cold, *_) = (s for attempt in ran.attempts("timed") for s in attempt["samples"] if s["phase"] == "read-cold")
    assert cold["bytes"] == BYTES
    assert row["bandwidth"]["unit"] == "B/s" and row["bandwidth"]["median"] > 0
    assert 0 < row["latency_by_part_ns"]["open"]["p50"] < row["latency_ns"]["max"]


def test_storeless_suite_keeps_trial_facts_without_tier(ran: Shell) -> None:
    row = cell(ran, "timed", "read-cold")
    assert row["trial_facts"] == {"blocks": 64, "made by": "the suite"}
    assert row["tier"] is None
    assert "tier" not in ran.dyno("show", ran.file).out
    status, _, err = ran.dyno("run", "outsider", "-e", "dd", "--tier", "power", "-o", "other.json")
    assert status == 2 and "stores nothing" in err
