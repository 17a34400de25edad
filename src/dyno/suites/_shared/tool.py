"""What is asked of a report of an outside tool before its figures are believed, whatever it measured; and what the
machine went through meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic_ns

from dyno.contracts.model import Fact, Wrong
from dyno.contracts.suite import Report
from dyno.host import strain
from dyno.host.frequency import mean_mhz

ROUNDED = 0.02
"""Of a latency: the step of a tool's histogram."""


def plausible(report: Report, threads: int) -> int:
    """How many figures were held against each other. Raises Wrong where they can't all be true."""
    if report.operations <= 0 or report.elapsed_ns <= 0:
        raise Wrong(f"{report.tool} did nothing: {report.operations} operations in {report.elapsed_ns} ns")
    if not report.latencies:
        return 1
    counted = sum(times for _, times in report.latencies)
    if counted != report.items:
        raise Wrong(f"{report.tool} tells {counted} latencies of {report.items} events")
    busy_ns = sum(value * times for value, times in report.latencies)
    if busy_ns > threads * report.elapsed_ns * (1 + ROUNDED) + report.operations * 1_000:
        raise Wrong(f"{report.tool} tells latencies of {busy_ns} ns in {threads} times {report.elapsed_ns} ns")
    return 3


def watched(call: Callable[[int], Report], limit_ns: int) -> Report:
    """What `call` reports, with facts of the machine during it: clock_mhz, read once, after half of the time;
    stolen_percent, held_back_ns and overheated are `host.strain.since`'s steal_percent, throttled_ns and
    thermal_throttles."""
    seen: list[float | None] = []
    look = threading.Timer(limit_ns / 2e9, lambda: seen.append(mean_mhz()))
    look.daemon = True
    before, begin = strain.counters(), monotonic_ns()
    look.start()
    report = call(limit_ns)
    suffered = strain.since(before, strain.counters(), monotonic_ns() - begin)
    look.cancel()
    facts: dict[str, Fact] = {
        "clock_mhz": next(iter(seen), None),
        "stolen_percent": suffered["steal_percent"],
        "held_back_ns": suffered["throttled_ns"],
        "overheated": suffered["thermal_throttles"],
    }
    return replace(report, facts={**report.facts, **facts})
