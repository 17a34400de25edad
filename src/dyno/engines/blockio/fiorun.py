"""fio at work: its command line, the JSON that it prints while it goes on, and what of that is a report.

Its histograms come as fio keeps them (json+): 64 buckets for each power of two, so that a latency is at most 1.6 %
off.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dyno.contracts.suite import Report
from dyno.suites.volume.port import IO, READ, WRITE, Enough, Round

PROGRAM = "fio"
KINDS = (READ, WRITE)
MS = 1_000_000
Bins = dict[int, int]


class Target(NamedTuple):
    """What is worked on: a file by its name in a directory, or a device by a descriptor that is passed on."""

    directory: Path
    name: str
    descriptors: tuple[int, ...] = ()


class Failed(Exception):
    """fio ended without telling anything; what it printed."""


def version() -> str:
    """'fio 3.33'."""
    told = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    return told.strip().replace("-", " ", 1)


def command(io: IO, target: Target, ioengine: str, direct: bool, limit_ns: int) -> list[str]:
    """The job, as one would type it."""
    size, apart = io.size, []
    if io.jobs > 1 and not io.pattern.startswith("rand"):
        # Else all jobs would go over the same blocks one after the other, and the first pays for all.
        size = io.size // io.jobs // io.block_size * io.block_size
        apart = [f"--offset_increment={size}"]
    flushes = ["--fdatasync=1"] if io.flush else []
    mix = [f"--rwmixread={io.read_percent}"] if io.mixed else []
    return [
        PROGRAM,
        "--name=dyno",
        f"--filename={target.name}",
        f"--size={size}",
        *apart,
        f"--rw={io.pattern}",
        *mix,
        f"--bs={io.block_size}",
        f"--iodepth={io.depth}",
        f"--numjobs={io.jobs}",
        f"--ioengine={'psync' if io.flush and ioengine != 'null' else ioengine}",
        f"--direct={int(direct and not io.flush)}",
        *flushes,
        f"--randseed={io.seed}",
        "--allow_file_create=0",
        "--time_based",
        f"--runtime={max(limit_ns // MS, 1)}ms",
        "--group_reporting",
    ]


SHOWN = (
    "--eta=never",
    "--output-format=json+",
    "--lat_percentiles=1",
    "--clat_percentiles=1",
    "--slat_percentiles=1",
)


def done(words: Sequence[str], target: Target, io: IO, round_ns: int, enough: Enough | None, tool: str) -> Report:
    """Runs the job and reports it. Raises Failed."""
    statuses = [f"--status-interval={round_ns // MS}ms"] if round_ns else []
    watch = _Watch(round_ns)
    with subprocess.Popen(
        [*words, *SHOWN, *statuses],
        cwd=target.directory,
        pass_fds=target.descriptors,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"},
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for job in watch.jobs(process.stdout):
                if enough is not None and watch.saw(job) and enough(watch.rounds):
                    # It ends what it has begun, and tells of all.
                    process.send_signal(signal.SIGINT)
                    enough = None
                elif enough is None and round_ns:
                    watch.saw(job)
        except BaseException:
            process.kill()
            raise
    if watch.last is None:
        raise Failed(f"fio ended with status {process.returncode}: {' '.join(watch.said) or 'nothing was said'}")
    return _report(watch.last, watch, io, tool, words)


def error_number(said: str) -> int | None:
    """The errno in what fio said as it failed: "fio: pid=7, err=22/file:filesetup.c:805, func=open(volume), …"."""
    match = re.search(r"\berr=\s*(\d+)", said)
    return None if match is None else int(match[1])


class _Watch:
    """What fio has told so far."""

    def __init__(self, round_ns: int) -> None:
        self._round_ns = round_ns
        self._at_ns, self._operations, self._bins = 0, 0, Bins()
        self.rounds: list[Round] = []
        self.points: list[dict[str, int]] = []
        self.said: list[str] = []
        self.last: Mapping[str, Any] | None = None

    def jobs(self, lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
        """Each state of the job that it tells of. What stands outside of JSON is kept as said."""
        whole: list[str] = []
        for line in lines:
            if not whole and line.rstrip() != "{":
                self.said.append(line.strip())
                continue
            whole.append(line)
            if line.rstrip() == "}":
                (self.last,) = json.loads("".join(whole))["jobs"]
                whole.clear()
                yield self.last

    def saw(self, job: Mapping[str, Any]) -> bool:
        """Takes in a state; whether a round was over. What came too early waits for the next."""
        at_ns = max(job[kind]["runtime"] for kind in KINDS) * MS
        lasts_ns = at_ns - self._at_ns
        if lasts_ns < self._round_ns / 2:
            return False
        bins = _merged(_bins(job[kind]["lat_ns"]) for kind in KINDS)
        operations = sum(job[kind]["total_ios"] for kind in KINDS)
        new = {value: times for value, count in bins.items() if (times := count - self._bins.get(value, 0)) > 0}
        self.rounds.append(Round(at_ns, lasts_ns, operations - self._operations))
        self.points.append(self._point(self.rounds[-1], new))
        self._at_ns, self._operations, self._bins = at_ns, operations, bins
        return True

    def _point(self, last: Round, bins: Bins) -> dict[str, int]:
        """fio looks at its clock a little late: a round's operations are told as those of just its time."""
        # Imported here: who reads the declaration needs neither.
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


def _report(job: Mapping[str, Any], watch: _Watch, io: IO, tool: str, words: Sequence[str]) -> Report:
    operations = sum(job[kind]["total_ios"] for kind in KINDS)
    elapsed_ns = max(job[kind]["runtime"] for kind in KINDS) * MS
    moved = sum(job[kind]["io_bytes"] for kind in KINDS)
    error = os.strerror(job["error"]) if job["error"] else None
    whole = _merged(_bins(job[kind]["lat_ns"]) for kind in KINDS)
    if error:
        # The request that failed is counted as done, and has moved nothing.
        operations, moved = sum(whole.values()), sum(whole.values()) * io.block_size
    parts = {
        "submission": _merged(_bins(job[kind]["slat_ns"]) for kind in KINDS),
        "completion": _merged(_bins(job[kind]["clat_ns"]) for kind in KINDS),
    }
    if io.flush:
        parts, whole = {"writing": whole, "flushing": _bins(job["sync"]["lat_ns"])}, _bins(job["sync"]["lat_ns"])
        # The last of them may not have been flushed.
        operations, moved = sum(whole.values()), sum(whole.values()) * io.block_size
    share = job["job_runtime"] * MS / 100
    return Report(
        tool=tool,
        operations=operations + bool(error),
        items=operations,
        elapsed_ns=elapsed_ns,
        errors=int(bool(error)),
        first_error=error,
        bytes=moved,
        latencies=list(whole.items()),
        by_kind={kind: list(_bins(job[kind]["lat_ns"]).items()) for kind in KINDS if io.mixed},
        by_part={name: list(bins.items()) for name, bins in parts.items() if bins},
        series=watch.points if len(watch.points) > 1 else (),
        cpu_ns=(round(job["usr_cpu"] * share), round(job["sys_cpu"] * share)),
        facts={"command": shlex.join(words)},
    )


def _bins(told: Mapping[str, Any]) -> Bins:
    return {int(value): int(count) for value, count in (told.get("bins") or {}).items()}


def _merged(every: Iterable[Bins]) -> Bins:
    found: Bins = {}
    for bins in every:
        for value, count in bins.items():
            found[value] = found.get(value, 0) + count
    return found
