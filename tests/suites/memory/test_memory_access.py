"""Runs the checks of the port `memory-access` on the engines of the suite memory: each has its own patterns and moves
the bytes that it reports. The checks fail on reports that contradict themselves.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from held import unstored
from needed import require

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Absent, Wrong
from dyno.contracts.suite import Report
from dyno.host.procfs import Cache, caches
from dyno.suites.memory import BLOCKS, CHASE, TRIAD
from dyno.suites.memory.workload import CHECKS, check_report

pytestmark = pytest.mark.usefixtures("processes")

PORT = "memory-access"
SPECS = [spec for spec in registry.engines() if PORT in spec.ports]
PATTERNS = {"sysbench": BLOCKS, "native_kernel": (TRIAD, CHASE)}
SIZE = 128 << 10


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_engine_passes_the_check(spec: EngineSpec, check: str, tmp_path: Path) -> None:
    require(spec)
    CHECKS[check](unstored(spec, PORT, tmp_path), None)


@pytest.mark.parametrize("pattern", [*BLOCKS, TRIAD, CHASE])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_engine_runs_its_patterns_and_no_others(spec: EngineSpec, pattern: str, tmp_path: Path) -> None:
    require(spec)
    with unstored(spec, PORT, tmp_path)("") as port:
        if pattern not in PATTERNS[spec.name]:
            with pytest.raises(Absent):
                port.work(pattern, 2, SIZE, 1_000_000, 1)
            return
        report = port.work(pattern, 2, SIZE, 1_000_000, 1)
    assert check_report(pattern, report, 2) > 0
    if pattern == CHASE:
        assert report.bytes is None
    else:
        assert SIZE - 24 < report.bytes // report.operations <= SIZE, "each event covers the working set"


# -- the suite itself ---------------------------------------------------------------------------------------------

RIGHT = Report(tool="stub", operations=6, items=6, elapsed_ns=4_000, bytes=6 * SIZE, facts={"wrong": 0})
BROKEN = {
    "nothing": replace(RIGHT, operations=0),
    "no time": replace(RIGHT, elapsed_ns=0),
    "no bytes": replace(RIGHT, bytes=0),
    "bytes not reported": replace(RIGHT, bytes=None),
    "an element that is wrong": replace(RIGHT, facts={"wrong": 1}),
    "wrong as text": replace(RIGHT, facts={"wrong": "0"}),
}


def test_a_consistent_report_passes() -> None:
    assert check_report(TRIAD, RIGHT, 1) == 2
    assert check_report(CHASE, replace(RIGHT, bytes=None), 1) == 2


@pytest.mark.claim("An outside tool's report is checked for consistency")
@pytest.mark.parametrize("how", BROKEN)
def test_an_inconsistent_report_fails(how: str) -> None:
    with pytest.raises(Wrong):
        check_report(TRIAD, BROKEN[how], 1)


# -- cache sizes from the kernel ----------------------------------------------------------------------------------


def test_caches_list_data_caches_by_size(tmp_path: Path) -> None:
    reports = [
        ("3", "Unified", "32768K", "0-3,8-11"),
        ("1", "Data", "48K", "0"),
        ("1", "Instruction", "32K", "0"),
        ("2", "Unified", "1024K", "0,4"),
    ]
    for at, values in enumerate(reports):
        index = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{at}"
        index.mkdir(parents=True)
        for name, value in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
            (index / name).write_text(value + "\n")
    expected = [Cache("L1d", 48 << 10, 1), Cache("L2", 1 << 20, 2), Cache("L3", 32 << 20, 8)]
    assert caches(root=tmp_path) == expected


def test_without_caches_in_sysfs_the_list_is_empty(tmp_path: Path) -> None:
    assert caches(root=tmp_path) == []
