"""Runs sysbench and reads its report.

Alexey Kopytov, sysbench 1.0: manual pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from dyno.contracts.model import Fact, Refused
from dyno.contracts.settings import format_value
from dyno.contracts.suite import Report
from dyno.host.process import die_with_parent

NAME = "sysbench"
INSTALL = "dyno install sysbench"
SECOND_NS = 10**9
_NUMBER = r"\s*(-?[\d.]+)"


def missing() -> str | None:
    """Returns that sysbench is missing, with the command that installs it; None if it isn't."""
    return None if shutil.which(NAME) else f"needs {NAME}: {INSTALL}"


def version() -> str:
    """'sysbench 1.0.20'."""
    return " ".join(run(["--version"]).split()[:2])


def run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs sysbench; returns its output. Raises Refused, with its error message, if it fails."""
    return outside([NAME, *words], environment)


def outside(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs a tool that is killed together with this process; returns its output. Raises Refused, with its error
    message, if it fails or is missing."""
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


class Result(NamedTuple):
    """The report of a run. Times are in ns, as precise as sysbench prints them."""

    events: int
    elapsed_ns: int
    latencies: tuple[tuple[int, int], ...]
    """Pairs of latency in ns and count: 1,024 steps from 1 µs to 100 s, each 1.8 % above the one before."""
    facts: Mapping[str, Fact]

    @staticmethod
    def of(output: str) -> Result:
        """Parses the output. Raises Refused if it is no report."""
        events, seconds = number(output, "total number of events:"), number(output, "total time:")
        if events is None or seconds is None:
            raise Refused(f"no events and no time in sysbench's report: {format_value(output[-200:].strip())}")
        fairness = re.search(r"events \(avg/stddev\):\s*([\d.]+)/([\d.]+)", output)
        facts: dict[str, Fact] = {
            f"latency_{name}_ns": None if (ms := number(output, f"{label}:")) is None else round(ms * 1e6)
            for name, label in (("min", "min"), ("avg", "avg"), ("p95", "95th percentile"), ("max", "max"))
        }
        facts["events_per_thread"] = float(fairness[1]) if fairness else None
        facts["events_deviation"] = float(fairness[2]) if fairness else None
        return Result(int(events), round(seconds * SECOND_NS), _histogram(output), facts)

    def report(self, tool: str) -> Report:
        """Returns a report in which every event is an operation and an item."""
        return Report(
            tool=tool,
            operations=self.events,
            items=self.events,
            elapsed_ns=self.elapsed_ns,
            latencies=self.latencies,
            facts=self.facts,
        )


def number(output: str, label: str) -> float | None:
    """Returns the number after a label at the start of a line; None if there is none."""
    match = re.search(rf"^\s*{re.escape(label)}{_NUMBER}", output, re.MULTILINE)
    return float(match[1]) if match else None


def _histogram(output: str) -> tuple[tuple[int, int], ...]:
    rows = re.findall(rf"^{_NUMBER} \|\**\s+(\d+)$", output, re.MULTILINE)
    return tuple((round(float(ms) * 1e6), int(count)) for ms, count in rows)


def words(threads: int, limit_ns: int, events: int = 0, histogram: bool = True) -> list[str]:
    """Returns arguments for threads and duration, in whole seconds, at least one. `events`: a total number
    instead."""
    duration = [f"--events={events}", "--time=0"] if events else [f"--time={max(limit_ns // SECOND_NS, 1)}"]
    return [f"--threads={threads}", *duration, f"--histogram={'on' if histogram else 'off'}", "--percentile=95"]
