"""What a row costs by a user's table of prices: pure arithmetic on the facts that a suite tells.

A fact named `served` says how many operations the others are of. No name of a suite may be put here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dyno.model import UsageError
from dyno.prices import Prices, Tariff
from dyno.results import Run
from dyno.stats.summary import CellSummary, summarize

SERVED, KEPT, BYTES = "served", "kept_bytes", "_bytes"
MILLION, GB = 1e6, 1e9


@dataclass(frozen=True)
class Cost:
    """Of one row, in the currency of the table; None where the row does not tell what is charged for."""

    row: CellSummary
    million: float | None
    """Of a million of its operations."""
    month: float | None
    """Of a month: what is kept, so many millions of its operations, and what is to be paid in any case."""


def costs(run: Run, prices: Prices) -> list[Cost]:
    """Of every row with a number whose engine has a price, in the run's order. Raises UsageError where the table has
    no price for any engine of the run, or names a fact that no row of an engine's has."""
    rows = [row for row in summarize(run) if not row.cell.floor]
    priced = [(row, tariff) for row in rows if (tariff := prices.tariff(row.cell.asked)) is not None]
    if not priced:
        engines = ", ".join(dict.fromkeys(row.cell.asked for row in rows))
        raise UsageError(f"{prices.file} has no prices for what was measured: {engines}")
    told = {name for row, _ in priced if row.valid for name in row.facts}
    for _, tariff in priced:
        if told and (strange := next((name for name in tariff.each if name not in told), None)):
            has = _listed(told) or "nothing that is charged for"
            raise UsageError(f"{prices.file}: {strange} is nothing that the rows tell; they have {has}")
    return [_cost(row, tariff, prices) for row, tariff in priced if row.valid]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(name for name in names if name.endswith(("_requests", BYTES))))


def _cost(row: CellSummary, tariff: Tariff, prices: Prices) -> Cost:
    million = _million(row.facts, tariff)
    kept = prices.kept_gb if prices.kept_gb is not None else _gb(_amount(row.facts.get(KEPT)))
    if million is None or kept is None:
        return Cost(row, million, None)
    return Cost(row, million, _finite(tariff.month + kept * tariff.kept_gb_month + prices.millions * million))


def _million(facts: Mapping[str, object], tariff: Tariff) -> float | None:
    served = _amount(facts.get(SERVED))
    if not served:
        return None
    whole = 0.0
    for name, price in tariff.each.items():
        count = _amount(facts.get(name))
        if count is None:
            return None
        whole += count / served * price * (MILLION / GB if name.endswith(BYTES) else 1)
    return _finite(whole)


def _amount(found: object) -> float | None:
    """None for what is no number from 0 up: nobody charges for less than nothing."""
    return float(found) if isinstance(found, int | float) and found >= 0 else None


def _gb(found: float | None) -> float | None:
    return None if found is None else found / GB


def _finite(found: float) -> float | None:
    return found if math.isfinite(found) else None
