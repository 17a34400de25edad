"""The port `transactions`: a store that outside tools are at work on, and that Dyno looks at before and after. No
engine and no measuring may be put here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dyno.contracts.suite import Report


class Load(NamedTuple):
    """How long a tool works, with how many connections."""

    clients: int
    limit_ns: int
    seed: int
    events: int = 0
    """So many transactions in all, in place of a time; 0: until the time is over."""


@dataclass(frozen=True)
class SysbenchTables:
    """Those of sysbench."""

    count: int
    size: int
    """Rows of each."""
    distribution: str
    """Of the rows that are asked for: sysbench's --rand-type."""


class Transactions(Protocol):
    """Engines implement it as a class called with `(engine,)`. A report's items are transactions, and its
    operations are these and what failed."""

    def fill(self, tables: SysbenchTables) -> None:
        """sysbench's tables, filled."""

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        """One of sysbench's tests, `oltp_read_only` or the like. Its facts say how many statements of each kind there
        were (`reads`, `writes`, `others`), errors that it passed over, and reconnects."""

    def rows(self, tables: SysbenchTables) -> list[int]:
        """How many there are in each table, counted by a client of Dyno's own."""

    def fill_bank(self, scale: int) -> None:
        """pgbench's tables. Raises Absent where pgbench is no tool for the engine."""

    def run_bank(self, script: str, load: Load) -> Report:
        """One of pgbench's own scripts, `tpcb-like` or `select-only`."""

    def balances(self) -> list[int]:
        """Of pgbench's store: the sum of all accounts, of all tellers, of all branches and of all changes in the
        history; and how many changes there are."""

    def close(self) -> None: ...
