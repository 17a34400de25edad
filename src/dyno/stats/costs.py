"""Computes what a row costs by a user's table of prices, which is read from a TOML file, and by a suite's facts.

The other facts are counted for a number of operations, and the fact `served` is this number. This module must not
name a suite.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import literal, unknown_name_message
from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.summary import CellSummary, summarize

CURRENCY, KEPT_GB, MILLIONS, LOAD, HEADROOM, OF, MACHINES = KEYS = (
    *("currency", "kept_gb", "millions", "load", "headroom"),
    *("prices", "machines"),
)
MONTH = "month"
GB_MONTH = "kept_gb_month"
HOUR = "hour"
SERVED = "served"
KEPT = "kept_bytes"
BYTES = "_bytes"
HOURS = 730
"""Hours in a month, as cloud providers count them."""
MILLION = 1e6
GB = 1e9
HOUR_SECONDS = 3600
MOST_NAME, MOST = 12, 1e15
CEILING = 1e-9
"""Rounding error that is no reason for another machine."""
EXAMPLE = '[prices."ENGINE"] with kept_gb_month = 0.023 and the like'


@dataclass(frozen=True)
class Tariff:
    """A provider's prices, in the table's currency."""

    month: float
    """Fixed price per month."""
    kept_gb_month: float
    """Price per GB (10^9 bytes) stored for a month."""
    each: Mapping[str, float]
    """Price per million by fact name; for facts in bytes, the price per GB."""


@dataclass(frozen=True)
class Prices:
    """A user's table of prices."""

    file: str
    currency: str
    kept_gb: float | None
    """GB stored throughout the month; None for the size of the measured store."""
    millions: float
    """Millions of a row's operations in a month."""
    of: Mapping[str, Tariff]
    """Tariffs by requested engine ('s3:bucket=mine'), or by the engine's name alone."""
    machines: Mapping[str, float] = field(default_factory=dict)
    """Price of a machine per hour, by the name of a run file or the model of the processor."""
    load: float | None = None
    """Operations per second to be served, by as many machines as that takes; None: one machine at its full rate."""
    headroom: float = 0.0
    """Share of a machine's capacity that is kept free."""


@dataclass(frozen=True)
class Cost:
    """Cost of one row. A cost is None if the row lacks a fact that is charged for."""

    row: CellSummary
    million: float | None
    """Cost of a million operations."""
    month: float | None
    """Cost of a month: storage, the operations, the machines and fixed fees."""
    machines: tuple[int, int] | None = None
    """Machines for the load, by the high and the low end of the capacity's interval. The costs are of the former."""
    month_most: float | None = None
    """Cost of a month with as many machines as the low end takes."""


# -- the table ----------------------------------------------------------------------------------------------


def read_prices(path: Path) -> Prices:
    """Reads a table of prices. Raises UsageError."""
    data = toml(path)
    for name in data:
        if name not in KEYS:
            raise UsageError(unknown_name_message(f"{path}: key", name, KEYS))
    currency = data.get(CURRENCY, "")
    if not isinstance(currency, str) or not currency.isprintable() or len(currency) > MOST_NAME:
        raise UsageError(f"{path}: {CURRENCY}: expected a text of up to {MOST_NAME} characters")
    tables, machines = data.get(OF, {}), data.get(MACHINES, {})
    if not (isinstance(tables, dict) and isinstance(machines, dict) and (tables or machines)):
        raise UsageError(f"{path} has no prices; add {EXAMPLE}")
    tariffs, hours = dict[str, Tariff](), dict[str, float]()
    for engine, value in tables.items():
        where = f"{path}: {OF}.{engine}"
        if not isinstance(value, dict) or not value:
            raise UsageError(f"{where}: expected prices by name, such as {EXAMPLE}")
        numbers = {name: _number(f"{where}: {name}", price) for name, price in value.items()}
        tariffs[engine] = Tariff(numbers.pop(MONTH, 0.0), numbers.pop(GB_MONTH, 0.0), numbers)
    for machine, value in machines.items():
        where = f"{path}: {MACHINES}.{machine}"
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {HOUR, MONTH}:
            raise UsageError(f"{where}: expected the price of an {HOUR} or of a {MONTH}, such as {HOUR} = 0.34")
        ((name, price),) = value.items()
        hours[machine] = _number(f"{where}: {name}", price) / (1 if name == HOUR else HOURS)
    if LOAD not in data:
        load = None
    else:
        load = _number(f"{path}: {LOAD}", data[LOAD])
    headroom = _number(f"{path}: {HEADROOM}", data.get(HEADROOM, 0))
    if headroom >= 100:
        raise UsageError(f"{path}: {HEADROOM} = {literal(data[HEADROOM])}: expected percent below 100")
    return Prices(
        str(path),
        currency,
        None if KEPT_GB not in data else _number(f"{path}: {KEPT_GB}", data[KEPT_GB]),
        _number(f"{path}: {MILLIONS}", data.get(MILLIONS, 1)),
        tariffs,
        hours,
        load,
        headroom / 100,
    )


