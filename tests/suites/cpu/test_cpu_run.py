"""Runs the suite cpu like a user: both engines by number of threads, with the machine's state, and the error if
sysbench is missing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from needed import require
from shell import Shell
from teed import printed_figures, tee_tools

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

CPUS = len(os.sched_getaffinity(0))
FACTS = {
    *("latency_min_ns", "latency_avg_ns", "latency_p95_ns", "latency_max_ns"),
    *("events_per_thread", "events_deviation"),
    *("clock_mhz", "stolen_percent", "held_back_ns", "overheated"),
}


def run(shell: Shell, *words: object) -> str:
    ended = shell.dyno("run", "cpu", "-p", "max_prime=1000", "--samples", 1, "--budget", 1, "-o", shell.file, *words)
    assert ended.status == 0, ended
    return ended.out


def test_engines_report_events_by_number_of_threads(shell: Shell, tmp_path: Path) -> None:
    engines = ("native_kernel", "sysbench")
    for name in engines:
        require(registry.engine(name))
    output = tee_tools(shell, tmp_path / "tools", "sysbench")
    out = run(shell, "-e", ",".join(engines), "--clients", "1,2")
    for name in engines:
        samples = [(line["cell"], sample) for line in shell.attempts(name) for sample in line["samples"]]
        assert len(samples) == 2
        for _, sample in samples:
            assert sample["void"] is None and sample["errors"] == 0 and sample["operations"] > 0
            assert set(sample["facts"]) >= FACTS
            assert sample["reported_by"].startswith({"sysbench": "sysbench 1"}.get(name, "Dyno's own kernel"))
            assert sample["histogram"] is not None
        assert sorted(sample["clients"] for _, sample in samples) == [1, 2]
    assert "sysbench is faster" not in out and "native_kernel is faster" not in out, "no two tools are ranked"
    assert "Throughput of several clients" in out and "knee" in out
    *_, last = shell.attempts("sysbench")
    assert_figures_are_printed(last["samples"][-1], output)


def assert_figures_are_printed(sample: dict[str, Any], output: Path) -> None:
    """Compares a sample with the end of what sysbench printed: its time with four decimals and its rate with two."""
    *_, printed = printed_figures(output, r"events per second:\s+([\d.]+)")
    assert sample["items"] / sample["elapsed_ns"] * 1e9 == pytest.approx(printed, rel=0.05)
    *_, total = printed_figures(output, r"total number of events:\s+(\d+)")
    assert sample["items"] == total
    *_, p95 = printed_figures(output, r"95th percentile:\s+([\d.]+)")
    assert sample["facts"]["latency_p95_ns"] == round(p95 * 1e6)


def test_clients_may_be_multiples_of_cpus(shell: Shell) -> None:
    require(registry.engine("native_kernel"))
    run(shell, "-e", "native_kernel", "--clients", "cpus,2cpus,cpus/1")
    (first, second) = (sample["clients"] for line in shell.attempts("native_kernel") for sample in line["samples"])
    assert {first, second} == {CPUS, 2 * CPUS}


@pytest.mark.claim("An outside tool can't be given a rate")
def test_a_rate_is_refused(shell: Shell) -> None:
    require(registry.engine("native_kernel"))
    ended = shell.run_here("run", "cpu", "-e", "native_kernel", "--rate", 10, "--samples", 1, "-o", shell.file)
    assert ended.status == 2
    assert "rate has no effect on primes (an outside tool does the work): leave it out" in ended.err
    assert not shell.file.exists()


def test_missing_sysbench_names_the_install_command(shell: Shell, tmp_path: Path) -> None:
    shell.given["PATH"] = str(tmp_path)
    ended = shell.dyno("run", "cpu", "-e", "sysbench")
    assert ended.status == 2
    assert ended.err.splitlines()[-1:] == ["dyno: engine sysbench needs sysbench: dyno install sysbench"]
