"""A callable, measured in this process by Dyno's loop, and the gate against what was measured of it before.

Unlike a run's trials, the samples are not of fresh processes: where things happen to lie in memory is the same for
all of them, and is in no interval.
"""

from __future__ import annotations

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
from dyno.report.tables import wording
from dyno.stats.estimate import FEWEST_TRIALS, Estimate, apart, estimate
from dyno.stats.gate import CHANCE, chance, decide
from dyno.stats.verdict import Verdict

SLICE = 1_000
"""Operations of a slice, as far as there are fewer arguments: their answers are kept while it lasts."""
METRICS = ("time", "cpu")
UNFINISHED = "a call only creates {kind}, and runs none of its code; measure a function that runs it, such as {how}"
RUNNERS = {
    "a coroutine": "lambda: asyncio.run(work())",
    "an async generator": "lambda: asyncio.run(consume())",
    "a generator": "lambda: list(work())",
}


@dataclass(frozen=True)
class Measured:
    """What was found of a callable; times in ns."""

    operations: int
    time_ns: tuple[float, ...]
    """For each operation, in each sample: elapsed time by operations, Dyno's own between operations in it."""
    cpu_ns: tuple[float, ...]
    """The same of the CPU time of the process."""
    latency_ns: dict[str, int | None]
    """`p50`, `p90`, `p95`, `p99`, `p999` and `max` of all samples' operations."""
    loop: str
    """'native' or 'python'."""

    @property
    def time(self) -> Estimate:
        """The median over samples, and its 95 % interval."""
        return estimate(self.time_ns)

    @property
    def cpu(self) -> Estimate:
        return estimate(self.cpu_ns)

    def values(self, metric: str) -> tuple[float, ...]:
        return self.time_ns if metric == "time" else self.cpu_ns


@dataclass(frozen=True)
class Gate:
    """What came of a callable seen from before."""

    verdict: Verdict
    """On the ratio of speeds: over 1 is faster."""

    @property
    def passed(self) -> bool:
        return self.verdict.kind != "slower"

    @property
    def text(self) -> str:
        return wording.gated(self.verdict)


def measured(
    function: Callable[..., Any],
    arguments: Sequence[Any] | None,
    samples: int,
    seconds: float,
    check: Callable[[Any, Any], bool] | None = None,
) -> Measured:
    """`function` is called with each of the arguments in turn, and again from the first, for `seconds` in each
    sample. If `arguments` is None, it is called without an argument.

    `check`: given an argument and the answer, whether that is right; outside the timed region. Raises AssertionError
    for a wrong answer and for an error of the function's, ValueError without arguments, and UsageError for an async
    function or a generator, of which a call runs nothing.
    """
    if arguments is not None and not len(arguments):
        raise ValueError("there are no arguments to call it with")
    if kind := _unfinished_by(function):
        raise _unfinished(kind)
    call = (lambda _: function()) if arguments is None else function
    given = [None] if arguments is None else list(arguments)
    part = given * math.ceil(SLICE / len(given))
    created: list[str] = []
    slices = [Operations(lambda _: (call,), part, partial(_checked, part, check, created))]
    pace, latency = Pace(duration_ns=int(seconds * 1e9)), Recorder()
    times, cpu, operations = [], [], 0
    # The first is not counted: it warms up.
    for number in range(samples + 1):
        begun = _Moment()
        tally = measure(lambda _: iter(slices), pace, begun)
        spent = process_time_ns() - begun.ns - sum(tally.paused)
        if created:
            raise _unfinished(created[0])
        if tally.void is not None:
            raise AssertionError(tally.void)
        if number:
            times.append(tally.elapsed_ns / tally.operations)
            cpu.append(max(spent, 1) / tally.operations)
            operations += tally.operations
            latency.merge(tally.latency)
    return Measured(operations, tuple(times), tuple(cpu), percentiles([latency.encode()]), pick().NAME)


class _Moment:
    """What it is called at: the CPU time of the process when all is built, and the measuring begins."""

    ns = 0

    def __call__(self) -> None:
        self.ns = process_time_ns()


def _unfinished_by(function: Callable[..., Any]) -> str | None:
    """What a call of the function creates in place of running it, by its declaration; None if it runs."""
    for call in (function, type(function).__call__):
        if inspect.iscoroutinefunction(call):
            return "a coroutine"
        if inspect.isasyncgenfunction(call):
            return "an async generator"
        if inspect.isgeneratorfunction(call):
            return "a generator"
    return None


def _unfinished_answer(answer: Any) -> str | None:
    """The same by an answer. A coroutine is closed, so that the interpreter does not warn of it."""
    if isinstance(answer, Coroutine):
        answer.close()
        return "a coroutine"
    if isinstance(answer, AsyncGenerator):
        return "an async generator"
    return "a generator" if isinstance(answer, Generator) else None


def _unfinished(kind: str) -> UsageError:
    return UsageError(UNFINISHED.format(kind=kind, how=RUNNERS[kind]))


def _checked(
    part: Sequence[Any], check: Callable[[Any, Any], bool] | None, created: list[str], answers: Sequence[Any]
) -> int:
    if kinds := list(filter(None, map(_unfinished_answer, answers))):
        created.append(kinds[0])
        raise Wrong("the answers are unfinished")
    for argument, answer in zip(part, answers, strict=False):
        if isinstance(answer, Failure):
            raise Wrong(f"the measured call of {argument!r} raised {answer.error}")
        if check is not None and not check(argument, answer):
            raise Wrong(f"the measured call of {argument!r} returned {answer!r}, which is wrong")
    return len(answers)


def judged(now: Sequence[float], before: Sequence[float], margin: float) -> Gate:
    """The gate on times of an operation: it fails where they are shown to be longer by more than the margin, which
    chance does in one of a hundred cases at most."""
    fewest = min(len(now), len(before))
    ratio = estimate(before).median / estimate(now).median
    # Of speeds, as everywhere: the inverse of times.
    found = apart(before, now) if fewest >= FEWEST_TRIALS else None
    threshold = -math.log1p(margin)
    failed = found is not None and chance(found, threshold) <= CHANCE
    return Gate(decide(found, ratio, fewest, threshold, failed, times=True))
