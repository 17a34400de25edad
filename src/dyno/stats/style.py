"""One figure of several runs in the style of a published experiment. It is printed only where that is replicated:
nothing else is best of N here."""

from __future__ import annotations

from statistics import mean, stdev

from dyno.contracts.sample import Sample
from dyno.stats.estimate import Estimate, estimate
from dyno.stats.summary import CellSummary


def mean_ns(sample: Sample) -> float | None:
    """Of an operation, over all clients; None where there was none."""
    return sample.busy_ns / sample.operations if sample.operations and sample.busy_ns > 0 else None


def best_of_means(row: CellSummary, runs: int) -> float | None:
    """The least mean of the first so many trials, in ns; None where there are not so many."""
    found = _means(row)[:runs]
    return min(found) if len(found) == runs else None


def typical(row: CellSummary) -> Estimate | None:
    """The median of all trials' means, in ns, and its 95 % interval."""
    found = _means(row)
    return estimate(found) if found else None


def mean_elapsed(row: CellSummary) -> tuple[float, float | None] | None:
    """The mean of the trials' times, in ns, and their standard deviation (of a sample, over n - 1) in percent of
    it, None for a single trial. None without trials."""
    found = [sample.elapsed_ns for sample in row.samples if sample.elapsed_ns > 0]
    if not found:
        return None
    middle = mean(found)
    return middle, stdev(found) / middle * 100 if len(found) > 1 else None


def each(row: CellSummary) -> list[int]:
    """Operations of a client in each trial: whole ones, by the mean of all clients."""
    return [sample.operations // sample.clients for sample in row.samples]


def _means(row: CellSummary) -> list[float]:
    by_block = sorted(zip(row.blocks, row.samples, strict=True), key=lambda pair: pair[0])
    return [mean for _, sample in by_block if (mean := mean_ns(sample)) is not None]
