"""Engines' own counters: when they are read, what the difference leaves out, and what a failure costs.

The engine `recorder-counters` of `tests/plugins/recorder` records its calls, and counts gets.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from shell import RECORDER, Shell, small

pytestmark = pytest.mark.usefixtures("processes")

RECORDS = 40
READ, PUBLISH = "read counters", "publish counters"


def run(shell: Shell, *more: str, **values: object) -> tuple[list[str], dict[str, Any]]:
    """Runs a phase of hot reads; returns the recorded calls and the trial's line."""
    log = shell.home / "calls"
    log.unlink(missing_ok=True)
    shell.plugins = [RECORDER]
    shell.given["RECORDER_LOG"] = str(log)
    flags = small(**{"param_records": RECORDS, "samples": 1, "phases": "rand-key", **values})
    ended = shell.dyno("run", "records", "-e", "recorder-counters", *flags, *more, "-o", shell.file, "--overwrite")
    assert ended.status == 0, ended
    calls = [json.loads(line)["call"] for line in log.read_text().splitlines()]
    return calls, shell.attempts("recorder-counters")[0]


@pytest.mark.claim("An engine's own counters are never read while the clock runs")
@pytest.mark.parametrize("clients", [1, 2])
def test_counters_are_read_outside_the_clock(shell: Shell, clients: int) -> None:
    calls, _ = run(shell, clients=clients)
    last_before, after = [at for at, call in enumerate(calls) if call == READ][-2:]
    measured = [call for call in calls[last_before + 1 : after] if call in ("get", READ, PUBLISH)]
    # Each client publishes its counts when its operations have ended; one may end before the other.
    assert measured.count("get") == RECORDS
    assert measured.count(PUBLISH) == clients
    assert measured[-1] == PUBLISH
    if clients == 1:
        assert measured == ["get"] * RECORDS + [PUBLISH]
    # Before the clock starts: what the warm-up has counted is published, and then read.
    before = [call for call in calls[: last_before + 1] if call in ("get", READ, PUBLISH)]
    assert before[-4:] == [PUBLISH] + [READ] * 3
    assert before.count(PUBLISH) == clients
    assert before.count("get") >= RECORDS


def test_counters_grow_by_the_work_of_the_phase_alone(shell: Shell) -> None:
    _, trial = run(shell)
    (sample,) = trial["samples"]
    # Neither the warm-up nor the readings are in it, nor what shrank, nor what the engine doesn't declare.
    assert sample["counters"] == {"gets": RECORDS, "readings": 0}
    assert "counters" in trial["spent_ns"]


def test_counters_are_medians_in_show_json(shell: Shell) -> None:
    run(shell, samples=2)
    cells = json.loads(shell.dyno("show", shell.file, "--json").out)["cells"]
    counters = {cell["engine"]: cell["counters"] for cell in cells}
    assert counters["recorder-counters"] == {"gets": RECORDS, "readings": 0}
    assert counters["nullkv"] == {}


def test_unreadable_counters_cost_one_remark_and_no_figure(shell: Shell) -> None:
    shell.given["RECORDER_COUNTERS"] = "no right\nto count"
    calls, trial = run(shell, phases="rand-key,rand-index")
    assert trial["outcome"] == "ok"
    assert [sample["counters"] for sample in trial["samples"]] == [{}, {}]
    assert all(sample["items"] > 0 for sample in trial["samples"])
    assert calls.count(READ) == 1, "read again after it had failed"
    remarks = [caveat for caveat in trial["caveats"] if caveat["code"] == "no-counters"]
    assert len(remarks) == 1
    assert remarks[0]["text"].endswith("reading them failed (no right to count)")
