"""sysbench as an engine, an external tool that measures processor and memory and reports its own figures; and
the database tests of sysbench and pgbench, for other engines.

Source: Alexey Kopytov, sysbench 1.0: manual pages.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Absent, Fact, Refused, Tier, Value
from dyno.contracts.settings import format_value
from dyno.contracts.suite import Report
from dyno.host.process import die_with_parent
from dyno.suites.memory import BLOCKS
from dyno.suites.oltp import Load, SysbenchTables

NAME = "sysbench"
INSTALL = "dyno install sysbench"
SECOND_NS = 10**9
IGNORED = "an error that sysbench passes over (a deadlock, say), after which it begins the transaction again"
ABORTED = "a transaction that the server aborted: a serialization failure or a deadlock"
NO_PGBENCH = "pgbench is a tool for PostgreSQL alone"
_NUMBER = r"\s*(-?[\d.]+)"


def missing() -> str | None:
    """Returns a message that sysbench is missing, with the command that installs it; None if it is installed."""
    return None if shutil.which(NAME) else f"needs {NAME}: {INSTALL}"


def version() -> str:
    """Returns name and version: 'sysbench 1.0.20'."""
    return " ".join(run(["--version"]).split()[:2])


def run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs sysbench; returns its output. Raises Refused, with sysbench's error message, if it fails."""
    return outside([NAME, *words], environment)


