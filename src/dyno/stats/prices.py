"""A table of prices that a user gives, as a file: what a provider charges for facts that a suite tells, by engine.

What figures cost by it may not be put here: that is `stats.costs`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value, literal, unknown
from dyno.text.safe_read import MIB, text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CURRENCY, KEPT_GB, MILLIONS, OF, MACHINES = "currency", "kept_gb", "millions", "prices", "machines"
MONTH, GB_MONTH, HOUR = "month", "kept_gb_month", "hour"
HOURS = 730
"""Of a month, as providers count."""
MOST_NAME, MOST = 12, 1e15
GIVEN = (CURRENCY, KEPT_GB, MILLIONS, OF, MACHINES)
EXAMPLE = '[prices."ENGINE"] with kept_gb_month = 0.023 and the like'


@dataclass(frozen=True)
class Tariff:
    """What one provider asks, in the table's currency."""

    month: float
    """Each month, whatever is done: a machine of one's own."""
    kept_gb_month: float
    """For a GB (10^9 bytes) that is kept for a month."""
    each: Mapping[str, float]
    """By the name of a fact: for a million of it; of bytes, for a GB."""


@dataclass(frozen=True)
class Prices:
    """The whole table."""

    file: str
    currency: str
    kept_gb: float | None
    """What is kept throughout the month that is told; None: what the store held that was measured."""
    millions: float
    """How many million operations of a row's there are in it."""
    of: Mapping[str, Tariff]
    """By engine, as it stands in the row, or by its name alone."""

    machines: Mapping[str, float] = field(default_factory=dict)
    """By the name of a run file, or the model of a processor: what an hour of the machine costs."""

    def hour(self, *names: str) -> float | None:
        """Price of an hour of the machine that has one of these names; None if none has a price."""
        return next((self.machines[name] for name in names if name in self.machines), None)

    def tariff(self, asked: str) -> Tariff | None:
        """That of an engine as it was asked for: 's3:bucket=mine'."""
        return self.of.get(asked) or self.of.get(asked.partition(":")[0])


def read(path: Path) -> Prices:
    """The table in a file of TOML. Raises UsageError, in one line."""
    try:
        data = tomllib.loads(text(path, MIB))
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {format_value(error)}") from None
    _known(f"{path}:", data, GIVEN)
    currency = data.get(CURRENCY, "")
    if not isinstance(currency, str) or not currency.isprintable() or len(currency) > MOST_NAME:
        raise UsageError(f"{path}: {CURRENCY} wants a text of up to {MOST_NAME} characters")
    tables, machines = data.get(OF, {}), data.get(MACHINES, {})
    if not (isinstance(tables, dict) and isinstance(machines, dict) and (tables or machines)):
        raise UsageError(f"{path}: there are no prices; say {EXAMPLE}")
    kept = None if KEPT_GB not in data else _number(f"{path}: {KEPT_GB}", data[KEPT_GB])
    return Prices(
        str(path),
        currency,
        kept,
        _number(f"{path}: {MILLIONS}", data.get(MILLIONS, 1)),
        {engine: _tariff(f"{path}: {OF}.{engine}", found) for engine, found in tables.items()},
        {name: _hour(f"{path}: {MACHINES}.{name}", found) for name, found in machines.items()},
    )


def _hour(where: str, found: Any) -> float:
    """The price of an hour, of a table that has that or a month's."""
    if not isinstance(found, dict) or len(found) != 1 or not found.keys() <= {HOUR, MONTH}:
        raise UsageError(f"{where}: wants the price of an {HOUR} or of a {MONTH}; say {HOUR} = 0.34")
    ((name, value),) = found.items()
    return _number(f"{where}: {name}", value) / (1 if name == HOUR else HOURS)


def _tariff(where: str, found: Any) -> Tariff:
    if not isinstance(found, dict) or not found:
        raise UsageError(f"{where}: wants prices by name; say {EXAMPLE}")
    numbers = {name: _number(f"{where}: {name}", value) for name, value in found.items()}
    return Tariff(numbers.pop(MONTH, 0.0), numbers.pop(GB_MONTH, 0.0), numbers)


def _known(where: str, data: Mapping[str, Any], names: Iterable[str]) -> None:
    for name in data:
        if name not in names:
            raise UsageError(unknown(f"{where} key", name, names))


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise UsageError(f"{where} = {literal(value)} wants a number from 0 to {MOST:,.0f}")
    return float(value)
