"""Divides a time among several runs, in proportion to what each is expected to take."""

from collections.abc import Sequence

from dyno.results import Run
from dyno.runner.parent import forecast_time
from dyno.runner.plan import Plan


def expected_seconds(plan: Plan, measured: Run | None, resume: bool, quick: Plan, quick_seconds: float) -> float:
    """Returns the time that the plan's trials will take: of those that are missing in `measured`, if that is resumed.
    It is based on the trials of `measured`, a run of the same cells. Without them, it is based on `quick_seconds`,
    the time of the plan `quick`, and on how much longer the plan may measure."""
    if measured is not None and measured.attempts:
        ended, planned = measured.progress
        each = sum(attempt.duration_ns for attempt in measured.attempts) / 1e9 / ended
        return each * (planned - ended if resume else planned)
    return quick_seconds * forecast_time(plan)[1] / forecast_time(quick)[1]


def share(left: float, expected: Sequence[float]) -> float:
    """Returns the first run's share of the time that is left for all of these runs."""
    total = sum(expected)
    return max(left, 0.0) * expected[0] / total if total else max(left, 0.0)
