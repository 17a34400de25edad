"""sysbench's tests of databases, and pgbench: what they are told, and what they report. On which server is the
engine's to say."""

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
    """Its tests `oltp_*`, on the server that `words` and `environment` name."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._words, self._environment = list(words), environment
        self._tool = ""

    def fill(self, tables: SysbenchTables) -> None:
        # With one thread: the same rows, in the same order, each time.
        sysbench.run([*self._of("oltp_read_write", tables), "prepare"], self._environment)

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        words = [*self._of(test, tables), *sysbench.words(load.clients, load.limit_ns, load.events)]
        words += [f"--rand-seed={load.seed}", f"--rand-type={tables.distribution}", "run"]
        output = sysbench.run(words, self._environment)
        result = sysbench.Result.of(output)
        done = _counted(output, "transactions:")
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
            operations=done + errors,
            items=done,
            errors=errors,
            first_error=IGNORED if errors else None,
            facts={**result.facts, **facts},
        )

    def _of(self, test: str, tables: SysbenchTables) -> list[str]:
        return [test, *self._words, f"--tables={tables.count}", f"--table-size={tables.size}"]


def _counted(output: str, said: str) -> int:
    found = number(output, said)
    if found is None:
        raise Refused(f"{sysbench.NAME} does not tell {said} {format_value(output[-200:].strip())}")
    return int(found)


def fill_pgbench(program: str, environment: Mapping[str, str], scale: int) -> None:
    """Without vacuum, which is the engine's upkeep."""
    sysbench.outside([program, "--initialize", f"--scale={scale}", "--quiet", "--no-vacuum"], environment)


def run_pgbench(program: str, environment: Mapping[str, str], script: str, load: Load) -> Report:
    """One of its own scripts. Its latencies are a mean and a deviation: it tells no percentiles."""
    if load.events:
        how_long = f"--transactions={load.events // load.clients}"
    else:
        how_long = f"--time={max(load.limit_ns // SECOND_NS, 1)}"
    words = [f"--builtin={script}", f"--client={load.clients}", f"--jobs={load.clients}", how_long, "--no-vacuum"]
    words += [f"--random-seed={load.seed}", "--protocol=prepared"]
    output = sysbench.outside([program, *words], environment)
    version = re.match(r"pgbench \(([^() ]*)", output)
    done, rate = number(output, "number of transactions actually processed:"), number(output, "tps =")
    failed = number(output, "number of failed transactions:")
    if done is None or rate is None or not rate:
        raise Refused(f"pgbench told no transactions: {format_value(output[-200:].strip())}")
    facts: dict[str, Fact] = {
        "latency_avg_ns": _ns(output, "latency average ="),
        "latency_deviation_ns": _ns(output, "latency stddev ="),
        "connecting_ns": _ns(output, "initial connection time ="),
    }
    return Report(
        tool=f"pgbench {version[1]}" if version else "pgbench",
        operations=int(done + (failed or 0)),
        items=int(done),
        elapsed_ns=round(done / rate * SECOND_NS),
        errors=int(failed or 0),
        first_error=ABORTED if failed else None,
        facts=facts,
    )


def _ns(output: str, said: str) -> int | None:
    found = number(output, said)
    return None if found is None else round(found * 1e6)
