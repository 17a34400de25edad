"""Charts of searches for capacities: what each probe measured, against the rate that it offered."""

from collections.abc import Callable, Iterator, Sequence

from dyno.contracts.histogram import curve
from dyno.contracts.limits import Limit, Probe
from dyno.contracts.value_types import JsonObject
from dyno.fields import Sample
from dyno.report.charts import vega
from dyno.report.charts.chart import ENGINE, Chart, Column, Record, rows
from dyno.report.charts.lines import Side, lines_spec
from dyno.results import Run
from dyno.stats.costs import Prices, costs
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
            return next((ns for _, ns in curve([sample.response], [round((1 - limit.share) * 100, 4)], 0)), None)

        marks = [(limit.share * 100, f"{limit.share * 100:g} %: the limit")]
        side = Side("% of operations that broke the limit", "count", log=True, marks=marks)
        yield _chart(f"capacity:{name}", f"What broke {limit.text}", share, x, side)
        if limit.latency_ns is not None:
            side = Side(f"{name} of the response time", "ns", log=True, marks=[(limit.latency_ns, "the limit")])
            yield _chart(f"response:{name}", f"{name} against the rate", percentile, x, side)


def _chart(name: str, title: str, figure: Figure, x: Side, y: Side) -> Chart:
    def spec(engines: Sequence[str], unit: str) -> JsonObject:
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
            if probe.failed:
                y = None
            else:
                y = figure(probe, attempt.samples[0])
            if y is not None:
                records.append({**common, "x": probe.rate, "y": y, "stage": probe.stage, "unit": "op/s"})
    return records


# -- price against capacity ---------------------------------------------------------------------------------


def cost(run: Run, prices: Prices) -> Chart:
    """Returns the chart of the price of a month for the load, against the capacity. A line joins the rows of the
    Pareto front: no other row has a higher capacity for the same price or less."""
    x = Side("capacity in operations a second", "rate", interval=True)
    y = Side(
        f"a month for {prices.load:,g} operations a second, {prices.currency}".rstrip(" ,"), "count", from_zero=True
    )

    def spec(engines: Sequence[str], unit: str) -> JsonObject:
        drawn = lines_spec(engines, x, y)
        at = {"x": x.encoding("x"), "y": y.encoding("y")}
        # One line for the whole front, which the chart's detail by engine would cut into points.
        line = {**at, "order": {"field": "x"}, "detail": vega.nominal("front")}
        drawn["layer"].insert(0, vega.layer(vega.mark("line", strokeDash=[4, 4], opacity=0.7), line, "datum.front"))
        return drawn

    return Chart(
        name="cost",
        title="Price against capacity",
        reading="What a month costs to serve the load, against what one machine takes under the limits. The dashed"
        " line is the Pareto front: nothing beyond it is both cheaper and faster.",
        needs="a search for a capacity, and prices with a load",
        columns=(
            *(ENGINE, Column("x", "capacity", "rate"), Column("x_low", "95 % from", "rate")),
            *(Column("x_high", "95 % to", "rate"), Column("y", y.title, "count"), Column("front", "on the front")),
        ),
        records=lambda run: _costs(run, prices),
        spec=spec,
    )


def _costs(run: Run, prices: Prices) -> list[Record]:
    if prices.load is not None:
        charged = {id(each.row): each.month for each in costs(run, prices)}
    else:
        charged = {}
    records = list[Record]()
    for row, common in rows(run):
        month, capacity = charged.get(id(row.summary)), row.summary.throughput
        if month is not None and capacity is not None:
            ends = {"x_low": capacity.low, "x_high": capacity.high}
            records.append({**common, "x": capacity.median, **ends, "y": month, "unit": "op/s"})
    return [{**one, "front": not any(_dominates(other, one) for other in records)} for one in records]


def _dominates(one: Record, other: Record) -> bool:
    """Returns whether a record of the same panel is as good in price and capacity, and better in one of them."""
    same = all(one[name] == other[name] for name in ("phase", "tier", "params"))
    return (
        same
        and one["x"] >= other["x"]
        and one["y"] <= other["y"]
        and (one["x"], one["y"]) != (other["x"], other["y"])
    )
