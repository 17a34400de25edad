"""Runs the suite memory like a user: both engines, the cache sizes beside the figures, and the chart."""

from __future__ import annotations

import json

import pytest
from needed import require
from shell import Shell

from dyno import registry
from dyno.suites.memory import BLOCKS, CHASE, TRIAD

pytestmark = pytest.mark.usefixtures("processes")


def test_each_engine_measures_its_own_patterns(shell: Shell) -> None:
    for name in ("sysbench", "native_kernel"):
        require(registry.engine(name))
    ended = shell.dyno(
        *("run", "memory", "-e", "sysbench,native_kernel", "-p", "size_kib=16,64", "--clients", 2, "--samples", 1),
        *("--budget", 0.2, "-o", shell.file),
    )
    assert ended.status == 0, ended
    assert "hop ns" in ended.out and "triad MB/s" in ended.out
    for name, patterns in (("sysbench", {*BLOCKS}), ("native_kernel", {TRIAD, CHASE})):
        for line in shell.attempts(name):
            assert {sample["phase"] for sample in line["samples"]} == patterns
            for sample in line["samples"]:
                assert sample["void"] is None and sample["operations"] > 0 and sample["clients"] == 2
                assert "fits" in sample["facts"]
                assert (sample["facts"].get("hop_ns", 0) > 0) == (sample["phase"] == CHASE)
                assert (sample["bytes"] is None) == (sample["phase"] == CHASE)


def test_caches_chart_plots_chase_by_size(shell: Shell) -> None:
    require(registry.engine("native_kernel"))
    sizes = ("-p", "size_kib=4,64")
    ended = shell.dyno(
        *("run", "memory", "-e", "native_kernel", "--phases", CHASE, *sizes, "--samples", 1),
        *("--budget", 0.1, "-o", shell.file),
    )
    assert ended.status == 0, ended
    header = json.loads(shell.file.read_text().splitlines()[0])
    assert [chart["name"] for chart in header["charts"]] == ["caches"]
    drawn = shell.dyno("plot", shell.file, "--chart", "caches", "-o", "-")
    assert drawn.status == 0 and "KiB of each thread" in drawn.out, drawn.err
