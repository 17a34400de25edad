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
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Absent, Fact, Refused, Tier, Unavailable, Value
from dyno.contracts.passwords import mask_argument
from dyno.contracts.rank import rank
from dyno.contracts.sanitize import sanitize
from dyno.contracts.suite import Report
from dyno.contracts.value_types import MOST
from dyno.host.process import die_with_parent
from dyno.suites.memory import BLOCKS
from dyno.suites.oltp import Load, SysbenchTables

NAME = "sysbench"
INSTALL = "dyno install sysbench"
SECOND_NS = 10**9
IGNORED = "an error that sysbench passes over (a deadlock, say), after which it begins the transaction again"
ABORTED = "a transaction that the server aborted: a serialization failure or a deadlock"
NO_PGBENCH = "pgbench is a tool for PostgreSQL alone"
POINTS = 600
"""Maximum number of points of a series, as for phases that Dyno times."""
LOG_BYTES = 16 << 20
"""Size of the pieces in which a log is read."""
_NUMBER = r"\s*(-?[\d.]+)"


def explain_missing_program() -> str | None:
    """Returns a message that sysbench is missing, with the command that installs it; None if it is installed."""
    if shutil.which(NAME):
        return None
    return f"needs {NAME}: {INSTALL}"


def version() -> str:
    """Returns name and version: 'sysbench 1.0.20'."""
    return " ".join(run(["--version"]).split()[:2])


def run(words: Sequence[str], environment: Mapping[str, str] | None = None, config: str = "") -> str:
    """Runs sysbench; returns its output. Raises Refused, with sysbench's error message, if it fails. `config` has
    options that must not be visible in the process list. sysbench reads them from a file in memory."""
    with os.fdopen(os.memfd_create(NAME), "wb") as file:
        file.write(config.encode())
        file.flush()
        if config:
            given = [f"--config-file=/proc/self/fd/{file.fileno()}"]
        else:
            given = []
        return run_tool([NAME, *given, *words], environment, (file.fileno(),))


def config_line(option: str, value: str) -> str:
    """Returns a line of sysbench's configuration file. Raises Refused for a value that the file can't express: it has
    no escapes, and lines of at most 255 bytes (`read_config` in sysbench's sb_options.c)."""
    quote = next((quote for quote in "'\"" if quote not in value), "")
    line = f"{option}={quote}{value}{quote}\n"
    if len(line.encode()) > 255 or "\n" in value or (not quote and re.search(r"^['\"#]|[\s,]", value)):
        raise Refused(
            f"sysbench can't read this {option} from its configuration file: choose a shorter or simpler one"
        )
    return line


MOST_CAUSE = 1_000
"""Maximum number of characters of a tool's messages."""


def _cause(text: str) -> str:
    """Returns a tool's messages on one line, with passwords masked."""
    return sanitize(mask_argument(" ".join(text.split())), MOST_CAUSE, "")


def run_tool(
    command: Sequence[str], environment: Mapping[str, str] | None = None, inherited: Sequence[int] = ()
) -> str:
    """Runs an external tool that is killed together with this process; returns its output. Raises Refused if it can't
    be started, and Unavailable, with the tool's error messages, if it fails."""
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            pass_fds=inherited,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    except OSError as error:
        raise Refused(f"{command[0]} can't be started: {error}") from None
    if process.returncode != 0:
        lines = [line.strip() for line in (process.stderr + "\n" + process.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"\b(fatal|error|failed)\b", line, re.IGNORECASE)]
        # Clients that fail together print the same lines.
        why = _cause("; ".join(dict.fromkeys(errors or lines[:1] or ["no output"])))
        raise Unavailable(f"{command[0]} ended with status {process.returncode}: {why}")
    return process.stdout


def report(tool: str, output: str) -> Report:
    """Parses sysbench's output to a report in which every event is an operation and an item. Latencies have 1,024
    steps from 1 µs to 100 s, each 1.8 % above the one before. Raises Unavailable if the output contains no
    report."""
    events, seconds = number(output, "total number of events:"), number(output, "total time:")
    if events is None or seconds is None:
        raise Unavailable(f"no events and no time in sysbench's report: {_cause(output[-MOST_CAUSE:].strip())}")
    fairness = re.search(r"events \(avg/stddev\):\s*([\d.]+)/([\d.]+)", output)
    facts: dict[str, Fact] = {
        f"latency_{name}_ns": _ns(output, f"{label}:")
        for name, label in (("min", "min"), ("avg", "avg"), ("p95", "95th percentile"), ("max", "max"))
    }
    facts["events_per_thread"] = None
    facts["events_deviation"] = None
    if fairness:
        facts["events_per_thread"] = float(fairness[1])
        facts["events_deviation"] = float(fairness[2])
    rows = re.findall(rf"^{_NUMBER} \|\**\s+(\d+)$", output, re.MULTILINE)
    latencies = tuple((round(float(ms) * 1e6), int(count)) for ms, count in rows)
    return Report(
        tool, int(events), int(events), elapsed_ns=round(seconds * SECOND_NS), latencies=latencies, facts=facts
    )


