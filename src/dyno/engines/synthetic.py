"""An engine whose operations only take time, with a stall on request. `dyno selftest` uses it to plant faults."""

import time
from binascii import crc_hqx
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from pathlib import Path
from random import Random

from dyno.contracts.engine import Engine, EngineSpec, PortSpec, Server, ServerSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.servers.process import Process

SLEEP_ENDS_LATE = 0.0003
"""Time in s by which a sleep may end late."""
STEPS = 5
"""Number of checksum bytes per unit of work, which takes about 10 ns. Each byte depends on the one before. Another
thread on the core slows such a chain by a few percent, but slows a loop of the interpreter by a fifth."""


class SyntheticEngine(Engine):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Server | None = None) -> None:
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
        return compute_checksum

    def close(self) -> None:
        return None


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if options["exponential"] and not options["wait_us"]:
        return "exponential is of the time that operations wait: set wait_us, the mean"
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
        Setting("server", boolean, False, "start an idle process in the role of a server"),
    ),
    server=ServerSpec(serve),
    clients="processes",
)
