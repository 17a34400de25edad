"""Runs fio, reads the JSON that it prints during the run, and turns the JSON into a report.

fio's histograms (json+) have 64 buckets per power of two, so a latency is at most 1.6 % off.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.suite import Report
from dyno.contracts.value_types import JsonMapping
from dyno.suites.volume import IO, READ, WRITE, Enough, Round

PROGRAM = "fio"
KINDS = (READ, WRITE)
MS = 1_000_000
Bins = dict[int, int]
"""Counts by latency in ns."""
Job = JsonMapping
"""A state of the job, as fio prints it."""


class Target(NamedTuple):
    """A file, by its directory and name, or a device, by an inherited descriptor."""

    directory: Path
    name: str
    descriptors: tuple[int, ...] = ()


class Failed(Exception):
    """fio ended without a report; the message has its output."""


def version() -> str:
    """Returns name and version: 'fio 3.33'."""
    output = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    return output.strip().replace("-", " ", 1)


def build_command(io: IO, target: Target, ioengine: str, direct: bool, limit_ns: int) -> list[str]:
    """Returns the command line of a job, as a user would type it."""
    size, offset = io.size, []
    if io.jobs > 1 and not io.pattern.startswith("rand"):
        # Give each job a part of the volume. Otherwise the first job would load all blocks for the others.
        size = io.size // io.jobs // io.block_size * io.block_size
        offset = [f"--offset_increment={size}"]
    flags = []
    if io.mixed:
        flags.append(f"--rwmixread={io.read_percent}")
    if io.flush:
        flags.append("--fdatasync=1")
        if ioengine != "null":
            ioengine = "psync"
    if not io.once:
        flags += ["--time_based", f"--runtime={max(limit_ns // MS, 1)}ms"]
    return [
        PROGRAM,
        "--name=dyno",
        f"--filename={target.name}",
        f"--size={size}",
        *offset,
        f"--rw={io.pattern}",
        f"--bs={io.block_size}",
        f"--iodepth={io.depth}",
        f"--numjobs={io.jobs}",
        f"--ioengine={ioengine}",
        f"--direct={int(direct and not io.flush)}",
        f"--randseed={io.seed}",
        "--allow_file_create=0",
        *flags,
        "--group_reporting",
    ]


OUTPUT_OPTIONS = (
    *("--eta=never", "--output-format=json+"),
    *("--lat_percentiles=1", "--clat_percentiles=1", "--slat_percentiles=1"),
)


def run(words: Sequence[str], target: Target, io: IO, round_ns: int, enough: Enough | None, tool: str) -> Report:
    """Runs the job until it ends or `enough` returns true. Raises Failed."""
    if round_ns:
        interval = [f"--status-interval={round_ns // MS}ms"]
    else:
        interval = []
    progress = _Progress(round_ns)
    with subprocess.Popen(
        [*words, *OUTPUT_OPTIONS, *interval],
        cwd=target.directory,
        pass_fds=target.descriptors,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
        text=True,
    ) as process:
        assert process.stdout is not None
        with undo_on_error(process.kill):
            for job in progress.read(process.stdout):
                round_ended = bool(round_ns) and progress.add(job)
                if enough is not None and round_ended and enough(progress.rounds):
                    # On SIGINT, fio finishes the requests in flight and prints its last state.
                    process.send_signal(signal.SIGINT)
                    enough = None
    if progress.last is None:
        raise Failed(f"fio ended with status {process.returncode}: {' '.join(progress.messages) or 'no output'}")
    return _report(progress, io, tool, words)


def error_number(output: str) -> int | None:
    """Returns the errno in fio's error message: "fio: pid=7, err=22/file:filesetup.c:805, func=open(volume), …"."""
    match = re.search(r"\berr=\s*(\d+)", output)
    if match is None:
        return None
    return int(match[1])


