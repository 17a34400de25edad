"""What a row costs by a user's table of prices: pure arithmetic on the facts that a suite tells.

A fact named `served` says how many operations the others are of. No name of a suite may be put here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dyno.contracts.model import UsageError
from dyno.results import Run
from dyno.stats.prices import HOURS, Prices, Tariff
from dyno.stats.summary import CellSummary, summarize

SERVED, KEPT, BYTES = "served", "kept_bytes", "_bytes"
MILLION, GB, HOUR_SECONDS = 1e6, 1e9, 3600


@dataclass(frozen=True)
class Cost:
    """Of one row, in the currency of the table; None where the row does not tell what is charged for."""

    row: CellSummary
    million: float | None
    """Of a million of its operations."""
    month: float | None
    """Of a month: what is kept, so many millions of its operations, the machine, and what is to be paid in any
    case."""


def costs(run: Run, prices: Prices) -> list[Cost]:
    """Of every row with a number whose engine has a price, in the run's order. Raises UsageError where the table has
    no price for any engine of the run, or names a fact that no row of an engine's has."""
    rows = [row for row in summarize(run) if not row.cell.floor]
    names = machine_names(run)
    hour = prices.hour(*names)
    priced = [(row, prices.tariff(row.cell.asked)) for row in rows]
    priced = [(row, tariff) for row, tariff in priced if tariff is not None or hour is not None]
    if not priced:
        engines = ", ".join(dict.fromkeys(row.cell.asked for row in rows))
        machine = " or ".join(names)
        raise UsageError(
            f"{prices.file} has no prices for what was measured: {engines}; nor for its machine, by the name"
            f" {machine}"
        )
    told = {name for row, _ in priced if row.valid for name in row.facts}
    for tariff in (tariff for _, tariff in priced if tariff is not None):
        if told and (strange := next((name for name in tariff.each if name not in told), None)):
            has = _listed(told) or "nothing that is charged for"
            raise UsageError(f"{prices.file}: {strange} is nothing that the rows tell; they have {has}")
    return [_cost(row, tariff, hour, prices) for row, tariff in priced if row.valid]


def machine_names(run: Run) -> list[str]:
    """By which a table of prices may call the machine: the run file's name, or the model of the processor."""
    model = ((run.header.get("host") or {}).get("cpu") or {}).get("model")
    return list(dict.fromkeys(filter(None, (run.path.stem, run.path.name, model))))


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(name for name in names if name.endswith(("_requests", BYTES))))


def _cost(row: CellSummary, tariff: Tariff | None, hour: float | None, prices: Prices) -> Cost:
    """What the tariff asks for, and the machine. A part that has no price needs nothing of the row."""
    charged = _million(row.facts, tariff) if tariff is not None and tariff.each else 0.0
    rate = None if row.throughput is None else row.throughput.median
    machine = 0.0 if hour is None else None if not rate else hour / HOUR_SECONDS * MILLION / rate
    priced = hour is not None or (tariff is not None and bool(tariff.each))
    million = charged + machine if priced and charged is not None and machine is not None else None
    kept = _kept(row, tariff, prices)
    if charged is None or kept is None:
        return Cost(row, _known(million), None)
    month = (tariff.month if tariff is not None else 0.0) + kept + prices.millions * charged + (hour or 0.0) * HOURS
    return Cost(row, _known(million), _finite(month))


def _kept(row: CellSummary, tariff: Tariff | None, prices: Prices) -> float | None:
    """Price of what is kept for a month."""
    if tariff is None or not tariff.kept_gb_month:
        return 0.0
    # A suite that tells nothing of what a service charges for has the size of its store.
    held = _amount(row.facts.get(KEPT) if SERVED in row.facts else row.bytes_on_disk)
    kept = prices.kept_gb if prices.kept_gb is not None else _gb(held)
    return None if kept is None else kept * tariff.kept_gb_month


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


def _known(found: float | None) -> float | None:
    return None if found is None else _finite(found)


def _finite(found: float) -> float | None:
    return found if math.isfinite(found) else None
