"""What rows are compared by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dyno.histogram import percentiles
from dyno.model import Sample, UsageError
from dyno.settings import unknown
from dyno.stats.summary import CellSummary


@dataclass(frozen=True)
class Metric:
    name: str
    title: str
    inverse: bool
    """A latency, of which less is better."""
    of: Callable[[Sample], float | None]
    """None for a sample that does not have it."""

    def speed(self, sample: Sample) -> float | None:
        """More is better: a latency's inverse."""
        found = self.of(sample)
        if not found:
            return None
        return 1 / found if self.inverse else found


def _service(name: str) -> Callable[[Sample], float | None]:
    return lambda sample: percentiles([sample.histogram])[name]


def _response(name: str) -> Callable[[Sample], float | None]:
    return lambda sample: percentiles([sample.response])[name]


THROUGHPUT = Metric("throughput", "throughput", False, lambda sample: sample.per_second)
RESPONSE = Metric("response-p99", "p99 of the response time", True, _response("p99"))
METRICS = {
    metric.name: metric
    for metric in (
        THROUGHPUT,
        *(Metric(name, f"{name} of the latency", True, _service(name)) for name in ("p50", "p99", "p999")),
        Metric("response-p50", "p50 of the response time", True, _response("p50")),
        RESPONSE,
    )
}


def metric(name: str) -> Metric:
    """Raises UsageError."""
    if name not in METRICS:
        raise UsageError(unknown("metric", name, METRICS))
    return METRICS[name]


def fitting(rows: Sequence[CellSummary]) -> Metric:
    """Throughput; but where a rate was asked for, which every engine that keeps up reaches, the response time."""
    samples = [sample for row in rows for sample in row.samples]
    return RESPONSE if samples and all(sample.response is not None for sample in samples) else THROUGHPUT


def speeds(row: CellSummary, by: Metric) -> dict[int, float]:
    """By block; without blocks whose sample does not have it."""
    found = {block: by.speed(sample) for block, sample in zip(row.blocks, row.samples, strict=True)}
    return {block: value for block, value in found.items() if value is not None}
