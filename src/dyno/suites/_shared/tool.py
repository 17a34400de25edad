"""Checks of the report of an outside tool, and facts of the machine while it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic_ns

from dyno.contracts.model import Fact, Wrong
from dyno.contracts.suite import Report
from dyno.host import strain
from dyno.host.frequency import mean_mhz

ROUNDING = 0.02
"""Relative error of a latency, from the buckets of the tool's histogram."""


def plausible(report: Report, threads: int) -> int:
    """Returns the number of figures compared with each other. Raises Wrong if they contradict each other."""
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
    """Calls the tool and adds facts of the machine to its report: clock_mhz, read once after half of the time;
    stolen_percent, held_back_ns and overheated from `host.strain.since`."""
    clocks: list[float | None] = []
    timer = threading.Timer(limit_ns / 2e9, lambda: clocks.append(mean_mhz()))
    timer.daemon = True
    before, begin = strain.counters(), monotonic_ns()
    timer.start()
    report = call(limit_ns)
    stress = strain.since(before, strain.counters(), monotonic_ns() - begin)
    timer.cancel()
    facts: dict[str, Fact] = {
        "clock_mhz": next(iter(clocks), None),
        "stolen_percent": stress["steal_percent"],
        "held_back_ns": stress["throttled_ns"],
        "overheated": stress["thermal_throttles"],
    }
    return replace(report, facts={**report.facts, **facts})
