"""Whether a run's samples fit together. Figures are computed from samples, so what was changed by hand or by a fault
mostly contradicts another number. Invented samples that fit together are not noticed: only a repetition shows whether
figures are true.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

from dyno.contracts.cell import Cell
from dyno.contracts.histogram import count_values
from dyno.contracts.pace import NATIVE_LOAD
from dyno.contracts.suite import IN_FLIGHT
from dyno.fields import Sample
from dyno.results import Run

BUCKET = 1.002
"""A histogram has three digits, and its values are the upper ends of buckets."""
ABOVE_FLOOR = 2.0
"""No engine is so many times as fast as one that does nothing."""


def check(run: Run) -> None:
    """Raises ValueError, with the first contradiction."""
    for number, attempt in enumerate(run.attempts, 2):
        where = f"line {number}"
        if sum(sample.elapsed_ns for sample in attempt.samples) > attempt.duration_ns:
            raise ValueError(f"{where}: its phases lasted longer than the trial")
        for sample in attempt.samples:
            for problem in _problems(sample, run.cells[attempt.cell]):
                raise ValueError(f"{where}: {sample.phase}: {problem}")
    starts = [attempt.started for attempt in run.attempts]
    if any(later < earlier for earlier, later in pairwise(starts)):
        raise ValueError("its trials are not in the order of their starts")
    _check_floors(run)


def _problems(sample: Sample, cell: Cell) -> Iterator[str]:
    if sample.busy_ns > sample.elapsed_ns * sample.clients * BUCKET:
        yield "its clients were busy for longer than it lasted"
    if sample.errors > sample.operations:
        yield "more operations failed than there were"
    if sample.histogram is not None:
        times = count_values([sample.histogram])
        number = sum(count for _, count in times)
        if number != sample.operations - sample.errors:
            yield f"{sample.operations - sample.errors} operations succeeded, and the histogram has {number}"
        spent = sum(value * count for value, count in times)
        if _one_by_one(sample, cell) and spent > sample.busy_ns * BUCKET + number:
            yield "the latencies of its histogram add up to more than its time"
        for name, parts in (("by_kind", sample.by_kind), ("by_machine", sample.by_machine)):
            if parts and sum(_count(part) for part in parts.values()) != number:
                yield f"the histograms of {name} don't add up to the whole"
    points = sample.series
    if any(later["from_ns"] < one["from_ns"] + one["interval_ns"] for one, later in pairwise(points)):
        yield "the intervals of its series are not in order"


def _one_by_one(sample: Sample, cell: Cell) -> bool:
    """Returns whether a client's operations certainly don't overlap. Native load, other programs and some suites have
    several of a client under way, whose latencies add up to more than its time."""
    return sample.load != NATIVE_LOAD and sample.reported_by is None and IN_FLIGHT not in cell.params


def _count(histogram: bytes | None) -> int:
    if histogram:
        return sum(count for _, count in count_values([histogram]))
    return 0


def _check_floors(run: Run) -> None:
    """Raises ValueError if an engine was far faster than the null engines with the same parameters."""
    rates: dict[tuple[bool, str, str, str], list[float]] = {}
    for attempt in run.attempts:
        cell = run.cells[attempt.cell]
        for sample in attempt.samples:
            if sample.items and sample.elapsed_ns and sample.void is None:
                rate = sample.items / sample.elapsed_ns
                rates.setdefault(_key(cell, sample.phase), []).append(rate)
    floors: dict[tuple[str, str], float] = {}
    for (floor, phase, params, _), of in rates.items():
        if floor:
            floors[phase, params] = max(floors.get((phase, params), 0.0), max(of))
    for (floor, phase, params, engine), of in rates.items():
        limit = floors.get((phase, params))
        if not floor and limit is not None and median(of) > limit * ABOVE_FLOOR:
            raise ValueError(
                f"{engine} is {median(of) / limit:.1f} times as fast in {phase} as an engine that does nothing"
            )


def _key(cell: Cell, phase: str) -> tuple[bool, str, str, str]:
    return cell.floor, phase, _text(cell.params), cell.row


def _text(params: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(params.items()))
