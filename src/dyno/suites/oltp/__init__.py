"""OLTP: how many short transactions per second does a SQL server do, measured by established tools?

Based on Cloud Mercato, Why you should use sysbench, which uses sysbench's OLTP tests as one of three parts.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dyno.contracts.model import Phase, Preset
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Report, Suite

_SYSBENCH = ("point-select", "read-only", "point-select-cold", "read-only-cold", "write-only", "read-write")
PGBENCH = ("select-only", "tpcb-like")
"""Phases of pgbench, named after its scripts. The others are named after sysbench's tests."""

_distribution = choice("special", "uniform", "gaussian", "pareto")
_REQUESTED = "distribution of the requested rows; special: most are from one in a hundred"

PARAMS = (
    Setting("tables", integer(1, 10_000), 1, "tables of sysbench", phases=_SYSBENCH),
    Setting("table_size", integer(100), 10_000, "rows in each table", phases=_SYSBENCH),
    Setting("distribution", _distribution, "special", _REQUESTED, phases=_SYSBENCH),
    Setting("bank_scale", integer(1, 100_000), 1, "scale of pgbench: times 100,000 accounts", phases=PGBENCH),
)

_STANDARD = {"tables": 10, "table_size": 100_000, "bank_scale": 10, "clients": ("1", "cpus", "4cpus")}
_FULL = {**_STANDARD, "table_size": 1_000_000, "bank_scale": 100, "clients": ("1", "cpus", "2cpus", "4cpus", "8cpus")}
PRESETS = {
    "quick": Preset({}, samples=3, budget=2, timeout=120),
    "standard": Preset(_STANDARD, samples=5, budget=10, timeout=600),
    "full": Preset(_FULL, samples=5, budget=60, timeout=3_600),
}

FITS = "the report's figures, and the number of statements"
_SUMS = "the sums of all balances"
ROWS = f"{FITS}; afterwards, the rows of each table"


def _phase(name: str, title: str, temperature: str = "none", checked: str = FITS, says: str = "") -> Phase:
    return Phase(name, title, "txn", temperature == "none", temperature, checked, reported=True, says=says)


PHASES = (
    _phase("point-select", "sysbench: one row by its key", "hot", says="{figure} rows by key a second"),
    _phase(
        "read-only",
        "sysbench: ten rows by key and four ranges, in a transaction",
        "hot",
        says="{figure} transactions of reads a second",
    ),
    _phase("point-select-cold", "sysbench: one row by its key, the server just started", "cold"),
    _phase("read-only-cold", "sysbench: ten rows by key and four ranges, the server just started", "cold"),
    _phase("write-only", "sysbench: two updates, a delete and an insert, in a transaction", checked=ROWS),
    _phase(
        "read-write",
        "sysbench: the reads and the writes, in a transaction",
        checked=ROWS,
        says="{figure} transactions of reads and writes a second",
    ),
    _phase(
        "select-only",
        "pgbench: one account by its key",
        "hot",
        "the report's figures",
        says="pgbench: {figure} accounts by key a second",
    ),
    _phase(
        "tpcb-like",
        "pgbench: a change of account, teller and branch, after TPC-B",
        checked=_SUMS,
        says="{figure} transactions after TPC-B a second",
    ),
)


class Load(NamedTuple):
    """Load that a tool generates."""

    clients: int
    limit_ns: int
    seed: int
    events: int = 0
    """Total number of transactions. 0: run until the time is over."""


@dataclass(frozen=True)
class SysbenchTables:
    count: int
    size: int
    """Number of rows in each table."""
    distribution: str
    """Distribution of the requested rows, for sysbench's --rand-type."""


class Transactions(Protocol):
    """Tools on a SQL server. Engines implement this protocol as a class called with `(engine,)`. Items of a report
    are transactions. Its operations also include the failed transactions."""

    def fill(self, tables: SysbenchTables) -> None:
        """Creates and fills sysbench's tables."""

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        """Runs one of sysbench's tests, such as `oltp_read_only`. The report's facts have the number of statements of
        each kind (`reads`, `writes`, `others`), ignored errors, and reconnects."""

    def rows(self, tables: SysbenchTables) -> list[int]:
        """Returns the number of rows in each table, counted by Dyno's own client."""

    def fill_bank(self, scale: int) -> None:
        """Creates and fills pgbench's tables. Raises Absent if pgbench doesn't support the engine."""

    def run_bank(self, script: str, load: Load) -> Report:
        """Runs one of pgbench's own scripts, `tpcb-like` or `select-only`."""

    def balances(self) -> list[int]:
        """Returns the sums of accounts, tellers, branches and changes in the history, and the number of changes."""

    def close(self) -> None: ...


class OltpSuite(Suite):
    name = "oltp"
    title = "short transactions on a SQL server, by sysbench and pgbench"
    ports = ("transactions",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES


SUITE = OltpSuite()
