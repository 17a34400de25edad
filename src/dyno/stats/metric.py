"""What rows are compared by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from dyno.contracts.histogram import percentiles
from dyno.contracts.model import UsageError
from dyno.contracts.sample import Sample
from dyno.contracts.settings import unknown
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.summary import CellSummary, client_cpu_ns, server_cpu_ns


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    title: str
    inverse: bool
    """A latency, of which less is better."""
    of: Callable[[Sample], float | None]
    """None for a sample that does not have it."""
    kind: str = "ns"
    """What it counts: 'items' a second, 'bytes' a second, or 'ns'."""
    pooled: Callable[[CellSummary], int | None] | None = None
    """Of a percentile: that of the operations of all trials together."""

    def speed(self, sample: Sample) -> float | None:
        """More is better: a latency's inverse."""
        found = self.of(sample)
        if not found:
            return None
        return 1 / found if self.inverse else found


def _service(name: str) -> Metric:
    def of(sample: Sample) -> float | None:
        return percentiles([sample.histogram])[name]

    return Metric(name, f"{name} of the latency", True, of, pooled=lambda row: row.latency_ns[name])


def _response(name: str) -> Metric:
    def of(sample: Sample) -> float | None:
        return percentiles([sample.response])[name]

    title = f"{name} of the response time"
    return Metric(f"response-{name}", title, True, of, pooled=lambda row: row.response_ns[name])


def _cpu(sample: Sample) -> float | None:
    """Of client and server together, for each item; None where one of them is not known."""
    parts = [client_cpu_ns(sample), *([] if sample.server is None else [server_cpu_ns(sample)])]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


THROUGHPUT = Metric("throughput", "throughput", False, lambda sample: sample.per_second, "items")
BANDWIDTH = Metric("bandwidth", "bandwidth", False, lambda sample: sample.bytes_per_second, "bytes")
RESPONSE = _response("p99")
METRICS = {
    metric.name: metric
    for metric in (
        THROUGHPUT,
        BANDWIDTH,
        Metric("cpu", "CPU time of an item", True, _cpu),
        *map(_service, ("p50", "p99", "p999")),
        _response("p50"),
        RESPONSE,
    )
}


def metric(name: str) -> Metric:
    """Raises UsageError."""
    if name not in METRICS:
        raise UsageError(unknown("metric", name, METRICS))
    return METRICS[name]


def fitting(rows: Sequence[CellSummary]) -> Metric:
    """What the suite says of the phase, throughput as a rule; but where a rate was asked for, which every engine that
    keeps up reaches, the response time."""
    samples = [sample for row in rows for sample in row.samples]
    if samples and all(sample.response is not None for sample in samples):
        return RESPONSE
    found = METRICS.get(rows[0].about.metric, THROUGHPUT) if rows else THROUGHPUT
    # What none of them has is nothing to go by.
    return found if any(found.speed(sample) for sample in samples) else THROUGHPUT


def estimated(row: CellSummary, by: Metric) -> Estimate | None:
    """The median over trials and its interval, of the metric itself: of a latency in ns, which is better the less it
    is. None where no sample has it."""
    if by is THROUGHPUT:
        return row.throughput
    found = [value for sample in row.samples if (value := by.of(sample))]
    return estimate(found) if found else None


def rank(row: CellSummary) -> float | None:
    """More is better: by what the suite says of the phase, and by throughput where the row does not have that."""
    by = METRICS.get(row.about.metric, THROUGHPUT)
    found = None if by is THROUGHPUT else speeds(row, by)
    if found:
        return median(found.values())
    return None if row.throughput is None else row.throughput.median


def speeds(row: CellSummary, by: Metric) -> dict[int, float]:
    """By block; without blocks whose sample does not have it."""
    found = {block: by.speed(sample) for block, sample in zip(row.blocks, row.samples, strict=True)}
    return {block: value for block, value in found.items() if value is not None}
