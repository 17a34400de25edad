"""One trial, in a process of its own: suite + engine + measuring loop, told by a pipe and telling by a pipe.

Started by the process PARENT as `python -m dyno.run.worker FD PARENT`. It reads its job, one line of JSON, from
standard input, and writes one line of JSON per event to file descriptor FD. Standard output belongs to the engine.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from dyno import registry
from dyno.model import Phase, Refused, Sample, Tier, Wrong
from dyno.run.clients import run_phase
from dyno.run.measure import Tally, judged
from dyno.run.process import die_with_parent
from dyno.suite import Job, Workload

BLOCK_BYTES = 512


def main() -> None:
    """Reads the job, executes it, and reports how it ended."""
    die_with_parent(int(sys.argv[2]))
    # Not inherited by what the engine starts, which could hold the pipe open after this process is gone.
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "w") as pipe:
        job = json.loads(sys.stdin.readline())
        try:
            _trial(job, pipe)
        except Wrong as wrong:
            _end(pipe, "wrong", str(wrong))
        except Refused as refused:
            _end(pipe, "refused", str(refused))
        except MemoryError as error:
            _end(pipe, "out-of-memory", f"MemoryError: {error}".rstrip(": "))
        except Exception as error:
            _end(pipe, "error", f"{type(error).__name__}: {error}")
            # For the trial's output, which is kept where it did not end well.
            traceback.print_exc()
        else:
            _end(pipe, "ok", None)


def _end(pipe: TextIO, outcome: str, why: str | None) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    clients = resource.getrusage(resource.RUSAGE_CHILDREN)
    resources = {
        "user_ns": int((used.ru_utime + clients.ru_utime) * 1e9),
        "system_ns": int((used.ru_stime + clients.ru_stime) * 1e9),
        "peak_resident_bytes": used.ru_maxrss << 10,
    }
    _tell(pipe, event="end", outcome=outcome, why=why, resources=resources)


def _tell(pipe: TextIO, **event: Any) -> None:
    pipe.write(json.dumps(event) + "\n")
    pipe.flush()


def _trial(message: Mapping[str, Any], pipe: TextIO) -> None:
    suite, spec = registry.suite(message["suite"]), registry.engine(message["engine"])
    job = Job(
        spec=spec,
        home=Path(message["home"]),
        tier=Tier(message["tier"]),
        options=spec.resolve(message["options"]),
        params=message["params"],
        seed=message["seed"],
        clients=message["clients"],
    )
    workload = suite.workload(job)
    _tell(pipe, event="phase", phase="conformance")
    workload.conformance()
    told = False
    for phase in suite.phases:
        if phase.name not in message["phases"]:
            continue
        _tell(pipe, event="phase", phase=phase.name)
        workload.prepare(phase)
        if not told:
            _tell(pipe, event="engine", **_about(workload))
            told = True
        sample = _measure(workload, phase, job, int(message["budget"] * 1e9))
        _tell(pipe, event="sample", sample=asdict(sample))
    _tell(pipe, event="phase", phase="close")
    workload.close()


def _about(workload: Workload) -> dict[str, Any]:
    engine = workload.engine()
    return {
        "version": engine.version(),
        "settings": dict(engine.settings()),
        "caveats": [asdict(caveat) for caveat in (*engine.caveats(), *workload.caveats())],
    }


def _measure(workload: Workload, phase: Phase, job: Job, budget_ns: int) -> Sample:
    tally = run_phase(workload, phase, job.clients, job.spec.clients, budget_ns)
    void = tally.void
    if void is None:
        try:
            tally.checked += judged(lambda: workload.verify(phase))
        except Wrong as wrong:
            void = str(wrong)
    return _sample(workload, phase, job, tally, void)


def _sample(workload: Workload, phase: Phase, job: Job, tally: Tally, void: str | None) -> Sample:
    return Sample(
        phase=phase.name,
        unit=phase.unit,
        operations=tally.operations,
        items=tally.items,
        elapsed_ns=tally.elapsed_ns,
        busy_ns=tally.busy_ns,
        errors=tally.errors,
        first_error=tally.first_error,
        ended_by=tally.ended_by,
        checked=tally.checked,
        clients=job.clients,
        bulk=tally.bulk,
        histogram=tally.latency.encode(),
        by_kind={kind: recorder.encode() for kind, recorder in tally.by_kind.items()},
        bytes_on_disk=_size_on_disk(workload),
        void=void,
    )


def _size_on_disk(workload: Workload) -> int | None:
    """Allocated blocks of the engine's files, in bytes: what a sparse or preallocated file takes, not its length."""
    files = list(workload.engine().files())
    if not files:
        return None
    total = 0
    for path in files:
        try:
            total += path.stat().st_blocks * BLOCK_BYTES
        except FileNotFoundError:
            # A file that the engine's compaction removed in between.
            continue
    return total


if __name__ == "__main__":
    main()
