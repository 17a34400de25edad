"""Pace of a phase in whole runs: a rate, a duration, a warm-up.

Guards rule 7 of measuring: an open loop records response times and the harness's own lateness beside the service
times. Tests assert on operations and counts, never on elapsed time.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from shell import RECORDER, Shell, wait_for

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.serial]

Sample = dict[str, Any]
FLOOR_SECONDS = 0.3
"""Maximum measuring time of a null engine that runs beside other engines."""
DUE = {"uniform": (2000 * FLOOR_SECONDS, 2000 * 0.5), "poisson": (561, 975)}
"""Operations due in FLOOR_SECONDS and in half a second, at 2,000 per second: at even intervals, and at random with
seed 1.
"""


def run(shell: Shell, engines: str, *words: object) -> dict[str, dict[str, Sample]]:
    """Runs one trial of each engine. Returns the samples by phase."""
    ended = shell.dyno("run", "records", "-e", engines, "--samples", "1", "--retries", "0", *words, "-o", shell.file)
    header, *trials = [json.loads(line) for line in shell.file.read_text().splitlines()]
    assert [trial["outcome"] for trial in trials] == ["ok"] * len(header["cells"]), ended
    assert all(sample["void"] is None for trial in trials for sample in trial["samples"])
    return {
        header["cells"][trial["cell"]]["engine"]: {sample["phase"]: sample for sample in trial["samples"]}
        for trial in trials
    }


def counts(encoded: str | None) -> int:
    """Number of values in a histogram."""
    assert encoded is not None
    return int(HdrHistogram.decode(encoded).get_total_count())


# -- an open loop ---------------------------------------------------------------------------------------------


@pytest.mark.claim("An open loop reports service time, response time and Dyno's own lateness under three names")
@pytest.mark.parametrize("loop", ["auto", "python"])
@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_open_loop_holds_rate_and_records_three_times(shell: Shell, arrivals: str, loop: str) -> None:
    words = ("--rate", 2000, "--duration", 0.5, "--phases", "rand-key", "--arrivals", arrivals, "--loop", loop)
    samples = run(shell, "null,memory", *words)
    assert {"null", "memory"} <= set(samples)
    for engine, phases in samples.items():
        sample = phases["rand-key"]
        # All operations that were due by then; a stall at the very end may lose some.
        due = DUE[arrivals][engine == "memory"]
        assert 0.88 * due <= sample["operations"] <= due + 1
        assert sample["items"] == sample["operations"]
        for times in ("histogram", "response", "late"):
            assert counts(sample[times]) == sample["operations"]
        assert (sample["ended_by"], sample["temperature"]) == ("duration", "hot")
    assert samples["null"]["rand-key"]["checked"] == 0
    assert samples["memory"]["rand-key"]["checked"] == samples["memory"]["rand-key"]["operations"]


@pytest.mark.claim("An open loop reports service time, response time and Dyno's own lateness under three names")
def test_response_time_counts_from_due_time(shell: Shell) -> None:
    """An engine that can do about 200 operations per second gets 2,000."""
    shell.plugins, shell.given = [RECORDER], {"RECORDER_LOG": str(shell.home / "calls")}
    words = ("-p", "records=40", "--rate", 2000, "--budget", 20, "--phases", "mixed", "-p", "mix=c")
    sample = run(shell, "recorder:pause_us=5000", *words)["recorder"]["mixed"]
    assert (sample["operations"], sample["ended_by"]) == (40, "count")
    served, responded, late = (HdrHistogram.decode(sample[name]) for name in ("histogram", "response", "late"))
    # The last operation was due after 20 ms, and waited for the 39 others of 5 ms each.
    assert responded.get_max_value() > 150e6
    assert responded.get_value_at_percentile(50) > 10 * 5e6
    # The engine's delays do not count as the harness's lateness.
    assert late.get_value_at_percentile(50) < served.get_value_at_percentile(50)
    assert served.get_min_value() >= 5e6


def test_clients_share_the_rate(shell: Shell) -> None:
    words = ("-p", "records=2000", "--rate", "600", "--clients", "3", "--duration", "0.5", "--phases", "rand-key")
    for engine, phases in run(shell, "sqlite", *words).items():
        due = 600 * (0.5 if engine == "sqlite" else FLOOR_SECONDS)
        assert 0.83 * due <= phases["rand-key"]["operations"] <= due + 3


def test_bulk_phase_at_a_rate_has_no_latencies(shell: Shell) -> None:
    words = ("-p", "records=300", "--rate", "1000", "--phases", "insert-blind-indices,rand-key,update")
    samples = run(shell, "memory", *words)["memory"]
    assert not samples.pop("rand-key")["bulk"]
    for sample in samples.values():
        assert sample["bulk"]
        assert {sample[name] for name in ("histogram", "response", "late", "due")} == {None}


def test_rates_and_clients_make_cells(shell: Shell) -> None:
    words = ("-p", "records=300", "--rate", "5000,max", "--clients", "1,2", "--phases", "rand-key", "--samples", "1")
    assert shell.dyno("run", "records", "-e", "lmdb", *words, "-o", shell.file).status == 0
    header = json.loads(shell.file.read_text().splitlines()[0])
    paces = [(cell["params"]["clients"], cell["params"]["rate"]) for cell in header["cells"] if not cell["floor"]]
    assert sorted(paces, key=str) == [(1, "max"), (1, 5000.0), (2, "max"), (2, 5000.0)]
    for attempt in shell.attempts():
        params = header["cells"][attempt["cell"]]["params"]
        for sample in attempt["samples"]:
            assert (sample["operations"], sample["clients"]) == (300, params["clients"])
            assert (sample["response"] is None) == (params["rate"] == "max")


# -- a duration -----------------------------------------------------------------------------------------------


def test_duration_spans_several_rounds_and_yields_a_series(shell: Shell) -> None:
    # The Python loop takes less time to prepare, which matters for the null engine.
    words = ("-p", "records=2000", "--duration", "1.2", "--phases", "rand-key", "--loop", "python")
    for engine, phases in run(shell, "sqlite", *words).items():
        sample = phases["rand-key"]
        assert (sample["ended_by"], sample["temperature"]) == ("duration", "hot")
        assert sample["operations"] > 2000, "more than a round"
        series = sample["series"]
        # The measuring time of a null engine is short whatever the duration.
        assert len(series) >= (2 if engine == "sqlite" else 0)
        if engine != "sqlite":
            assert sample["elapsed_ns"] < 1e9
            continue
        assert sum(point["operations"] for point in series) == sample["operations"]
        assert [point["from_ns"] for point in series] == [place * 10**9 for place in range(len(series))]
        assert all(0 <= point["p50_ns"] <= point["p99_ns"] for point in series)


def test_single_round_phase_ends_by_count_before_duration(shell: Shell) -> None:
    words = ("-p", "records=300", "--duration", "60", "--phases", "insert-blind-indices,mixed,delete", "-p", "mix=d")
    for phases in run(shell, "memory", *words).values():
        assert {name: sample["ended_by"] for name, sample in phases.items()} == dict.fromkeys(phases, "count")
        assert [sample["items"] for sample in phases.values()] == [900, 300, 300]


@pytest.mark.parametrize("txn", ["all", "7"])
def test_updates_fill_duration_with_right_answers(shell: Shell, txn: str) -> None:
    words = ("-p", "records=30", "-p", f"txn={txn}", "--duration", "0.02", "--phases", "update,mixed")
    for engine, phases in run(shell, "sqlite", *words, "--loop", "python").items():
        for sample in phases.values():
            assert sample["ended_by"] == "duration"
            assert sample["items"] > 30
            if not engine.startswith("null"):
                assert sample["checked"] >= sample["items"]


# -- a warm-up ------------------------------------------------------------------------------------------------


def gets(shell: Shell, *words: object) -> tuple[list[str], Sample]:
    """The keys requested from a recording engine in a read-only phase, and its sample."""
    log = shell.home / "calls"
    log.unlink(missing_ok=True)
    shell.plugins, shell.given = [RECORDER], {"RECORDER_LOG": str(log)}
    plan = ("-p", "records=40", "--phases", "mixed", "-p", "mix=c", "--overwrite")
    sample = run(shell, "recorder", *plan, *words)["recorder"]["mixed"]
    events = [json.loads(line) for line in log.read_text().splitlines()]
    start = next(at for at, event in enumerate(events) if event["call"] == "version")
    keys = [event["key"] for event in events[start:] if event["call"] == "get"]
    return keys, sample


def test_warmup_is_unrecorded_and_leaves_measured_operations_unchanged(shell: Shell) -> None:
    once, cold = gets(shell)
    warmed, warm = gets(shell, "--warmup", "0.01")
    # The verification afterwards gets a hundred keys, independent of the phase's keys.
    assert len(warmed) > len(once) + 40
    assert warmed[-len(once) :] == once
    assert (warm["operations"], warm["checked"]) == (cold["operations"], cold["checked"])
    assert counts(warm["histogram"]) == 40


@pytest.mark.parametrize("txn", ["all", "1"])
def test_every_phase_can_be_warmed_up(shell: Shell, txn: str) -> None:
    samples = run(
        shell,
        "sqlite",
        "-p",
        "records=300",
        "-p",
        f"txn={txn}",
        "--warmup",
        "0.005",
        "--budget",
        "20",
        "--phases",
        "all",
    )
    for phases in samples.values():
        assert len(phases) == 12
        assert {sample["ended_by"] for sample in phases.values()} == {"count"}
        assert phases["rand-key"]["operations"] == 300
        assert phases["update"]["items"] == phases["mixed"]["items"] == phases["delete"]["items"] == 300


# -- an interruption ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 2])
def test_interrupted_open_loop_leaves_no_process_or_file(shell: Shell, clients: int) -> None:
    log = shell.home / "calls"
    shell.plugins, shell.given = [RECORDER], {"RECORDER_LOG": str(log)}
    # With this seed, the recording engine's trial is the first.
    words = ["-p", "records=2000", "-p", "mix=c", "--phases", "mixed", "--samples", "1", "--seed", "1"]
    words += ["--rate", "50", "--duration", "600", "--clients", str(clients)]

    def at_work() -> bool:
        """All clients have completed some operations."""
        calls = log.read_text() if log.exists() else ""
        events = [json.loads(line) for line in calls.partition('"call": "version"')[2].splitlines()[1:]]
        return len({event["pid"] for event in events if event["call"] == "get"}) == clients and len(events) > 40

    with shell.started("run", "records", "-e", "recorder-lmdb", *words, "-o", shell.file) as process:
        assert wait_for(at_work), process.poll()
        # The parent, the fork server, a worker, and its clients if they are processes.
        assert len(shell.alive()) == (3 if clients == 1 else 3 + clients)
        assert shell.trial_lines() == 0
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == 130
        assert shell.strays() == []
    assert shell.left() == []
    assert out == ""
    assert err.endswith("dyno: interrupted\n")
    assert "Traceback" not in err
    assert not shell.file.exists()