def number(output: str, label: str) -> float | None:
    """Returns the number after a label at the start of a line; None if there is none."""
    match = re.search(rf"^\s*{re.escape(label)}{_NUMBER}", output, re.MULTILINE)
    if match:
        return float(match[1])
    return None


def words(threads: int, limit_ns: int, events: int = 0, histogram: bool = True) -> list[str]:
    """Returns sysbench's arguments for the number of threads and the duration, at least 1 s, in whole seconds. If
    `events` is given, it limits the total number of events instead."""
    if events:
        duration = [f"--events={events}", "--time=0"]
    else:
        duration = [f"--time={_seconds(limit_ns)}"]
    return [f"--threads={threads}", *duration, f"--histogram={'on' if histogram else 'off'}", "--percentile=95"]


def _seconds(limit_ns: int) -> int:
    return max(limit_ns // SECOND_NS, 1)


def _interval(limit_ns: int) -> int:
    """Returns the number of seconds of a point in the series. The last point may begin when the time is over."""
    return _seconds(limit_ns) // POINTS + 1


class DatabaseTests:
    """The port `transactions` by sysbench's tests `oltp_*`, on the server that `words` name, where `connection`
    counts the rows. `secrets` has the keywords `environment` and `config` of `run`. See
    `dyno.suites.oltp.Transactions`."""

    def __init__(self, connection: Any, words: Sequence[str], **secrets: Any) -> None:
        self._connection = connection
        self._words = list(words)
        self._secrets = secrets
        self._tool = ""

    def fill(self, tables: SysbenchTables) -> None:
        # Use one thread, so that rows are always the same, in the same order.
        run([*self._test_words("oltp_read_write", tables), "prepare"], **self._secrets)

    def run(self, test: str, tables: SysbenchTables, load: Load) -> Report:
        arguments = [*self._test_words(test, tables), *words(load.clients, load.limit_ns, load.events)]
        # sysbench has one percentile of each interval: the series needs p99. The histogram has all of the whole run.
        arguments += [f"--report-interval={0 if load.events else _interval(load.limit_ns)}", "--percentile=99"]
        arguments += [f"--rand-seed={load.seed}", f"--rand-type={tables.distribution}", "run"]
        output = run(arguments, **self._secrets)
        transactions = _read_count(output, "transactions:")
        errors = _read_count(output, "ignored errors:")
        self._tool = self._tool or version()
        result = report(self._tool, output)
        facts: dict[str, Fact] = {
            "latency_p95_ns": _percentile(result.latencies, 95),
            "reads": _read_count(output, "read:"),
            "writes": _read_count(output, "write:"),
            "others": _read_count(output, "other:"),
            "reconnects": _read_count(output, "reconnects:"),
        }
        return replace(
            result,
            operations=transactions + errors,
            items=transactions,
            errors=errors,
            first_error=IGNORED if errors else None,
            series=_points(output, _interval(load.limit_ns)),
            facts={**result.facts, **facts},
        )

    def _test_words(self, test: str, tables: SysbenchTables) -> list[str]:
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


def _percentile(latencies: Sequence[tuple[int, int]], percentile: float) -> int | None:
    """Returns the first value of the histogram up to which there is this percentage of all latencies."""
    least = rank(percentile, sum(times for _, times in latencies))
    seen = 0
    for value, times in latencies:
        seen += times
        if seen >= least:
            return value
    return None


def _points(output: str, interval: int) -> Sequence[Mapping[str, int | None]]:
    """Returns the series in sysbench's intermediate reports, which have no p50; empty if there is only one point. The
    last interval is missing if the tests end before sysbench reports it."""
    rows = re.findall(r"^\[ (\d+)s \] thds: .* tps: ([\d.]+) .* lat \(ms,99%\): ([\d.]+)", output, re.MULTILINE)
    points: list[Mapping[str, int | None]] = [
        {
            "from_ns": (int(end) - interval) * SECOND_NS,
            "interval_ns": interval * SECOND_NS,
            "operations": round(float(rate) * interval),
            "p50_ns": None,
            "p99_ns": round(float(p99) * 1e6),
        }
        for end, rate, p99 in rows
        if float(rate)
    ]
    if len(points) > 1:
        return points
    return ()


def _read_count(output: str, label: str) -> int:
    value = number(output, label)
    if value is None:
        raise Unavailable(f"no {label!r} in sysbench's report: {_cause(output[-MOST_CAUSE:].strip())}")
    return int(value)


LOGGED_SECONDS = 120
"""pgbench logs all transactions of a run up to this duration, and as many, by chance, of those of a longer run."""


def run_pgbench(
    program: str, database: str, environment: Mapping[str, str], script: str, load: Load, folder: Path
) -> Report:
    """Runs one of pgbench's built-in scripts. `database` is a connection string.

    pgbench prints only the mean and the deviation of the latencies, also for each interval. So it writes its log of
    all transactions to a directory in `folder`, which is read after the run: about 40 bytes per transaction. On
    2 cores at 62,000 select-only transactions per second, pgbench took 11.2 µs of CPU time each with the log, and
    11.3 µs without. Reading a log in a pipe during the run would take more.
    """
    seconds = _seconds(load.limit_ns)
    if load.events:
        duration = f"--transactions={load.events // load.clients}"
    else:
        duration = f"--time={seconds}"
    words = [f"--builtin={script}", f"--client={load.clients}", f"--jobs={load.clients}", duration, "--no-vacuum"]
    words += [f"--random-seed={load.seed}", "--protocol=prepared"]
    share = min(LOGGED_SECONDS / seconds, 1)
    sampling = [f"--sampling-rate={share}"] if share < 1 else []
    with TemporaryDirectory(dir=folder, prefix="pgbench-") as log:
        output = run_tool([program, *words, "--log", f"--log-prefix={log}/log", *sampling, database], environment)
        latencies, series = _read_logs(Path(log), _interval(load.limit_ns) * SECOND_NS, share)
    version = re.match(r"pgbench \(([^() ]*)", output)
    transactions, rate = number(output, "number of transactions actually processed:"), number(output, "tps =")
    failed = number(output, "number of failed transactions:")
    if transactions is None or rate is None or not rate:
        raise Unavailable(f"no transactions in pgbench's report: {_cause(output[-MOST_CAUSE:].strip())}")
    if sampling:
        # Scaled, so that there are as many latencies as transactions.
        counts = accumulate(times for _, times in latencies)
        whole = sum(times for _, times in latencies)
        bounds = [0, *(round(transactions * count / whole) for count in counts)]
        latencies = [(value, high - low) for (value, _), (low, high) in zip(latencies, pairwise(bounds), strict=True)]
    facts: dict[str, Fact] = {
        "logged_share": share,
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
        latencies=latencies,
        series=series,
        facts=facts,
    )


def _read_logs(
    folder: Path, interval_ns: int, share: float
) -> tuple[list[tuple[int, int]], Sequence[Mapping[str, int | None]]]:
    """Returns the histogram and the series in pgbench's logs of its threads. A line has client, transaction number,
    latency in µs, script, and end of the transaction in s and µs. Aborted transactions have no latency."""
    import numpy as np

    from dyno.contracts.histogram import Recorder

    pieces = [np.empty((2, 0), np.int64)]
    for path in folder.iterdir():
        with path.open("rb") as file:
            while lines := file.readlines(LOG_BYTES):
                text = b"".join(lines).replace(b"failed", b"-1").decode()
                rows = np.fromstring(text, np.int64, sep=" ").reshape(len(lines), -1)
                rows = rows[rows[:, 2] >= 0]
                pieces.append(np.stack([rows[:, 2], rows[:, 4] * 10**6 + rows[:, 5]]) * 1_000)
    spans, ends = np.concatenate(pieces, axis=1)
    recorder = Recorder()
    recorder.add(spans)
    places = (ends - (ends - spans).min(initial=MOST)) // interval_ns
    order = np.argsort(places, kind="stable")
    numbers, begins = np.unique(places[order], return_index=True)
    points = list[Mapping[str, int | None]]()
    for place, part in zip(numbers.tolist(), np.split(spans[order], begins[1:]), strict=len(numbers) > 0):
        part.sort()
        p50, p99 = (int(part[rank(percentile, len(part)) - 1]) for percentile in (50, 99))
        times = {"from_ns": place * interval_ns, "interval_ns": interval_ns}
        points.append({**times, "operations": round(len(part) / share), "p50_ns": p50, "p99_ns": p99})
    return recorder.pairs(), points if len(points) > 1 else ()


def _ns(output: str, label: str) -> int | None:
    ms = number(output, label)
    if ms is None:
        return None
    return round(ms * 1e6)


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
        access = "seq"
        if mode == "random":
            access = "rnd"
        arguments += [f"--memory-access-mode={access}", f"--memory-oper={operation}", "run"]
        result = report(self._version, run(arguments))
        return replace(result, bytes=result.items * size_bytes)


ENGINE = EngineSpec(
    name="sysbench",
    title="sysbench, an outside tool for processor and memory",
    opener=Sysbench,
    ports={name: PortSpec(lambda engine: engine) for name in ("primes", "memory-access")},
    tiers={},
    installation=Installation(packages=("sysbench",), needs=lambda options: explain_missing_program()),
    clients="threads",
)
