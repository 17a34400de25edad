"""sysbench's tests of databases, and pgbench: their arguments and their reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyno.contracts.model import Fact, Refused
from dyno.contracts.settings import format_value
from dyno.contracts.suite import Report
from dyno.engines.sysbench import program as sysbench
from dyno.engines.sysbench.program import number
from dyno.suites.oltp import Load, SysbenchTables

SECOND_NS = sysbench.SECOND_NS
IGNORED = "an error that sysbench passes over (a deadlock, say), after which it begins the transaction again"

ABORTED = "a transaction that the server aborted: a serialization failure or a deadlock"


class Sysbench:
    """The tests `oltp_*`, on the server that `words` and `environment` name."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._words, self._environment = list(words), environment
        self._tool = ""

    def fill(self, tables: SysbenchTables) -> None:
        # With one thread, so that rows are always the same, in the same order.
        sysbench.run([*self._of("oltp_read_write", tables), "prepare"], self._environment)

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        words = [*self._of(test, tables), *sysbench.words(load.clients, load.limit_ns, load.events)]
        words += [f"--rand-seed={load.seed}", f"--rand-type={tables.distribution}", "run"]
        output = sysbench.run(words, self._environment)
        result = sysbench.Result.of(output)
        transactions = _counted(output, "transactions:")
        errors = _counted(output, "ignored errors:")
        facts: dict[str, Fact] = {
            "reads": _counted(output, "read:"),
            "writes": _counted(output, "write:"),
            "others": _counted(output, "other:"),
            "reconnects": _counted(output, "reconnects:"),
        }
        self._tool = self._tool or sysbench.version()
        return replace(
            result.report(self._tool),
            operations=transactions + errors,
            items=transactions,
            errors=errors,
            first_error=IGNORED if errors else None,
            facts={**result.facts, **facts},
        )

    def _of(self, test: str, tables: SysbenchTables) -> list[str]:
        return [test, *self._words, f"--tables={tables.count}", f"--table-size={tables.size}"]


def _counted(output: str, label: str) -> int:
    value = number(output, label)
    if value is None:
        raise Refused(f"no {label!r} in sysbench's report: {format_value(output[-200:].strip())}")
    return int(value)


def fill_pgbench(program: str, environment: Mapping[str, str], scale: int) -> None:
    """Creates pgbench's tables, without a vacuum, which is the engine's upkeep."""
    sysbench.outside([program, "--initialize", f"--scale={scale}", "--quiet", "--no-vacuum"], environment)


def run_pgbench(program: str, environment: Mapping[str, str], script: str, load: Load) -> Report:
    """Runs one of pgbench's built-in scripts. It reports mean and deviation of latencies, but no percentiles."""
    if load.events:
        duration = f"--transactions={load.events // load.clients}"
    else:
        duration = f"--time={max(load.limit_ns // SECOND_NS, 1)}"
    words = [f"--builtin={script}", f"--client={load.clients}", f"--jobs={load.clients}", duration, "--no-vacuum"]
    words += [f"--random-seed={load.seed}", "--protocol=prepared"]
    output = sysbench.outside([program, *words], environment)
    version = re.match(r"pgbench \(([^() ]*)", output)
    transactions, rate = number(output, "number of transactions actually processed:"), number(output, "tps =")
    failed = number(output, "number of failed transactions:")
    if transactions is None or rate is None or not rate:
        raise Refused(f"no transactions in pgbench's report: {format_value(output[-200:].strip())}")
    facts: dict[str, Fact] = {
        "latency_avg_ns": _ns(output, "latency average ="),
        "latency_deviation_ns": _ns(output, "latency stddev ="),
        "connecting_ns": _ns(output, "initial connection time ="),
    }
    return Report(
        tool=f"pgbench {version[1]}" if version else "pgbench",
        operations=int(transactions + (failed or 0)),
        items=int(transactions),
        elapsed_ns=round(transactions / rate * SECOND_NS),
        errors=int(failed or 0),
        first_error=ABORTED if failed else None,
        facts=facts,
    )


def _ns(output: str, label: str) -> int | None:
    ms = number(output, label)
    return None if ms is None else round(ms * 1e6)
