"""What the rows of a run cost by a user's table of prices, on a terminal: beside the figures that it buys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from dyno.prices import Prices
from dyno.report import grid, units
from dyno.report.table import varying
from dyno.results import Run
from dyno.stats.costs import Cost

HEADS = ("phase", "engine", "parameters", "rate", "p50", "bandwidth", "a million", "a month")
LEFT = HEADS[:3]


def render(run: Run, found: Sequence[Cost], prices: Prices, console: Console) -> None:
    changing = varying(run)
    console.print()
    console.print(Text(f"Cost by {prices.file}", "bold"))
    columns = [grid.Column(head, head in LEFT, folds=head in LEFT, key=head in LEFT) for head in HEADS]
    grid.render(columns, [_cells(cost, changing, prices.currency) for cost in found], console)
    kept = "what the store held" if prices.kept_gb is None else f"{prices.kept_gb:,g} GB"
    told = (
        f"a million: of the phase's operations. a month: {kept} kept, {prices.millions:,g} million of the phase's"
        " operations, and what is to be paid in any case"
    )
    console.print(Text(f"  {told}", "dim"), soft_wrap=True)


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
