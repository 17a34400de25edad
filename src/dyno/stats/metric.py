"""Metrics by which rows are compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from dyno.contracts.histogram import percentiles
from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.fields import Sample
from dyno.stats.capacity import FOUND, Capacity
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.summary import CellSummary, client_cpu_ns, server_cpu_ns


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    title: str
    inverse: bool
    """Whether less is better, as for a latency."""
    of: Callable[[Sample], float | None]
    """Returns a sample's value; None if the sample lacks the metric."""
    kind: str = "ns"
    """Unit of the values: 'items' per second, 'bytes' per second, 'ns', or 'size' in bytes."""
    needs: str = ""
    """Name of the resource of which less is needed, such as 'memory'. Verdicts then say 'needs less memory' rather
    than 'faster', and rows whose limit was the load generator are compared too."""
    pooled: Callable[[CellSummary], int | None] | None = None
    """For a percentile: returns the percentile over the operations of all trials together."""

    def speed(self, sample: Sample) -> float | None:
        """Returns the value, or a latency's inverse, so that more is better."""
        value = self.of(sample)
        if not value:
            return None
        if self.inverse:
            return 1 / value
        return value


class CapacitySpeeds(dict[int, float]):
    """The speed of a row whose figure is a capacity: one value, with an uncertainty of its own."""

    def __init__(self, found: Capacity) -> None:
        super().__init__({} if found.rate is None or found.kind != FOUND else {0: found.rate})
        self.found = found


@lru_cache(maxsize=1024)
def _percentiles(histogram: bytes | None) -> Mapping[str, int | None]:
    """Returns the percentiles of one sample. They are used twice: to choose the metric, and for the speeds by it."""
    return percentiles([histogram])


def _service(name: str) -> Metric:
    title, pooled = f"{name} of the latency", lambda row: row.latency_ns[name]
    return Metric(name, title, True, lambda sample: _percentiles(sample.histogram)[name], pooled=pooled)


def _response(name: str) -> Metric:
    title, pooled = f"{name} of the response time", lambda row: row.response_ns[name]
    return Metric(f"response-{name}", title, True, lambda sample: _percentiles(sample.response)[name], pooled=pooled)


def _add_figures(sample: Sample, client: float | None, server: float | None) -> float | None:
    """Returns the sum of the client's and the server's figure; None if either is unknown."""
    if sample.server is None:
        return client
    if client is None or server is None:
        return None
    return client + server


def _cpu(sample: Sample) -> float | None:
    return _add_figures(sample, client_cpu_ns(sample), server_cpu_ns(sample))


def _memory(sample: Sample) -> float | None:
    return _add_figures(sample, sample.client_peak_bytes, sample.server_peak_bytes)


def _undisturbed(sample: Sample) -> float | None:
    """Returns the time of an item without waiting for a core, of client and server. None for several clients, whose
    waits overlap."""
    waited: float | None = (sample.client or {}).get("core_wait_ns")
    if waited is None or sample.clients != 1 or not sample.elapsed_ns or not sample.per_second:
        return None
    if sample.server is not None:
        of_server = sample.server.get("core_wait_ns")
        if of_server is None:
            return None
        # The server's waits include those of Dyno's pauses.
        waited += of_server * min(sample.elapsed_ns / (sample.wall_ns or sample.elapsed_ns), 1.0)
    # Waits just before and after the clock's edges are in the counters, too. An item takes at least its CPU time.
    computed = sum((sample.client or {}).get(name) or 0 for name in ("user_ns", "system_ns"))
    share = max(1 - waited / sample.elapsed_ns, min(computed / sample.elapsed_ns, 1.0))
    return share * 1e9 / sample.per_second if share > 0 else None


THROUGHPUT = Metric("throughput", "throughput", False, lambda sample: sample.per_second, "items")
TIME = Metric("time", "time of an item", True, lambda sample: 1e9 / rate if (rate := sample.per_second) else None)
"""The inverse of throughput, for phases whose items take so long that it says more."""
BANDWIDTH = Metric("bandwidth", "bandwidth", False, lambda sample: sample.bytes_per_second, "bytes")
CPU = Metric("cpu", "CPU time of an item", True, _cpu, needs="CPU time")
UNDISTURBED = Metric("undisturbed", "time of an item without waiting for a core", True, _undisturbed)
"""Keeps waiting for a disk, locks and a network, and drops what other processes take."""
MEMORY = Metric("memory", "peak memory", True, _memory, "size", needs="memory")
CAPACITY = Metric("capacity", "capacity", False, lambda sample: None, "items")
"""The highest rate under limits. It is a figure of a search, not of a sample."""
RESPONSE, TYPICAL_RESPONSE = _response("p99"), _response("p50")
METRICS = {
    metric.name: metric
    for metric in (
        THROUGHPUT,
        TIME,
        CAPACITY,
        BANDWIDTH,
        CPU,
        UNDISTURBED,
        MEMORY,
        *map(_service, ("p50", "p99", "p999")),
        TYPICAL_RESPONSE,
        RESPONSE,
    )
}


def metric(name: str) -> Metric:
    """Returns the metric of this name. Raises UsageError."""
    if name not in METRICS:
        raise UsageError(unknown_name_message("metric", name, METRICS))
    return METRICS[name]


def choose_metric(rows: Sequence[CellSummary]) -> Metric:
    """Returns the phase's own metric, usually throughput. At a requested rate, returns the response time, because all
    engines that keep up reach the same throughput: its p99, or the median if a trial has too few operations for that;
    of a search, the capacity."""
    if any(row.searched is not None for row in rows):
        return CAPACITY
    samples = [sample for row in rows for sample in row.samples]
    if samples and all(sample.response is not None for sample in samples):
        if all(RESPONSE.of(sample) for sample in samples):
            return RESPONSE
        return TYPICAL_RESPONSE
    if rows:
        own = METRICS.get(rows[0].about.metric, THROUGHPUT)
    else:
        own = THROUGHPUT
    if any(own.speed(sample) for sample in samples):
        return own
    return THROUGHPUT


def estimate_metric(row: CellSummary, by: Metric) -> Estimate | None:
    """Returns the median over trials and its interval, of the metric itself: a latency is in ns. None if no sample
    has the metric."""
    if by is THROUGHPUT or by is CAPACITY:
        return row.throughput
    values = [value for sample in row.samples if (value := by.of(sample))]
    if values:
        return estimate(values)
    return None


def rank(row: CellSummary) -> float | None:
    """Returns the figure that ranks a row; more is better. It is the phase's own metric, or throughput if the row
    lacks that. None for a row that is not compared."""
    if row.limit is not None or row.suspicion is not None:
        return None
    by = METRICS.get(row.about.metric, THROUGHPUT)
    values = None
    if by is not THROUGHPUT:
        values = speeds(row, by)
    if values:
        return median(values.values())
    if row.throughput is None:
        return None
    return row.throughput.median


def speeds(row: CellSummary, by: Metric) -> dict[int, float]:
    """Returns the speeds by block that may be compared, without blocks whose sample lacks the metric. Empty if the
    load generator was the row's limit, except for the need of a resource, and if its answers are suspicious."""
    if row.suspicion is not None or (row.limit is not None and not by.needs):
        return {}
    if row.searched is not None and by in (CAPACITY, THROUGHPUT):
        return CapacitySpeeds(row.searched.capacity)
    values = {block: by.speed(sample) for block, sample in zip(row.blocks, row.samples, strict=True)}
    return {block: value for block, value in values.items() if value is not None}