def _number(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise UsageError(f"{where} = {literal(value)}: expected a number from 0 to {MOST:,.0f}")
    return float(value)


# -- costs --------------------------------------------------------------------------------------------------


def hour_price(run: Run, prices: Prices, names: Sequence[str] = ()) -> float | None:
    """Returns the price of an hour of the run's machine; None without one. `names`: the machine's names other than
    those of `machine_names`."""
    of_machine = (prices.machines[name] for name in (*names, *machine_names(run)) if name in prices.machines)
    return next(of_machine, None)


def machine_names(run: Run) -> list[str]:
    """Returns the names that a table of prices may have for the run's machine: those of its file and processor."""
    model = run.header.host.cpu.model
    return list(dict.fromkeys(filter(None, (run.path.stem, run.path.name, model))))


def costs(run: Run, prices: Prices, names: Sequence[str] = ()) -> list[Cost]:
    """Returns the cost of every row with a number whose engine or machine has a price, in the run's order. `names`:
    further names of the machine. Raises UsageError if the table has no price for this run, or names a fact that no
    row has."""
    rows = [row for row in summarize(run) if not row.cell.floor]
    hour = hour_price(run, prices, names)
    tariffs = [prices.of.get(row.cell.asked) or prices.of.get(row.cell.engine) for row in rows]
    priced = [(row, each) for row, each in zip(rows, tariffs, strict=True) if each is not None or hour is not None]
    if not priced:
        engines = ", ".join(dict.fromkeys(row.cell.asked for row in rows))
        raise UsageError(
            f"{prices.file} has no price for the engines of this run ({engines}), nor for its machine"
            f" ({' or '.join(dict.fromkeys([*names, *machine_names(run)]))})"
        )
    facts = {name for row, _ in priced if row.valid for name in row.facts}
    for tariff in (tariff for _, tariff in priced if tariff is not None):
        if facts and (missing := next((name for name in tariff.each if name not in facts), None)):
            charged = sorted(name for name in facts if name.endswith(("_requests", BYTES)))
            raise UsageError(
                f"{prices.file}: no row has the fact {missing}; chargeable facts: {', '.join(charged) or 'none'}"
            )
    return [_cost(row, tariff, hour, prices) for row, tariff in priced if row.valid]


def _cost(row: CellSummary, tariff: Tariff | None, hour: float | None, prices: Prices) -> Cost:
    """Adds up the tariff's prices and the machine's price. A part without a price needs no fact."""
    tariff = tariff or Tariff(0.0, 0.0, {})
    charged = _charge(row, tariff)
    machines = None
    rate = row.throughput and row.throughput.median
    if prices.load is not None:
        rate = None
        # A closed loop's throughput is no capacity: it says nothing about how long operations wait.
        if row.searched is not None:
            machines = _machines(row.throughput, prices.load, prices.headroom)
        if machines:
            rate = prices.load / machines[0]
    machine: float | None = 0.0
    if hour is not None:
        machine = None
        if rate:
            machine = hour / HOUR_SECONDS * MILLION / rate
    million = None
    if (hour is not None or tariff.each) and charged is not None and machine is not None:
        million = charged + machine
    stored_gb: float | None = 0.0
    if tariff.kept_gb_month:
        stored_gb = _stored_gb(row, prices)
    month = most = None
    if charged is not None and stored_gb is not None and (hour is None or prices.load is None or machines):
        stored = stored_gb * tariff.kept_gb_month
        millions = prices.millions
        if prices.load is not None:
            millions = prices.load * HOUR_SECONDS * HOURS / MILLION
        apart = tariff.month + stored + millions * charged
        month, most = (apart + (hour or 0.0) * HOURS * number for number in machines or (1, 1))
    return Cost(row, _finite(million), _finite(month), machines, _finite(most))


def _charge(row: CellSummary, tariff: Tariff) -> float | None:
    """Returns what the tariff charges for the facts of a million operations."""
    served = _amount(row.facts.get(SERVED))
    total = 0.0
    for name, price in tariff.each.items():
        count = _amount(row.facts.get(name))
        # A missing fact makes the price of a million operations unknown.
        if count is None or not served:
            return None
        if name.endswith(BYTES):
            price *= MILLION / GB
        total += count / served * price
    return _finite(total)


def _stored_gb(row: CellSummary, prices: Prices) -> float | None:
    if prices.kept_gb is not None:
        return prices.kept_gb
    size = _amount(row.facts.get(KEPT))
    if SERVED not in row.facts:
        # For a suite without chargeable facts, the size is that of its store.
        size = _amount(row.bytes_on_disk)
    if size is None:
        return None
    return size / GB


def _machines(capacity: Estimate | None, load: float, headroom: float) -> tuple[int, int] | None:
    """Returns the least and the most number of machines that the load takes; None without a capacity. A capacity of
    which only the low end is known takes at most as many as that end."""
    if capacity is None:
        return None
    ends = (capacity.high or capacity.median, capacity.low or capacity.median)
    few, many = (max(math.ceil(load / (end * (1 - headroom)) - CEILING), 1) for end in ends)
    return few, many


def _amount(value: object) -> float | None:
    """Returns None unless the value is a number of at least 0, because a negative amount has no price."""
    if isinstance(value, int | float) and value >= 0:
        return float(value)
    return None


def _finite(value: float | None) -> float | None:
    if value is not None and math.isfinite(value):
        return value
    return None
