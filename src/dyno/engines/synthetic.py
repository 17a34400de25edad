"""An engine whose operations only take time, with a stall on request. `dyno selftest` uses it to plant faults."""

import mmap
import os
import subprocess
import sys
import threading
import time
from binascii import crc_hqx
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from random import Random

from dyno.contracts.engine import Engine, EngineSpec, PortSpec, Server, ServerSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.servers.process import Process

SLEEP_ENDS_LATE = 0.0003
"""Time in s by which a sleep may end late."""
WASTES = ("calls", "cached_kib", "direct_reads", "flushes", "answer_kib", "lock_us", "neighbour")
"""Options for causes of a longer time."""
PAGE, PAGES = 4096, 4096
"""Size of the pages that are read from the device, and how many there are."""
PERIOD_S = 0.01
NEIGHBOUR = """
import sys, time
busy, period = float(sys.argv[1]), float(sys.argv[2])
while True:
    began = time.monotonic()
    while time.monotonic() - began < busy:
        pass
    time.sleep(max(period - busy, 0))
"""
STEPS = 5
"""Number of checksum bytes per unit of work, which takes about 10 ns. Each byte depends on the one before. Another
thread on the core slows such a chain by a few percent, but slows a loop of the interpreter by a fifth."""


class SyntheticEngine(Engine):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Server | None = None) -> None:
        self.home = home
        self.options = options

    def version(self) -> str:
        return "takes time"

    def settings(self) -> Mapping[str, Value | None]:
        return dict(self.options)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("synthetic", "stores nothing: its operations only take time")


class Operations:
    """The port `synthetic`."""

    def __init__(self, engine: SyntheticEngine, work: int) -> None:
        options = engine.options
        self._work = bytes(round(work * STEPS * (100 + int(options["slower"])) / 100))
        self._wait, self._exponential = int(options["wait_us"]) / 1e6, bool(options["exponential"])
        self._stall, self._after = int(options["stall_ms"]) / 1e3, int(options["stall_after"])
        self._waste = Waste(engine.home, options)

    def operation(self) -> Callable[[int], int]:
        """Returns an operation that waits or is busy, and may once also take the time of the stall."""
        pauses = iter([*repeat(0.0, self._after), self._stall])
        # By system entropy, because the times of a trial must not be those of another.
        random = Random()

        def sleep_fixed_time(number: int) -> int:
            time.sleep(self._wait)
            return number

        def exponential(number: int) -> int:
            ends = time.perf_counter() + random.expovariate(1 / self._wait) + next(pauses, 0.0)
            # A sleep ends late, so the last part is busy.
            time.sleep(max(ends - time.perf_counter() - SLEEP_ENDS_LATE, 0.0))
            while time.perf_counter() < ends:
                pass
            return number

        def compute_checksum(number: int) -> int:
            crc_hqx(self._work, 0)
            return number

        def compute_with_stalls(number: int) -> int:
            if pause := next(pauses, 0.0):
                time.sleep(pause)
            return compute_checksum(number)

        if self._wait:
            if self._exponential:
                return exponential
            return sleep_fixed_time
        if self._stall:
            return compute_with_stalls
        wastes = self._waste.actions()
        if not wastes:
            return compute_checksum

        def waste_time(number: int) -> int:
            for waste in wastes:
                waste()
            return compute_checksum(number)

        return waste_time

    def close(self) -> None:
        self._waste.close()


