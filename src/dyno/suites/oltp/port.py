"""The port `transactions`: a database on which an outside tool runs, and which Dyno reads before and after. No engine
and no measuring belong here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dyno.contracts.suite import Report


class Load(NamedTuple):
    """The load that a tool generates."""

    clients: int
    limit_ns: int
    seed: int
    events: int = 0
    """Total number of transactions; 0 runs until the time is over."""


@dataclass(frozen=True)
class SysbenchTables:
    """The tables of sysbench's tests."""

    count: int
    size: int
    """Rows of each table."""
    distribution: str
    """Distribution of the requested rows: sysbench's --rand-type."""


class Transactions(Protocol):
    """Engines implement it as a class called with `(engine,)`. A report's items are transactions; its operations are
    these and the failed ones."""

    def fill(self, tables: SysbenchTables) -> None:
        """Creates and fills sysbench's tables."""

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        """Runs one of sysbench's tests, such as `oltp_read_only`. The report's facts have the number of statements of
        each kind (`reads`, `writes`, `others`), ignored errors, and reconnects."""

    def rows(self, tables: SysbenchTables) -> list[int]:
        """The number of rows in each table, counted by Dyno's own client."""

    def fill_bank(self, scale: int) -> None:
        """Creates and fills pgbench's tables. Raises Absent if pgbench doesn't support the engine."""

    def run_bank(self, script: str, load: Load) -> Report:
        """Runs one of pgbench's own scripts, `tpcb-like` or `select-only`."""

    def balances(self) -> list[int]:
        """The sums of all accounts, all tellers, all branches and all changes in pgbench's history, and the number of
        changes."""

    def close(self) -> None: ...
