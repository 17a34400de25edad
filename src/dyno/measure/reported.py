"""Runs a phase that an outside tool executes and measures, and converts its report to a tally."""

import resource
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic_ns

from dyno.contracts.declarations import checked_count, checked_text
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Phase, Refused, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Report, Reported, Workload
from dyno.host.usage import NOTHING
from dyno.measure.tally import Tally


def reported(workload: Workload, phase: Phase, pace: Pace, ready: Callable[[], object]) -> Tally:
    """Runs the tool for the whole phase, with the tool's own clients. Raises Refused if a rate was requested, because
    the tool would not keep it."""
    if pace.rate is not None:
        raise Refused(f"phase {phase.name} is an outside tool's work, at no rate: leave --rate out")
    with workload.connect() as port:
        (work,) = workload.work(phase, port, 0, 1, 0)
        if not isinstance(work, Reported):
            raise TypeError(f"phase {phase.name} is declared `reported`, but its work is not")
        ready()
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), monotonic_ns()
        report = work.call(pace.limit_ns)
        wall_ns, after = monotonic_ns() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        tally = _tally(report, f"the report of phase {phase.name}")
        tally.wall_ns = wall_ns
        user, system = report.cpu_ns or (
            round((after.ru_utime - before.ru_utime) * 1e9),
            round((after.ru_stime - before.ru_stime) * 1e9),
        )
        tally.usage = replace(NOTHING, user_ns=user, system_ns=system)
        try:
            tally.checked = work.check(report)
        except Wrong as wrong:
            tally.void = str(wrong)
    return tally


def _tally(report: Report, where: str) -> Tally:
    names = ("operations", "items", "elapsed_ns", "errors")
    counts = {name: checked_count(getattr(report, name), f"{where}: {name}") for name in names}
    tally = Tally(
        **counts,
        busy_ns=counts["elapsed_ns"],
        first_error=None if report.first_error is None else checked_text(report.first_error, f"{where}: first_error"),
        bytes=None if report.bytes is None else checked_count(report.bytes, f"{where}: bytes"),
        reported_by=checked_text(report.tool, f"{where}: tool"),
    )
    tally.facts = report.facts
    tally.latency = _recorded(report.latencies)
    tally.by_kind = {kind: _recorded(values) for kind, values in report.by_kind.items()}
    tally.by_part = {part: _recorded(values) for part, values in report.by_part.items()}
    tally.points = tuple(
        {name: checked_count(value, f"{where}: series: {name}") for name, value in point.items()}
        for point in report.series
    )
    return tally


def _recorded(values: Iterable[tuple[int, int]]) -> Recorder:
    recorder = Recorder()
    for value_ns, times in values:
        recorder.add_many(value_ns, times)
    return recorder
