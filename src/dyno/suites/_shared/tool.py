"""Workloads whose phases are runs of a tool that measures itself, with checks of its report."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import monotonic_ns
from typing import Any

from dyno.contracts.model import Fact, Phase, Wrong
from dyno.contracts.suite import Report, Reported, Work
from dyno.host.facts import counters, since
from dyno.host.procfs import mean_mhz
from dyno.suites._shared.store import OnStore

ROUNDING = 0.02
"""Relative error of a latency, which comes from the buckets of the tool's histogram."""


def plausible(report: Report, threads: int) -> int:
    """Checks that the figures of a report agree. Returns the number of compared figures. Raises Wrong if they
    don't."""
    if report.operations <= 0 or report.elapsed_ns <= 0:
        raise Wrong(f"{report.tool} did nothing: {report.operations} operations in {report.elapsed_ns} ns")
    if not report.latencies:
        return 1
    counted = sum(times for _, times in report.latencies)
    if counted != report.items:
        raise Wrong(f"{report.tool} reports {counted} latencies of {report.items} events")
    busy_ns = sum(value * times for value, times in report.latencies)
    if busy_ns > threads * report.elapsed_ns * (1 + ROUNDING) + report.operations * 1_000:
        raise Wrong(f"{report.tool} reports latencies of {busy_ns} ns in {threads} times {report.elapsed_ns} ns")
    return 3


def watched(call: Callable[[int], Report], limit_ns: int) -> Report:
    """Calls the tool, and adds facts of the machine to its report: clock_mhz, read once after half of the time, and
    stolen_percent, held_back_ns and overheated from `host.facts.since`."""
    clocks: list[float | None] = []
    timer = threading.Timer(limit_ns / 2e9, lambda: clocks.append(mean_mhz()))
    timer.daemon = True
    before, begin = counters(), monotonic_ns()
    timer.start()
    report = call(limit_ns)
    stress = since(before, counters(), monotonic_ns() - begin)
    timer.cancel()
    facts: dict[str, Fact] = {
        "clock_mhz": next(iter(clocks), None),
        "stolen_percent": stress["steal_percent"],
        "held_back_ns": stress["throttled_ns"],
        "overheated": stress["thermal_throttles"],
    }
    return replace(report, facts={**report.facts, **facts})


class ToolWorkload(OnStore):
    """Workload of a single tool run per phase, with one report for all clients."""

    def run(self, port: Any, phase: Phase, limit_ns: int) -> Report:
        """Runs the tool for `limit_ns`. Returns its report."""
        raise NotImplementedError

    def check(self, phase: Phase, report: Report) -> int:
        """Returns the number of compared figures. Raises Wrong if they contradict each other."""
        return plausible(report, self._job.clients)

    def prepare(self, phase: Phase) -> None:
        self.begin()

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        yield Reported(partial(watched, partial(self.run, port, phase)), partial(self.check, phase))
