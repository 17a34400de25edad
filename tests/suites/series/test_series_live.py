"""Tests the phase `live` of the suite series: every event of a real IOC is archived, nothing is left behind, and
lost, late and wrong events are noticed."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needed import unavailable
from shell import Shell

from dyno.contracts.model import Absent, Refused, Wrong
from dyno.suites.series import live
from dyno.suites.series.dataset import SECOND
from dyno.suites.series.ioc import database, names
from dyno.suites.series.live import LiveRun
from dyno.suites.series.port import SampleBatch

pytestmark = pytest.mark.usefixtures("processes")

FEW = ("-p", "live_variables=20", "-p", "live_hz=5", "-p", "live_s=2")


def test_ioc_events_are_all_archived_and_processes_end(shell: Shell) -> None:
    if why := live.explain_missing_libraries():
        unavailable(why)
    words = ("run", "series", "-e", "sqlite", *FEW, "--phases", "live", "--samples", "1")
    ended = shell.dyno(*words, "-o", shell.file)
    assert ended.status == 0, ended.out + ended.err
    assert all(cell["valid"] for cell in shell.cells().values())
    (line,) = shell.attempts("sqlite")
    (sample,) = line["samples"]
    facts = sample["facts"]
    assert facts["lost_events"] == 0 and sample["errors"] == 0
    # 20 variables, five times a second, for two seconds, and one more scan at either end. A delayed IOC skips scans,
    # but loses no number.
    assert 20 <= sample["items"] <= 12 * 20 and sample["checked"] > sample["items"]
    assert sample["histogram"] and sample["reported_by"].startswith("softioc ")
    assert facts["batches"] > 1 and facts["kept_up"] in ("yes", "no")
    assert shell.strays() == [], "neither the IOC nor what an EPICS client starts beside itself"


def test_live_phase_is_absent_without_its_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(live, "MODULES", ("softioc", "no_such_module"))
    with pytest.raises(Absent, match=r"needs no_such_module: .*pip install 'dyno-bench\[epics\]'"):
        LiveRun(tmp_path, 1, 1, 1, 1)


def test_records_of_the_ioc_count_their_changes() -> None:
    text = database(names(3), 10)
    assert text.count("record(calc,") == 3 and text.count('"A+1"') == 3 and text.count('".1 second"') == 3


# -- lost, late and missing events --------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *numbers: list[float]) -> LiveRun:
    """A run that received these events of each variable: the first number precedes the measured time, the last
    follows it.
    """
    monkeypatch.setattr(live, "explain_missing_libraries", lambda: None)
    live_run = LiveRun(tmp_path, len(numbers), 1, 1, 100)
    live_run._before = {pv: each[0] for pv, each in enumerate(numbers)}
    live_run._after = {pv: each[-1] for pv, each in enumerate(numbers)}
    rows = [(pv, round(value * SECOND), value, 0, 0) for pv, each in enumerate(numbers) for value in each[1:-1]]
    types = "i4", "i8", "f8", "i2", "i2"
    columns = zip(*rows, strict=True) if rows else [()] * 5
    batch = SampleBatch(*(np.array(list(values), kind) for values, kind in zip(columns, types, strict=True)))
    store: Any = type("Port", (), {"insert": lambda self, batch: None})()
    if len(batch.ts):
        monkeypatch.setattr(live, "time_ns", lambda: 10 * SECOND)
        live_run._insert(store, [tuple(row) for row in rows])  # type: ignore[misc]
    return live_run


@pytest.mark.parametrize(
    ("numbers", "lost"),
    [
        (([1, 2, 3, 4], [5, 6, 7]), 0),
        (([1, 2, 4, 5], [5, 6, 7]), 1),
        (([1, 4, 5], [5, 6, 9]), 4),
        (([1, 4, 99], [5, 6, 7]), 96),
        # Events out of order are not lost.
        (([1, 3, 2, 4], [5, 6, 7]), 0),
    ],
)
def test_missing_sequence_number_counts_as_lost_event(
    numbers: Any, lost: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = run(monkeypatch, tmp_path, *numbers)._report(SECOND, 9 * SECOND, 0, 5)
    assert report.facts["lost_events"] == report.errors == lost
    assert report.facts["kept_up"] == ("no" if lost else "yes")
    assert report.items == sum(len(each) - 2 for each in numbers) == sum(count for _, count in report.latencies)
    # More events may be lost than were received.
    assert report.operations == report.items + lost
    assert ("kept up with" in str(report.first_error)) is bool(lost)


def test_lag_spans_event_time_to_acknowledgement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = run(monkeypatch, tmp_path, [1, 2, 3, 4])._report(SECOND, 9 * SECOND, SECOND * 3, 5)
    assert report.latencies == [(7 * SECOND, 1), (8 * SECOND, 1)]
    (point,) = report.series
    assert (point["from_ns"], point["operations"], point["p50_ns"]) == (9 * SECOND, 2, 7 * SECOND)
    assert report.facts["kept_up"] == "no" and report.facts["behind_ns"] == 3 * SECOND


def test_a_variable_without_events_voids_the_phase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    received = run(monkeypatch, tmp_path, [1, 2, 3], [1, 2])
    with pytest.raises(Wrong, match="of 2 variables 1 had an event"):
        received.check(received._report(SECOND, 9 * SECOND, 0, 5))


def test_event_missing_from_archive_voids_the_phase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    received = run(monkeypatch, tmp_path, [1, 2, 3, 4])
    whole = received._batches[0]

    class Port:
        def __init__(self, count: int) -> None:
            self.count = count

        def settle(self) -> None:
            pass

        def all(self) -> Any:
            yield SampleBatch(*(values[: self.count] for values in whole))

    assert received.verify(Port(2)) == 1  # type: ignore[arg-type]
    with pytest.raises(Wrong, match="the archive has 1 samples"):
        received.verify(Port(1))  # type: ignore[arg-type]


# -- an archive that falls behind ---------------------------------------------------------------------------


def test_archive_falling_behind_is_refused_with_sustained_rate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each reading of the clock is a second later than the last; 30 events per 3 seconds are 10 per second, where 100
    are offered.
    """
    monkeypatch.setattr(live, "explain_missing_libraries", lambda: None)
    monkeypatch.setattr(live, "time_ns", partial(next, itertools.count(0, SECOND)))
    monkeypatch.setattr(live, "sleep", lambda seconds: None)
    row = (0, 1, 1.0, 0, 0)
    received: Any = type("Received", (), {"take": lambda self: [row] * 30})()
    store: Any = type("Port", (), {"insert": lambda self, batch: None})()
    live_run = LiveRun(tmp_path, variables=10, hz=10, seconds=10, period_ms=100)
    with pytest.raises(Refused, match=r"fell 30 s behind: it kept up with 10 events a second of the 100 offered"):
        live_run._archive(store, received, 0, 10 * SECOND)


@pytest.mark.timeout(20)
def test_event_receiver_closes_despite_endless_events() -> None:
    class Endless:
        def pop(self) -> Any:
            stamp, alarm = {"secondsPastEpoch": 1, "nanoseconds": 0}, {"status": 0, "severity": 0}
            return {"timeStamp": stamp, "alarm": alarm, "value": 1.0}

        def close(self) -> None:
            pass

    class Context:
        def monitor(self, name: str, told: Any, request: str) -> Endless:
            told()
            return Endless()

    received = live.EventReceiver(Context(), ["a", "b"])
    while not received.take():
        pass
    received.close()
