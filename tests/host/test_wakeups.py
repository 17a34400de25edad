"""Tests the cost of a wake-up, computed from real and made-up round trips of two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dyno.host import keep_awake
from dyno.host.keep_awake import CannotKeepAwake, _figures, _pair
from dyno.host.keep_awake import wakeups as measured

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone is looked at")
Plant = Callable[[Mapping[str, str]], Path]
CORES = sorted(os.sched_getaffinity(0))
TIMES = {"p50_ns", "p99_ns", "awake_p50_ns", "awake_p99_ns"}


def can_stay() -> bool:
    try:
        with keep_awake.keep_cores_awake():
            return True
    except CannotKeepAwake:
        return False


@pytest.mark.claim("The cost of waking a core is measured when a run begins whose processes wait for each other")
@pytest.mark.usefixtures("processes")
@pytest.mark.serial
def test_round_trips_are_measured_asleep_and_awake() -> None:
    # On a busy machine, this short time may have too few round trips.
    found: Any = next((told for _ in range(5) if (told := measured(0.4)) and told["cost_ns"] is not None), None)
    if found is None:
        assert not can_stay(), "the machine is too busy"
        return
    assert set(found) == {"cost_ns", "apart", "free"}
    assert (found["apart"] is None) == (len(CORES) == 1)
    assert found["cost_ns"] >= 0
    known = [times for times in (found["apart"], found["free"]) if times and None not in times.values()]
    assert known
    for times in known:
        assert set(times) == TIMES
        # A system call alone takes a few hundred ns.
        assert 1_000 < times["p50_ns"] <= times["p99_ns"]
        assert 1_000 < times["awake_p50_ns"] <= times["awake_p99_ns"]


@pytest.mark.usefixtures("processes")
def test_measurement_leaves_no_process_behind() -> None:
    assert measured(0.05) is not None
    told = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"{keep_awake.MODULE} wakeups {os.getpid()}" not in told


@pytest.mark.claim("The cost of waking a core is measured when a run begins whose processes wait for each other")
def test_wakeup_costs_half_the_extra_round_trip_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the larger cost of the two placements, `apart` and `free`."""
    monkeypatch.setattr("dyno.host.keep_awake.cores", lambda: [0, 1])
    monkeypatch.setattr("dyno.host.keep_awake.quota_cores", lambda root: None)
    kept: list[int] = []

    def spin(core: int) -> int:
        kept.append(core)
        return core

    monkeypatch.setattr("dyno.host.keep_awake.spinner", spin)
    monkeypatch.setattr("dyno.host.keep_awake.end", lambda pids: kept.clear())
    trips = {(False, True): 50_000, (True, True): 10_000, (False, False): 12_000, (True, False): 9_000}
    monkeypatch.setattr(
        "dyno.host.keep_awake._round_trips", lambda mine, theirs, s: [trips[bool(kept), mine != theirs]] * 100
    )
    found = keep_awake._measure(1.0)
    assert found["cost_ns"] == 20_000
    assert found["apart"] == {"p50_ns": 50_000, "p99_ns": 50_000, "awake_p50_ns": 10_000, "awake_p99_ns": 10_000}
    assert found["free"] == {"p50_ns": 12_000, "p99_ns": 12_000, "awake_p50_ns": 9_000, "awake_p99_ns": 9_000}


@pytest.mark.parametrize("how", ["a limit of CPU time", "not allowed"])
def test_wakeup_cost_is_unknown_without_awake_cores(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    def forbidden(core: int) -> int:
        raise PermissionError

    monkeypatch.setattr("dyno.host.keep_awake.cores", lambda: [0, 1])
    monkeypatch.setattr("dyno.host.keep_awake.quota_cores", lambda root: 1.5 if how.startswith("a limit") else None)
    monkeypatch.setattr("dyno.host.keep_awake.spinner", forbidden)
    monkeypatch.setattr("dyno.host.keep_awake._round_trips", lambda mine, theirs, seconds: [40_000] * 100)
    found = keep_awake._measure(1.0)
    assert found["cost_ns"] is None
    for where in ("apart", "free"):
        assert found[where] == {"p50_ns": 40_000, "p99_ns": 40_000, "awake_p50_ns": None, "awake_p99_ns": None}


def test_few_round_trips_have_no_median() -> None:
    assert set(_figures([1_000] * 19, []).values()) == {None}
    assert _figures([*range(100)], [])["p99_ns"] == 99


@pytest.mark.parametrize(
    ("siblings", "there", "pair"),
    [
        ("0,2", [0, 1, 2, 3], [0, 1]),
        ("0-1", [0, 1, 2, 3], [0, 2]),
        ("0-1", [0, 1], [0, 1]),
        (None, [0, 1, 2], [0, 1]),
        (None, [3], [3]),
    ],
)
def test_pair_prefers_different_physical_cores(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, siblings: str | None, there: list[int], pair: list[int]
) -> None:
    place = f"sys/devices/system/cpu/cpu{there[0]}/topology/thread_siblings_list"
    monkeypatch.setattr("dyno.host.keep_awake.ROOT", plant({place: siblings} if siblings else {"x": ""}))
    assert _pair(there) == pair
