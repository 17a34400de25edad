"""Measures a callable in this process with Dyno's loop, and compares it with an earlier measurement.

Unlike the trials of a run, samples don't come from fresh processes: they share one memory layout, and no interval
includes its effect.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from dyno.contracts.histogram import percentiles
from dyno.contracts.model import UsageError, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure
from dyno.fields import COUNTED, Sample
from dyno.host.usage import Usage, measure_own, peaks_since_reset, reset_peaks, without_pauses
from dyno.measure.driver import measure
from dyno.measure.loop import pick
from dyno.measure.tally import Tally
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.two_runs import CHANCE, chance, compare_speeds, decide
from dyno.stats.verdict import Verdict
from dyno.suites.calls.functions import NEEDS_ASYNC, NEEDS_ONE_BY_ONE, Calls, explain_unmeasurable, is_async

PHASE = "call"
"""Phase and unit of a sample."""


@dataclass(frozen=True)
class Measured:
    """Measurement of a callable, with times in ns."""

    operations: int
    time_ns: tuple[float, ...]
    """Elapsed time per operation in each sample, including Dyno's own time between operations."""
    cpu_ns: tuple[float, ...]
    """CPU time of the process per operation in each sample."""
    latency_ns: dict[str, int | None]
    """`p50`, `p90`, `p95`, `p99`, `p999` and `max` of the operations of all samples."""
    loop: str
    """Name of the loop: 'native' or 'python'."""
    samples: tuple[Sample, ...] = field(repr=False)
    """The samples as a run file has them."""

    @property
    def time(self) -> Estimate:
        """The median over samples and its 95 % interval."""
        return estimate(self.time_ns)

    @property
    def cpu(self) -> Estimate:
        return estimate(self.cpu_ns)

    def values(self, metric: str) -> tuple[float, ...]:
        """Returns the value of each sample that has the metric 'time', 'cpu' or 'memory' (in bytes)."""
        return tuple(values_by_block(dict(enumerate(self.samples)), metric).values())


def measure_calls(
    function: Callable[..., object],
    arguments: Sequence[object] | None,
    samples: int,
    seconds: float,
    check: Callable[[Any, Any], bool] | None = None,
    setup: Callable[..., object] | None = None,
    inflight: int = 1,
) -> Measured:
    """Calls `function` with each of the arguments in turn, repeatedly, for `seconds` in each sample. If `arguments`
    is None, calls it without an argument. An `async def` runs on an event loop of its own, with `inflight` calls at
    the same time.

    `check` takes an argument and the answer, and returns whether the answer is right. `setup` is called before each
    call, with the argument if there is one; what it returns, unless None, is the call's argument. Both are called
    outside the timed region. Raises AssertionError for a wrong answer or an exception of the function, ValueError for
    an empty list of arguments, and UsageError for generators, whose code does not run when they are called.
    """
    if arguments is not None and not len(arguments):
        raise ValueError("arguments: expected at least one, got none")
    why = explain_unmeasurable(function)
    if inflight > 1 and why is None:
        if setup is not None:
            why = NEEDS_ONE_BY_ONE
        elif not is_async(function):
            why = NEEDS_ASYNC
    if why is not None:
        raise UsageError(why)
    calls = Calls(
        function, None if arguments is None else list(arguments), partial(_check_answers, check), setup, inflight
    )
    pace = Pace(duration_ns=int(seconds * 1e9))
    begun = list[Usage]()
    taken = list[Sample]()
    process = (os.getpid(),)
    try:
        # The first sample is not counted, because it warms up.
        for number in range(samples + 1):
            resettable = reset_peaks(process)
            tally = measure(lambda _: calls.slices(), pace, lambda: begun.append(measure_own()))
            used = without_pauses(measure_own() - begun[-1], tally.paused)
            if resettable:
                tally.peak_bytes = peaks_since_reset(process)
            else:
                tally.peak_bytes = None
            if calls.not_run is not None:
                raise UsageError(calls.not_run)
            if tally.void is not None:
                raise AssertionError(tally.void)
            if number:
                taken.append(_sample(tally, used))
    finally:
        calls.close()
    return Measured(
        sum(each.operations for each in taken),
        tuple(time_ns(each) for each in taken),
        tuple(cpu_ns(each) for each in taken),
        percentiles([each.histogram for each in taken]),
        pick().NAME,
        tuple(taken),
    )


def time_ns(sample: Sample) -> float:
    """Returns the elapsed time per operation."""
    return sample.elapsed_ns / max(sample.operations, 1)


def cpu_ns(sample: Sample) -> float:
    """Returns the CPU time per operation, which is more than 0."""
    used = sample.client or {}
    return max((used.get("user_ns") or 0) + (used.get("system_ns") or 0), 1) / max(sample.operations, 1)


def peak_bytes(sample: Sample) -> float | None:
    return sample.client_peak_bytes


METRICS: Mapping[str, Callable[[Sample], float | None]] = {"time": time_ns, "cpu": cpu_ns, "memory": peak_bytes}
"""Times in ns per operation, and memory in bytes. Less is better."""


def values_by_block(samples: Mapping[int, Sample], metric: str) -> dict[int, float]:
    """Returns the values of a metric, without those of samples that lack it."""
    return {block: value for block, sample in samples.items() if (value := METRICS[metric](sample))}


def _sample(tally: Tally, used: Usage) -> Sample:
    return Sample(
        **{name: getattr(tally, name) for name in COUNTED},
        phase=PHASE,
        unit=PHASE,
        histogram=tally.latency.encode(),
        slowest_at_ns=None if tally.slowest is None else tally.slowest[1],
        series=tally.series.points(),
        temperature="hot",
        client=asdict(used),
        client_peak_bytes=tally.peak_bytes,
    )


def _check_answers(
    check: Callable[[Any, Any], bool] | None,
    positions: Sequence[int],
    arguments: Sequence[object],
    answers: Sequence[object],
) -> int:
    for argument, answer in zip(arguments, answers, strict=False):
        if isinstance(answer, Failure):
            raise Wrong(f"the measured call of {argument!r} raised {answer.error}")
        if check is not None and not check(argument, answer):
            raise Wrong(f"the measured call of {argument!r} returned {answer!r}, which is wrong")
    return len(answers)


def judge_times(
    now: Mapping[int, float], before: Mapping[int, float], margin: float, paired: bool = False
) -> Verdict:
    """Compares times per operation, or bytes, by block. Returns a verdict on the ratio of speeds: above 1 is faster.
    `paired`: compares block by block.

    The verdict is 'slower' if the times are longer by more than the margin, with an error probability of at most 1 %.
    """
    # A ratio of speeds, as in all comparisons: the inverse of the ratio of times.
    old, new = ({block: 1 / value for block, value in each.items()} for each in (before, now))
    center, verdict = compare_speeds(old, new, paired)
    threshold = -math.log1p(margin)
    failed = center is not None and chance(center, threshold) <= CHANCE
    return decide(center, verdict.ratio or 0.0, verdict.blocks, threshold, failed, times=True)