def outside(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs an external tool that is killed together with this process; returns its output. Raises Refused, with the
    tool's error message, if it fails or is missing."""
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    except OSError as error:
        raise Refused(f"{command[0]} can't be started: {error}") from None
    if process.returncode != 0:
        lines = [line.strip() for line in (process.stderr + "\n" + process.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"\b(fatal|error|failed)\b", line, re.IGNORECASE)]
        why = format_value((errors or lines or ["no output"])[0])
        raise Refused(f"{command[0]} ended with status {process.returncode}: {why}")
    return process.stdout


def report(tool: str, output: str) -> Report:
    """Parses sysbench's output to a report in which every event is an operation and an item. Latencies have 1,024
    steps from 1 µs to 100 s, each 1.8 % above the one before. Raises Refused if the output contains no report."""
    events, seconds = number(output, "total number of events:"), number(output, "total time:")
    if events is None or seconds is None:
        raise Refused(f"no events and no time in sysbench's report: {format_value(output[-200:].strip())}")
    fairness = re.search(r"events \(avg/stddev\):\s*([\d.]+)/([\d.]+)", output)
    facts: dict[str, Fact] = {
        f"latency_{name}_ns": _ns(output, f"{label}:")
        for name, label in (("min", "min"), ("avg", "avg"), ("p95", "95th percentile"), ("max", "max"))
    }
    facts["events_per_thread"] = float(fairness[1]) if fairness else None
    facts["events_deviation"] = float(fairness[2]) if fairness else None
    rows = re.findall(rf"^{_NUMBER} \|\**\s+(\d+)$", output, re.MULTILINE)
    latencies = tuple((round(float(ms) * 1e6), int(count)) for ms, count in rows)
    return Report(
        tool, int(events), int(events), elapsed_ns=round(seconds * SECOND_NS), latencies=latencies, facts=facts
    )


def number(output: str, label: str) -> float | None:
    """Returns the number after a label at the start of a line; None if there is none."""
    match = re.search(rf"^\s*{re.escape(label)}{_NUMBER}", output, re.MULTILINE)
    return float(match[1]) if match else None


def words(threads: int, limit_ns: int, events: int = 0, histogram: bool = True) -> list[str]:
    """Returns sysbench's arguments for the number of threads and the duration, at least 1 s, in whole seconds. If
    `events` is given, it limits the total number of events instead."""
    duration = [f"--events={events}", "--time=0"] if events else [f"--time={max(limit_ns // SECOND_NS, 1)}"]
    return [f"--threads={threads}", *duration, f"--histogram={'on' if histogram else 'off'}", "--percentile=95"]


class DatabaseTests:
    """The port `transactions` by sysbench's tests `oltp_*`, on the server that `words` and `environment` name, where
    `connection` counts the rows. See `dyno.suites.oltp.Transactions`."""

    def __init__(self, connection: Any, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._connection, self._words, self._environment = connection, list(words), environment
        self._tool = ""

    def fill(self, tables: SysbenchTables) -> None:
        # Use one thread, so that rows are always the same, in the same order.
        run([*self._of("oltp_read_write", tables), "prepare"], self._environment)

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        arguments = [*self._of(test, tables), *words(load.clients, load.limit_ns, load.events)]
        arguments += [f"--rand-seed={load.seed}", f"--rand-type={tables.distribution}", "run"]
        output = run(arguments, self._environment)
        transactions = _counted(output, "transactions:")
        errors = _counted(output, "ignored errors:")
        facts: dict[str, Fact] = {
            "reads": _counted(output, "read:"),
            "writes": _counted(output, "write:"),
            "others": _counted(output, "other:"),
            "reconnects": _counted(output, "reconnects:"),
        }
        self._tool = self._tool or version()
        result = report(self._tool, output)
        return replace(
            result,
            operations=transactions + errors,
            items=transactions,
            errors=errors,
            first_error=IGNORED if errors else None,
            facts={**result.facts, **facts},
        )

    def _of(self, test: str, tables: SysbenchTables) -> list[str]:
        return [test, *self._words, f"--tables={tables.count}", f"--table-size={tables.size}"]

    def rows(self, tables: SysbenchTables) -> list[int]:
        return [self._number(f"SELECT count(*) FROM sbtest{at}") for at in range(1, tables.count + 1)]

    def _number(self, query: str) -> int:
        (value,) = self._connection.execute(query).fetchone()
        return int(value)

    def fill_bank(self, scale: int) -> None:
        raise Absent(NO_PGBENCH)

    def run_bank(self, script: str, load: Load) -> Report:
        raise Absent(NO_PGBENCH)

    def balances(self) -> list[int]:
        raise Absent(NO_PGBENCH)

    def close(self) -> None:
        self._connection.close()


def _counted(output: str, label: str) -> int:
    value = number(output, label)
    if value is None:
        raise Refused(f"no {label!r} in sysbench's report: {format_value(output[-200:].strip())}")
    return int(value)


def run_pgbench(program: str, environment: Mapping[str, str], script: str, load: Load) -> Report:
    """Runs one of pgbench's built-in scripts. pgbench reports mean and deviation of latencies, but no percentiles."""
    if load.events:
        duration = f"--transactions={load.events // load.clients}"
    else:
        duration = f"--time={max(load.limit_ns // SECOND_NS, 1)}"
    words = [f"--builtin={script}", f"--client={load.clients}", f"--jobs={load.clients}", duration, "--no-vacuum"]
    words += [f"--random-seed={load.seed}", "--protocol=prepared"]
    output = outside([program, *words], environment)
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


ENDLESS = "1000T"
"""More bytes than any test transfers before its time is up."""


class Sysbench(Engine):
    """sysbench as an engine, which is also its ports. Every phase runs the program."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._version = version()

    def version(self) -> str:
        return self._version

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        """The port `primes`: sysbench's test `cpu`."""
        arguments = [*words(threads, limit_ns, events * threads), "cpu", f"--cpu-max-prime={limit}", "run"]
        return report(self._version, run(arguments))

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        """The port `memory-access`: sysbench's test `memory`, with a block for each thread."""
        if pattern not in BLOCKS:
            raise Absent(f"has no {pattern}: that is Dyno's own kernel's")
        mode, _, operation = pattern.partition("-")
        arguments = [*words(threads, limit_ns, histogram=False), f"--rand-seed={seed}", "memory"]
        arguments += [f"--memory-block-size={size_bytes}", "--memory-scope=local", f"--memory-total-size={ENDLESS}"]
        access = "rnd" if mode == "random" else "seq"
        arguments += [f"--memory-access-mode={access}", f"--memory-oper={operation}", "run"]
        result = report(self._version, run(arguments))
        return replace(result, bytes=result.items * size_bytes)


ENGINE = EngineSpec(
    name="sysbench",
    title="sysbench, an outside tool for processor and memory",
    opener=Sysbench,
    ports={name: PortSpec(lambda engine: engine) for name in ("primes", "memory-access")},
    tiers={},
    packages=("sysbench",),
    needs=lambda options: missing(),
    clients="threads",
)
