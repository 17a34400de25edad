"""Measures a callable in this process with Dyno's loop, and compares it with an earlier measurement.

Unlike the trials of a run, samples don't come from fresh processes: they share one memory layout, and no interval
includes its effect.
"""

import inspect
import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time_ns
from typing import Any

from dyno.contracts.histogram import Recorder, percentiles
from dyno.contracts.model import UsageError, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure, Operations
from dyno.measure.driver import measure
from dyno.measure.loop import pick
from dyno.stats.estimate import FEWEST_TRIALS, Estimate, apart, estimate
from dyno.stats.two_runs import CHANCE, chance, decide
from dyno.stats.verdict import Verdict

SLICE = 1_000
"""Minimum number of operations of a slice; their answers are held in memory until its end."""
UNFINISHED: tuple[tuple[str, Callable[[Any], bool], type, str], ...] = (
    ("a coroutine", inspect.iscoroutinefunction, Coroutine, "lambda: asyncio.run(work())"),
    ("an async generator", inspect.isasyncgenfunction, AsyncGenerator, "lambda: asyncio.run(consume())"),
    ("a generator", inspect.isgeneratorfunction, Generator, "lambda: list(work())"),
)
"""Objects that a call may create instead of running the function: the name, a check of the function, the type, and a
function that runs the object."""
NOT_RUN = "a call only creates {kind} and does not run it; measure a function that runs it, such as {how}"


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

    @property
    def time(self) -> Estimate:
        """The median over samples and its 95 % interval."""
        return estimate(self.time_ns)

    @property
    def cpu(self) -> Estimate:
        return estimate(self.cpu_ns)

    def values(self, metric: str) -> tuple[float, ...]:
        return self.time_ns if metric == "time" else self.cpu_ns


def measured(
    function: Callable[..., Any],
    arguments: Sequence[Any] | None,
    samples: int,
    seconds: float,
    check: Callable[[Any, Any], bool] | None = None,
) -> Measured:
    """Calls `function` with each of the arguments in turn, repeatedly, for `seconds` in each sample. If `arguments`
    is None, calls it without an argument.

    `check` takes an argument and the answer, and returns whether the answer is right. It is called outside the timed
    region. Raises AssertionError for a wrong answer or an exception of the function, ValueError for an empty list of
    arguments, and UsageError for async functions and generators, whose code does not run when they are called.
    """
    if arguments is not None and not len(arguments):
        raise ValueError("arguments: expected at least one, got none")
    for attempted in (function, type(function).__call__):
        for kind, creates, _, how in UNFINISHED:
            if creates(attempted):
                raise UsageError(NOT_RUN.format(kind=kind, how=how))
    call = (lambda _: function()) if arguments is None else function
    inputs = [None] if arguments is None else list(arguments)
    part = inputs * math.ceil(SLICE / len(inputs))
    created, begun = list[str](), list[int]()
    slices = [Operations(lambda _: (call,), part, partial(_checked, part, check, created))]
    pace, latency = Pace(duration_ns=int(seconds * 1e9)), Recorder()
    times, cpu, operations = [], [], 0
    # The first sample is not counted, because it warms up.
    for number in range(samples + 1):
        tally = measure(lambda _: iter(slices), pace, lambda: begun.append(process_time_ns()))
        spent = process_time_ns() - begun[-1] - sum(tally.paused)
        if created:
            raise UsageError(created[0])
        if tally.void is not None:
            raise AssertionError(tally.void)
        if number:
            times.append(tally.elapsed_ns / tally.operations)
            cpu.append(max(spent, 1) / tally.operations)
            operations += tally.operations
            latency.merge(tally.latency)
    return Measured(operations, tuple(times), tuple(cpu), percentiles([latency.encode()]), pick().NAME)


def _checked(
    part: Sequence[Any], check: Callable[[Any, Any], bool] | None, created: list[str], answers: Sequence[Any]
) -> int:
    for kind, _, unfinished, how in UNFINISHED:
        for answer in answers:
            if isinstance(answer, unfinished):
                created.append(NOT_RUN.format(kind=kind, how=how))
                if isinstance(answer, Coroutine):
                    # A coroutine that is not closed causes a warning.
                    answer.close()
    if created:
        raise Wrong("the answers are unfinished")
    for argument, answer in zip(part, answers, strict=False):
        if isinstance(answer, Failure):
            raise Wrong(f"the measured call of {argument!r} raised {answer.error}")
        if check is not None and not check(argument, answer):
            raise Wrong(f"the measured call of {argument!r} returned {answer!r}, which is wrong")
    return len(answers)


def judged(now: Sequence[float], before: Sequence[float], margin: float) -> Verdict:
    """Compares times per operation. Returns a verdict on the ratio of speeds: above 1 is faster.

    The verdict is 'slower' if the times are longer by more than the margin, with an error probability of at most 1 %.
    """
    fewest = min(len(now), len(before))
    # A ratio of speeds, as in all comparisons: the inverse of the ratio of times.
    ratio = estimate(before).median / estimate(now).median
    center = apart(before, now) if fewest >= FEWEST_TRIALS else None
    threshold = -math.log1p(margin)
    failed = center is not None and chance(center, threshold) <= CHANCE
    return decide(center, ratio, fewest, threshold, failed, times=True)