class Waste:
    """Causes of a longer time, which `dyno why` must find: what each operation does besides its work."""

    def __init__(self, home: Path, options: Mapping[str, Value]) -> None:
        self._calls, self._cached, self._flushes = (int(options[name]) for name in ("calls", "cached_kib", "flushes"))
        self._direct, self._answer = int(options["direct_reads"]), int(options["answer_kib"]) << 10
        self._lock_s = int(options["lock_us"]) / 1e6
        self._files = ExitStack()
        self._file = -1
        if self._cached or self._flushes or self._direct:
            path = home / "waste"
            path.write_bytes(bytes(max(self._cached << 10, self._direct and PAGE * PAGES, PAGE)))
            flags = os.O_RDWR | (os.O_DIRECT if self._direct else 0)
            self._file = os.open(path, flags)
            self._files.callback(os.close, self._file)
        if self._direct:
            # A direct read needs memory that begins at a page.
            self._page = self._files.enter_context(mmap.mmap(-1, PAGE))
            self._random = Random(1)
        self._lock = threading.Lock()
        if neighbour := int(options["neighbour"]):
            self._share_core(neighbour / 100)

    def actions(self) -> Sequence[Callable[[], object]]:
        """Returns what an operation does, one after the other."""
        chosen = list[Callable[[], object]]()
        if self._calls:
            chosen.append(self._make_calls)
        if self._cached:
            chosen.append(self._read_cached)
        if self._flushes:
            chosen.append(self._flush)
        if self._direct:
            chosen.append(self._read_device)
        if self._answer:
            chosen.append(self._build_answer)
        if self._lock_s:
            chosen.append(self._wait_for_lock)
        return chosen

    def _share_core(self, share: float) -> None:
        """Stays on one core, on which another process computes for a share of the time."""
        core = min(os.sched_getaffinity(0))
        self._files.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
        busy = str(share * PERIOD_S)
        # It inherits the core.
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", NEIGHBOUR, busy, str(PERIOD_S)])
        self._files.callback(process.wait)
        self._files.callback(process.kill)

    def _make_calls(self) -> None:
        for _ in range(self._calls):
            os.getppid()

    def _read_cached(self) -> None:
        os.pread(self._file, self._cached << 10, 0)

    def _read_device(self) -> None:
        for _ in range(self._direct):
            os.preadv(self._file, [self._page], self._random.randrange(PAGES) * PAGE)

    def _build_answer(self) -> None:
        self._built = bytes(self._answer)

    def _flush(self) -> None:
        for _ in range(self._flushes):
            os.pwrite(self._file, bytes(4096), 0)
            os.fdatasync(self._file)

    def _wait_for_lock(self) -> None:
        """Waits for a lock that nobody releases, until its time is over."""
        if not self._lock.locked():
            self._lock.acquire()
        self._lock.acquire(timeout=self._lock_s)

    def close(self) -> None:
        self._files.close()


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if options["exponential"] and not options["wait_us"]:
        return "exponential is of the time that operations wait: set wait_us, the mean"
    if any(options[name] for name in WASTES) and (options["wait_us"] or options["stall_ms"]):
        return f"{', '.join(WASTES)} are for operations that work, without wait_us and stall_ms"
    if options["wait_us"] and options["stall_ms"] and not options["exponential"]:
        return "wait_us and stall_ms exclude each other: an operation that waits has no stall"
    return None


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server | None:
    """Returns an idle process in the role of a server, if the option `server` is set."""
    if not options["server"]:
        return None
    return Process(["sleep", "600"], home, ready=lambda: True)


ENGINE = EngineSpec(
    name="synthetic",
    title="Takes time and stores nothing: what `dyno selftest` plants its faults in",
    opener=SyntheticEngine,
    ports={"synthetic": PortSpec(Operations)},
    tiers={},
    refuse=refuse,
    options=(
        Setting("slower", integer(0, 10_000), 0, "additional work, in percent"),
        Setting("wait_us", integer(0), 0, "microseconds to sleep instead of working"),
        Setting("exponential", boolean, False, "sleep for an exponential time with the mean wait_us, as in M/M/1"),
        Setting("stall_ms", integer(0), 0, "milliseconds of a stall in one operation of each round"),
        Setting("stall_after", integer(0), 0, "operations before the stall"),
        Setting("calls", integer(0), 0, "system calls of an operation, besides its work"),
        Setting("cached_kib", integer(0), 0, "KiB that an operation reads from the page cache"),
        Setting("flushes", integer(0), 0, "pages that an operation writes and flushes to the device"),
        Setting("direct_reads", integer(0), 0, "pages that an operation reads from the device"),
        Setting("answer_kib", integer(0), 0, "KiB of memory that an operation fills"),
        Setting("neighbour", integer(0, 100), 0, "percentage of the time in which another process has the core"),
        Setting("lock_us", integer(0), 0, "microseconds that an operation waits for a lock"),
        Setting("server", boolean, False, "start an idle process in the role of a server"),
    ),
    server=ServerSpec(serve),
    clients="processes",
)
