"""A run that searches capacities, as a table: the highest rate of each engine at which the limits hold."""

from collections.abc import Iterator, Sequence

from dyno.contracts.limits import LAST, Limit
from dyno.report.tables import display, units
from dyno.report.tables.sections import REMARKS, Section
from dyno.report.tables.table import Group, Row, varying_params
from dyno.results import Run
from dyno.stats.capacity import AT_LEAST, FOUND
from dyno.stats.load_limit import cpu_ns

HEADS = (
    "engine",
    "parameters",
    "rate",
    "interval",
    "p50",
    "p99",
    "server CPU",
    "probes",
    "took",
    "forecast",
    REMARKS,
)


def sections(run: Run, of: Sequence[Group]) -> Iterator[Section]:
    """Yields a section for each tier. The times and the server's CPU time are those of the last probe."""
    changing = varying_params(run)
    for group in of:
        rows = [_cells(row, changing) for row in group.rows]
        used = [at for at, _ in enumerate(HEADS) if any(row[at] for row in rows)]
        yield Section(
            display.join_parts(group.place, display.tier(group.tier)),
            f"highest rate at which {conditions(run.limits)}; {run.plan.arrivals} arrivals",
            [HEADS[at] for at in used],
            [[row[at] for at in used] for row in rows],
            rigid=("engine", "rate"),
            row_styles=["" if row.summary.valid else "red" for row in group.rows],
            plain_heads={"rate": "op/s", "interval": "[95 %]"},
            left=("engine", "parameters", REMARKS),
        )


def conditions(limits: Sequence[Limit]) -> str:
    """Returns the limits as words: 'p99 < 5ms and errors < 0.1%'."""
    return " and ".join(limit.text.replace("<", " < ") for limit in limits)


def legend(run: Run) -> list[str]:
    return [
        "p50, p99 and server CPU are those of the last probe, from when an operation was due; of an engine without a"
        " capacity, those of the highest rate that held or the lowest that did not",
        "took: the time of all trials; forecast: of a usual search, after its closed loop, and not over its bound",
        "at least: no limit broke at the highest rate that the clients offer",
    ]


def _cells(row: Row, changing: Sequence[str]) -> list[str]:
    summary = row.summary
    search = summary.searched
    assert search is not None
    found = search.capacity
    rate, interval = _rate(row), ""
    if found.kind == FOUND and found.low is not None and found.high is not None:
        interval = units.interval(found.low, found.high)
    if search.shown:
        sample = next(iter(search.shown.samples), None)
    else:
        sample = None
    if sample is None or sample.server is None:
        server = None
    else:
        server = cpu_ns(sample.server) / max(sample.elapsed_ns, 1)
    last = any(probe.stage == LAST and not probe.failed for probe in search.probes)
    times = [
        units.duration(summary.response_ns[name]) if last and summary.response_ns[name] is not None else ""
        for name in ("p50", "p99")
    ]
    seen = [f"{what} seen {number}×" for what, number in (sample.maintenance if sample else {}).items() if number]
    return [
        row.name,
        units.params(summary.cell.params, changing),
        rate,
        interval,
        *times,
        "" if server is None else f"{server * 100:.0f} %",
        str(len(search.probes)),
        units.long_duration(search.wall_s * 1e9),
        "" if search.forecast_s is None else units.long_duration(search.forecast_s * 1e9),
        ", ".join([*row.remarks(), *seen]),
    ]


def _rate(row: Row) -> str:
    summary = row.summary
    assert summary.searched is not None
    found = summary.searched.capacity
    if summary.throughput is None:
        return (summary.why or "no figure").partition(":")[0]
    return f"{'at least ' * (found.kind == AT_LEAST)}{units.rate(summary.throughput.median)}"
