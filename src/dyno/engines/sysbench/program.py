"""sysbench, run as a program: what it prints, read. What one of its tests is about may not be put here.

After Alexey Kopytov, sysbench 1.0: its manual pages and its report.
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
    """What is not here, with the command that installs it; None where it is."""
    return None if shutil.which(NAME) else f"needs {NAME}: {INSTALL}"


def version() -> str:
    """'sysbench 1.0.20'."""
    return " ".join(run(["--version"]).split()[:2])


def run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What it prints. Raises Refused, with what it said, where it fails."""
    return outside([NAME, *words], environment)


def outside(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What an outside tool prints, which is killed with this process. Raises Refused, with what it said of an error,
    where it fails or is not there."""
    try:
        ended = subprocess.run(
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
    if ended.returncode != 0:
        said = [line.strip() for line in (ended.stderr + "\n" + ended.stdout).splitlines() if line.strip()]
        told = [line for line in said if re.search(r"\b(fatal|error|failed)\b", line, re.IGNORECASE)]
        raise Refused(
            f"{command[0]} ended with status {ended.returncode}: {format_value((told or said or ['silent'])[0])}"
        )
    return ended.stdout


class Result(NamedTuple):
    """What it reports of a run, whatever the test is. Times in ns, as exact as it prints them."""

    events: int
    elapsed_ns: int
    latencies: tuple[tuple[int, int], ...]
    """Its histogram: 1,024 steps from 1 µs to 100 s, each 1.8 % above the one before."""
    facts: Mapping[str, Fact]

    @staticmethod
    def of(output: str) -> Result:
        """Raises Refused for what is no report."""
        events, seconds = number(output, "total number of events:"), number(output, "total time:")
        if events is None or seconds is None:
            raise Refused(f"{NAME} told no events and no time: {format_value(output[-200:].strip())}")
        fairness = re.search(r"events \(avg/stddev\):\s*([\d.]+)/([\d.]+)", output)
        facts: dict[str, Fact] = {
            f"latency_{name}_ns": None if (ms := number(output, f"{said}:")) is None else round(ms * 1e6)
            for name, said in (("min", "min"), ("avg", "avg"), ("p95", "95th percentile"), ("max", "max"))
        }
        facts["events_per_thread"] = float(fairness[1]) if fairness else None
        facts["events_deviation"] = float(fairness[2]) if fairness else None
        return Result(int(events), round(seconds * SECOND_NS), _histogram(output), facts)

    def report(self, tool: str) -> Report:
        """As a report of which every event is an operation and an item."""
        return Report(
            tool=tool,
            operations=self.events,
            items=self.events,
            elapsed_ns=self.elapsed_ns,
            latencies=self.latencies,
            facts=self.facts,
        )


def number(output: str, said: str) -> float | None:
    """What stands behind `said`; None where it says no such thing."""
    found = re.search(rf"^\s*{re.escape(said)}{_NUMBER}", output, re.MULTILINE)
    return float(found[1]) if found else None


def _histogram(output: str) -> tuple[tuple[int, int], ...]:
    found = re.findall(rf"^{_NUMBER} \|\**\s+(\d+)$", output, re.MULTILINE)
    return tuple((round(float(ms) * 1e6), int(times)) for ms, times in found)


def words(threads: int, limit_ns: int, events: int = 0, histogram: bool = True) -> list[str]:
    """How many threads, and for how long: in whole seconds, and one at least. `events`: so many in all instead."""
    how_long = [f"--events={events}", "--time=0"] if events else [f"--time={max(limit_ns // SECOND_NS, 1)}"]
    return [f"--threads={threads}", *how_long, f"--histogram={'on' if histogram else 'off'}", "--percentile=95"]
