"""What the rows of a run cost by a user's table of prices, on a terminal: beside the figures that it buys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, units
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.costs import Cost
from dyno.stats.prices import Prices

HEADS = ("run", "phase", "engine", "parameters", "rate", "p50", "bandwidth", "a million", "a month")
LEFT = HEADS[:4]


def render(run: Run, found: Sequence[Cost], prices: Prices, console: Console) -> None:
    console.print()
    console.print(Text(f"Cost by {prices.file}", "bold"))
    heads, rows = table([(run, found)], [""], prices)
    columns = [grid.Column(head, head in LEFT, folds=head in LEFT, key=head in LEFT) for head in heads]
    grid.render(columns, rows, console)
    console.print(Text(f"  {meaning(prices)}", "dim"), soft_wrap=True)


def meaning(prices: Prices) -> str:
    """Of the columns of prices."""
    kept = "what the store held" if prices.kept_gb is None else f"{prices.kept_gb:,g} GB"
    machine = ", with the machine for as long as they take at this rate" if prices.machines else ""
    return (
        f"a million: of the phase's operations{machine}. a month: {kept} kept, {prices.millions:,g} million of the"
        f" phase's operations, {'the machine, ' if prices.machines else ''}and what is to be paid in any case. A"
        " column without a value is left out"
    )


def table(
    of: Sequence[tuple[Run, Sequence[Cost]]], names: Sequence[str], prices: Prices
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, without columns that no row has a value for. Equal rows of several runs stand together."""
    lines = [
        (cost, [name, *_cells(cost, varying(run), prices.currency)])
        for (run, found), name in zip(of, names, strict=True)
        for cost in found
    ]
    order = {key: at for at, key in enumerate(dict.fromkeys(_place(cost) for cost, _ in lines))}
    lines.sort(key=lambda line: order[_place(line[0])])
    rows = [cells for _, cells in lines]
    shown = [at for at in range(len(HEADS)) if any(row[at] not in ("", units.UNKNOWN) for row in rows)]
    return [HEADS[at] for at in shown], [[row[at] for at in shown] for row in rows]


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
        money(cost.million, currency),
        money(cost.month, currency),
    ]


def money(amount: float | None, currency: str) -> str:
    """'0.40 USD': to the hundredth, and where that is nothing, to two digits."""
    if amount is None:
        return units.UNKNOWN
    told = f"{amount:,.2f}" if amount >= 0.995 or not amount else f"{amount:.2g}"
    return f"{told} {currency}".rstrip()
