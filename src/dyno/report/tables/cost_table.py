"""The cost of each row by a user's table of prices, next to its figures."""

from __future__ import annotations

from collections.abc import Sequence

from dyno.report.tables import units
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.costs import Cost, Prices

HEADS = ("run", "phase", "engine", "parameters", "rate", "p50", "bandwidth", "a million", "a month")
LEFT = HEADS[:4]


def section(of: Sequence[tuple[Run, str, Sequence[Cost]]], prices: Prices) -> Section:
    """`of`: runs with their printed names and costs. The same row of several runs stands together; columns without
    any value are left out."""
    lines = [
        (cost, [name, *_cells(cost, varying(run), prices.currency)]) for run, name, costs in of for cost in costs
    ]
    order = {key: at for at, key in enumerate(dict.fromkeys(_place(cost) for cost, _ in lines))}
    lines.sort(key=lambda line: order[_place(line[0])])
    rows = [cells for _, cells in lines]
    used = [at for at in range(len(HEADS)) if any(row[at] not in ("", units.UNKNOWN) for row in rows)]
    heads = [HEADS[at] for at in used]
    cells = [[row[at] for at in used] for row in rows]
    return Section(f"Cost by {prices.file}", "", heads, cells, left=LEFT, keys=LEFT, legend=[_legend(prices)])


def _legend(prices: Prices) -> str:
    stored = "the measured store's size" if prices.kept_gb is None else f"{prices.kept_gb:,g} GB"
    machine = " and the machine for the time they take at this rate" if prices.machines else ""
    hours = "the machine, " if prices.machines else ""
    return (
        f"a million: of the phase's operations{machine}. a month: {stored} stored, {prices.millions:,g} million of"
        f" the phase's operations, {hours}and fixed fees"
    )


def _place(cost: Cost) -> tuple[object, ...]:
    return cost.row.phase, cost.row.cell.asked, cost.row.cell.tier, cost.row.cell.combination


def _cells(cost: Cost, changing: Sequence[str], currency: str) -> list[str]:
    row = cost.row
    return [
        row.phase,
        row.cell.label,
        units.params({name: row.cell.params[name] for name in changing}),
        units.UNKNOWN if row.throughput is None else f"{units.rate(row.throughput.median)} {row.unit}/s",
        units.duration(row.latency_ns["p50"]),
        units.bandwidth(None if row.bandwidth is None else row.bandwidth.median),
        units.money(cost.million, currency),
        units.money(cost.month, currency),
    ]
