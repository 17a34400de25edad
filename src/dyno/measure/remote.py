"""Runs one machine's clients of a phase, in a process of its own on that machine: the other side of
`dyno.measure.remote_load`.

The process opens the store by the server's address, builds its clients' inputs, answers that it is ready, waits for
the start, and answers with the tally. It reads messages from standard input and ends when that is closed, which is
when the process that started it has ended. Its standard output belongs to the engine.
"""

import math
import os
import pickle
import shutil
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from socket import create_connection
from threading import Thread
from time import monotonic_ns, sleep
from typing import cast

import dyno
from dyno import registry
from dyno.contracts.declarations import exception_text
from dyno.contracts.model import Absent, Refused, Wrong
from dyno.contracts.roles import RemoteWorkload
from dyno.host.process import die_with_parent
from dyno.host.procfs import ROOT, quota_cores
from dyno.machines.tasks import read_frame, write_frame
from dyno.measure.clients import run_phase
from dyno.measure.counters import CounterReader
from dyno.measure.loop import describe_loop, pick
from dyno.measure.messages import (
    ClientsDone,
    ClientsFailed,
    ClientsReady,
    MachineDescribed,
    RemoteAnswer,
    RemotePhase,
    RemoteVersion,
    decode,
    encode,
)
from dyno.measure.schedule import SPIN_NS
from dyno.measure.worker import resolve_job
from dyno.servers import namespace
from dyno.servers.listen import JoinableServer, ReachedServer

START_SECONDS = 120
"""How long a process whose clients are ready waits for the start: another machine may take longer to be ready."""
CONNECTIONS, CONNECT_SECONDS = 20, 2.0
"""Number of connections whose shortest time is the round trip to the server, and the time limit of each."""
CALIBRATING_NS = 1_000_000_000
"""Least warm-up of a closed loop: it shows how many inputs the phase needs, which are built before it."""


def main() -> None:
    home = Path(sys.argv[1])
    answers = os.dup(1)
    os.dup2(2, 1)
    inbox = SimpleQueue[bytes]()
    Thread(target=_receive, args=(inbox, home), daemon=True).start()
    question = inbox.get()
    answer: RemoteAnswer
    try:
        if question:
            answer = _run_phase(question, home, inbox, answers)
        else:
            answer = _describe_machine()
    except (Refused, Absent, Wrong, MemoryError) as error:
        answer = ClientsFailed(type(error).__name__, exception_text(error))
    except Exception as error:
        traceback.print_exc()
        answer = ClientsFailed("", f"{type(error).__name__}: {exception_text(error)}")
    write_frame(answers, encode(answer))
    os._exit(0)


def _receive(inbox: "SimpleQueue[bytes]", home: Path) -> None:
    """Puts messages into the inbox, and ends this process when there will be no more."""
    # Forked clients end with this process.
    with suppress(EOFError, OSError):
        while True:
            inbox.put(read_frame(0))
    shutil.rmtree(home, ignore_errors=True)
    os._exit(1)


def _describe_machine() -> MachineDescribed:
    loop = pick()
    loop.calibrate()
    python = ".".join(map(str, sys.version_info[:3]))
    return MachineDescribed(dyno.__version__, python, _cores(), describe_loop(loop))


def _cores() -> float:
    """Returns the number of cores that this process can use."""
    return min(float(len(os.sched_getaffinity(0))), quota_cores(ROOT) or math.inf)


def _run_phase(question: bytes, home: Path, inbox: "SimpleQueue[bytes]", answers: int) -> ClientsDone:
    version = decode(question, RemoteVersion).dyno
    if version != dyno.__version__:
        raise Refused(f"it has Dyno {dyno.__version__}, and this machine {version}: install the same version")
    job = decode(question, RemotePhase)
    suite = registry.suite(job.trial.suite, job.trial.definition)
    base = resolve_job(job.trial, suite)
    base = replace(base, home=home, sealed=home / "sealed")
    server: JoinableServer | ReachedServer
    if job.server is not None:
        server = ReachedServer(home, job.server)
    else:
        server = cast(JoinableServer, base.spec.create_server(home, base.tier, base.options, base.clients))
    # The store is another process's: nothing is created, removed or swept here.
    server.joined = True
    for place, name in job.stores.items():
        (home / place).mkdir(parents=True, exist_ok=True)
        (home / place / namespace.FILE).write_text(name)
    workload = suite.workload(replace(base, server=server))
    assert isinstance(workload, RemoteWorkload)
    workload.join_store(pickle.loads(job.state))
    (phase,) = (each for each in suite.phases if each.name == job.phase)
    pace = job.pace
    share = job.share
    if pace.rate is None and phase.temperature != "cold":
        pace = replace(pace, warmup_ns=max(pace.warmup_ns, CALIBRATING_NS))
    trip_ns = _round_trip(job.endpoint)
    parent = os.getppid()

    def ready() -> None:
        write_frame(answers, encode(ClientsReady(trip_ns, _cores())))
        try:
            start = int.from_bytes(inbox.get(timeout=START_SECONDS), "big", signed=True)
        except Empty:
            raise RuntimeError(f"no start came in {START_SECONDS} s") from None
        while (left := start - monotonic_ns()) > SPIN_NS:
            sleep((left - SPIN_NS) / 1e9)

    die_with_parent(parent)
    publish = CounterReader(replace(base, server=server)).publisher(workload, phase)
    tally = run_phase(workload, phase, share.own, base.spec.clients, pace, ready, publish=publish, share=share)
    state = workload.describe_store()
    workload.release()
    return ClientsDone(pickle.dumps(tally), pickle.dumps(state))


def _round_trip(endpoint: tuple[str, int] | None) -> int | None:
    """Returns the shortest time in ns of a TCP connection to the server; None if it is unknown."""
    if endpoint is None:
        return None
    times = list[int]()
    for _ in range(CONNECTIONS):
        before = monotonic_ns()
        with suppress(OSError), create_connection(endpoint, CONNECT_SECONDS):
            times.append(monotonic_ns() - before)
    return min(times, default=None)


if __name__ == "__main__":
    main()