class _Progress:
    """Rounds and last state of a running job."""

    def __init__(self, round_ns: int) -> None:
        self._round_ns = round_ns
        self._at_ns = 0
        self._operations = 0
        self._bins = Bins()
        self.rounds: list[Round] = []
        self.points: list[dict[str, int]] = []
        self.messages: list[str] = []
        self.last: Job | None = None

    def read(self, lines: Iterable[str]) -> Iterator[Job]:
        """Yields each state of the job that fio prints. Collects lines outside the JSON as messages."""
        document: list[str] = []
        for line in lines:
            if not document and line.rstrip() != "{":
                self.messages.append(line.strip())
                continue
            document.append(line)
            if line.rstrip() == "}":
                (self.last,) = json.loads("".join(document))["jobs"]
                document.clear()
                yield self.last

    def add(self, job: Job) -> bool:
        """Adds a state; returns whether a round ended. A state that comes too early counts with the next."""
        at_ns = max(job[kind]["runtime"] for kind in KINDS) * MS
        lasts_ns = at_ns - self._at_ns
        if lasts_ns < self._round_ns / 2:
            return False
        bins = _merge(_bins(job[kind]["lat_ns"]) for kind in KINDS)
        operations = sum(job[kind]["total_ios"] for kind in KINDS)
        new = {value: times for value, count in bins.items() if (times := count - self._bins.get(value, 0)) > 0}
        self.rounds.append(Round(at_ns, lasts_ns, operations - self._operations))
        self.points.append(self._point(self.rounds[-1], new))
        self._at_ns = at_ns
        self._operations = operations
        self._bins = bins
        return True

    def _point(self, last: Round, bins: Bins) -> dict[str, int]:
        """Returns a point of the report's series. Operations are scaled to a round: fio prints a little late."""
        # Imported here: the parent reads the declaration without NumPy.
        import numpy as np

        from dyno.contracts.histogram import Recorder, quantile

        recorder = Recorder()
        for value, times in bins.items():
            recorder.add_many(value, times)
        filled = np.flatnonzero(recorder.counts)
        p50, p99 = (quantile(filled, recorder.counts[filled], at) if len(filled) else 0 for at in (50.0, 99.0))
        return {
            "from_ns": (len(self.rounds) - 1) * self._round_ns,
            "interval_ns": self._round_ns,
            "operations": round(last.per_second * self._round_ns / 1e9),
            "p50_ns": p50,
            "p99_ns": p99,
        }


def _report(progress: _Progress, io: IO, tool: str, words: Sequence[str]) -> Report:
    job = progress.last
    assert job is not None
    operations, moved = (sum(job[kind][name] for kind in KINDS) for name in ("total_ios", "io_bytes"))
    error = os.strerror(job["error"]) if job["error"] else None
    latencies = _merge(_bins(job[kind]["lat_ns"]) for kind in KINDS)
    parts = {
        "submission": _merge(_bins(job[kind]["slat_ns"]) for kind in KINDS),
        "completion": _merge(_bins(job[kind]["clat_ns"]) for kind in KINDS),
    }
    if io.flush:
        flushes = _bins(job["sync"]["lat_ns"])
        parts, latencies = {"writing": latencies, "flushing": flushes}, flushes
    if error or io.flush:
        # Count the recorded latencies: fio counts a failed request as done, and may not have flushed the last write.
        operations, moved = sum(latencies.values()), sum(latencies.values()) * io.block_size
    share = job["job_runtime"] * MS / 100
    return Report(
        tool=tool,
        operations=operations + bool(error),
        items=operations,
        elapsed_ns=max(job[kind]["runtime"] for kind in KINDS) * MS,
        errors=int(bool(error)),
        first_error=error,
        bytes=moved,
        latencies=list(latencies.items()),
        by_kind={kind: list(_bins(job[kind]["lat_ns"]).items()) for kind in KINDS if io.mixed},
        by_part={name: list(bins.items()) for name, bins in parts.items() if bins},
        series=progress.points if len(progress.points) > 1 else (),
        cpu_ns=(round(job["usr_cpu"] * share), round(job["sys_cpu"] * share)),
        facts={"command": shlex.join(words)},
    )


def _bins(histogram: Mapping[str, Mapping[str, int]]) -> Bins:
    return {int(value): int(count) for value, count in (histogram.get("bins") or {}).items()}


def _merge(histograms: Iterable[Bins]) -> Bins:
    merged: Bins = {}
    for bins in histograms:
        for value, count in bins.items():
            merged[value] = merged.get(value, 0) + count
    return merged
