"""Charts of searches for capacities: what each probe measured, against the rate that it offered."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dyno.contracts.histogram import curve
from dyno.contracts.limits import Limit, Probe
from dyno.fields import Sample
from dyno.report.charts.chart import ENGINE, Chart, Column, Record, rows
from dyno.report.charts.lines import Side, lines_spec
from dyno.results import Run
from dyno.stats.sweep import logarithmic

Figure = Callable[[Probe, Sample], float | None]


def charts(run: Run) -> Iterator[Chart]:
    """Yields two charts for each limit: the share of operations that broke it, and the percentile that it limits."""
    rates = [attempt.rate for attempt in run.attempts if attempt.rate]
    x = Side("offered operations a second", "rate", log=logarithmic(rates))
    for at, limit in enumerate(run.limits):
        name = limit.text.partition("<")[0]

        def share(probe: Probe, sample: Sample, at: int = at) -> float | None:
            # A share of zero is not on a logarithmic axis: half an operation stands for it.
            return max(probe.broken[at], 0.5) / probe.operations * 100

        def percentile(probe: Probe, sample: Sample, limit: Limit = limit) -> float | None:
            return next((ns for _, ns in curve([sample.response], [(1 - limit.share) * 100])), None)

        marks = [(limit.share * 100, f"{limit.share * 100:g} %: the limit")]
        side = Side("% of operations that broke the limit", "count", log=True, marks=marks)
        yield _chart(f"capacity:{name}", f"What broke {limit.text}", share, x, side)
        if limit.latency_ns is not None:
            side = Side(f"{name} of the response time", "ns", log=True, marks=[(limit.latency_ns, "the limit")])
            yield _chart(f"response:{name}", f"{name} against the rate", percentile, x, side)


def _chart(name: str, title: str, figure: Figure, x: Side, y: Side) -> Chart:
    def spec(engines: Sequence[str], unit: str) -> dict[str, Any]:
        return lines_spec(engines, x, y)

    return Chart(
        name=name,
        title=title,
        reading="Each point is a probe of its own at one rate. An engine's capacity is where its points cross the"
        " dashed line of the limit; beyond it a queue grows.",
        needs="a search for a capacity: dyno capacity",
        columns=(
            ENGINE,
            Column("x", "offered a second", "rate"),
            Column("y", y.title, y.kind),
            Column("stage", "stage"),
        ),
        records=lambda run: _records(run, figure),
        spec=spec,
    )


def _records(run: Run, figure: Figure) -> list[Record]:
    records = list[Record]()
    for row, common in rows(run):
        search = row.summary.searched
        if search is None:
            continue
        for probe, attempt in zip(search.probes, search.attempts, strict=True):
            y = None if probe.failed else figure(probe, attempt.samples[0])
            if y is not None:
                records.append({**common, "x": probe.rate, "y": y, "stage": probe.stage, "unit": "op/s"})
    return records
