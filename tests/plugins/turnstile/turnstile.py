"""A suite and test engines with a known maximum throughput: operations pass one at a time, and both an operation and
the check of its answer take a known time. They store nothing.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Phase, Preset, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Job, Operations, Workload

LOCK = threading.Lock()
SLICE = 20


class Turnstile:
    """An engine that only has a file to lock."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self.path, self.hold = home / "lock", int(options["hold_us"]) / 1e6
        self.path.touch()

    def close(self) -> None:
        pass

    def version(self) -> str:
        return "one at a time"

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Threads:
    """The port for threads: an operation holds a lock of this process."""

    def __init__(self, engine: Turnstile) -> None:
        self._hold = engine.hold

    def pass_(self, number: int) -> int:
        with LOCK:
            time.sleep(self._hold)
        return number


class Processes:
    """The port for processes: an operation holds a lock on a file."""

    def __init__(self, engine: Turnstile) -> None:
        self._hold, self._file = engine.hold, engine.path.open("w")

    def pass_(self, number: int) -> int:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        time.sleep(self._hold)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return number


class Nothing:
    """The port's null engine."""

    def __init__(self, engine: Turnstile) -> None:
        pass

    def pass_(self, number: int) -> int:
        return number


class TurnstileWorkload(Workload):
    def __init__(self, job: Job) -> None:
        self._job, self._engine = job, job.open(job.home)

    def conformance(self) -> None:
        pass

    def prepare(self, phase: Phase) -> None:
        pass

    def connect(self) -> AbstractContextManager[Any]:
        return nullcontext(self._job.port(self._engine))

    def engine(self) -> Turnstile:
        return self._engine

    def release(self) -> None:
        pass

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations]:
        own = range(client, int(self._job.params["operations"]), clients)
        for start in range(0, len(own), SLICE):
            yield Operations(lambda _: (port.pass_,), own[start : start + SLICE], self._check)

    def _check(self, answers: Sequence[int]) -> int:
        time.sleep(len(answers) * int(self._job.params["check_us"]) / 1e6)
        return len(answers)

    def close(self) -> None:
        self._engine.close()


class TurnstileSuite:
    name = "turnstile"
    title = "operations that pass one at a time"
    ports = ("turnstile",)
    engines = ()
    params = (
        Setting("operations", integer(1), 120, "operations, all clients together"),
        Setting("check_us", integer(0), 5_000, "microseconds in which an answer is judged"),
    )
    presets = {"quick": Preset({}, samples=3, budget=20, timeout=120)}  # noqa: RUF012
    phases = (Phase("pass", "pass the turnstile", "op", writes=False, checked="nothing"),)
    layout = None
    charts = ()
    proof = None

    def workload(self, job: Job) -> Workload:
        return TurnstileWorkload(job)


def declare(name: str, port: Any, clients: str, hold_us: int = 5_000, floor: bool = False) -> EngineSpec:
    return EngineSpec(
        name=name,
        title="Test engine: one operation at a time",
        opener=Turnstile,
        ports={"turnstile": PortSpec(port)},
        tiers={},
        options=(Setting("hold_us", integer(0), hold_us, "microseconds that an operation takes"),),
        clients=clients,
        floor=floor,
    )


SUITE = TurnstileSuite()
THREADS = declare("turnstile-threads", Threads, "threads")
PROCESSES = declare("turnstile-processes", Processes, "processes")
FLOOR = declare("turnstile-null", Nothing, "processes", floor=True)
