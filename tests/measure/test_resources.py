"""Tests the watch over a trial's processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

import pytest

from dyno.measure import messages
from dyno.measure.worker_protocol import WorkerMessage
from dyno.runner import trial
from dyno.runner.trial import descendants
from dyno.runner.trial_report import TrialReport

COMING_AND_GOING = """
import os
while True:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
"""
LOOKS = 5_000
"""Number of searches. In about 10 of them, a process ends between two reads."""


@pytest.fixture
def restless() -> Iterator[int]:
    """A process whose children end at once, as those of a server may."""
    with subprocess.Popen([sys.executable, "-c", COMING_AND_GOING]) as process:
        yield process.pid
        process.kill()


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(sys.platform != "linux", reason="by the kernel's list of children")
def test_descendant_search_tolerates_vanishing_processes(restless: int) -> None:
    deadline = time.monotonic() + 30
    while not list(descendants(restless)) and time.monotonic() < deadline:
        pass
    for _ in range(LOOKS):
        list(descendants(restless))


@pytest.mark.parametrize(("takes", "looks"), [(0.0, 200), (0.004, 24), (5.0, 10)], ids=["small", "large", "huge"])
def test_process_search_interval_adapts_to_its_cost(
    monkeypatch: pytest.MonkeyPatch, takes: float, looks: int
) -> None:
    """Counts the searches in ten seconds at 20 reads per second, on fake clocks."""
    clock, used, found = [1_000.0], [0.0], []

    def look(pid: int) -> list[int]:
        found.append(clock[0])
        used[0] += takes
        return []

    monkeypatch.setattr(trial, "monotonic", lambda: clock[0])
    monkeypatch.setattr(trial, "thread_time", lambda: used[0])
    monkeypatch.setattr(trial, "descendants", look)
    watch = trial.Watch(1, 1 << 60, clock[0] + 3_600)
    for _ in range(200):
        assert watch.verdict() is None
        clock[0] += 0.05
    assert abs(len(found) - looks) <= looks // 8


def test_memory_of_descendants_is_read_at_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[list[int]] = []

    def weigh(pids: Iterable[int]) -> int:
        weighed.append(list(pids))
        return 0

    monkeypatch.setattr(trial, "descendants", lambda pid: [7, 8])
    monkeypatch.setattr(trial, "anonymous_bytes", weigh)
    watch = trial.Watch(1, 1, float("inf"))
    watch.verdict(), watch.verdict()
    assert weighed == [[1, 7, 8]] * 2


def test_check_time_extends_trial_deadline() -> None:
    """A trial has 100 s, from moment 0. The time of checks extends this deadline."""
    report, second = TrialReport(lambda phase: None, 0), 10**9

    def add(at: int, event: messages.WorkerEvent) -> float:
        report.add(WorkerMessage(event, at * second, at * second))
        return report.deadline(100.0, 100.0)

    assert add(1, messages.PhaseBegan("update")) == 100.0
    assert add(90, messages.CheckBegan()) == add(95, messages.CheckBegan()) == 190.0
    report.check_ns = 30 * second
    assert add(120, messages.PhaseBegan("get")) == 130.0
    assert add(125, messages.CheckBegan()) == 225.0
    assert add(126, messages.TrialFacts({})) == 130.0
