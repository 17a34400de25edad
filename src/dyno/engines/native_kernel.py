"""Dyno's own kernels for processor and memory, in its native extension: see rust/measure/src/kernels.rs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import dyno
from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Absent, Fact, Value
from dyno.contracts.suite import Report
from dyno.engines.compute.unopened import Unopened
from dyno.suites.memory.port import CHASE, LINE_BYTES, TRIAD, TRIAD_BYTES

TOOL = "Dyno's own kernel"


class Kernel(Unopened):
    """The extension is a part of Dyno."""

    def version(self) -> str:
        return f"{TOOL} {dyno.__version__}"


class Primes:
    """The port `primes`: the same divisions as sysbench's, which are counted."""

    def __init__(self, engine: Kernel) -> None:
        self._tool = engine.version()

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        from statistics import mean, pstdev

        from dyno import _native

        elapsed_ns, threads_ns, least, most = _native.primes(threads, limit, limit_ns, events)
        every = sorted(ns for thread in threads_ns for ns in thread)
        each = [len(thread) for thread in threads_ns]
        facts: dict[str, Fact] = {
            "latency_min_ns": every[0],
            "latency_avg_ns": round(mean(every)),
            "latency_p95_ns": every[min(round(len(every) * 0.95), len(every) - 1)],
            "latency_max_ns": every[-1],
            "events_per_thread": mean(each),
            "events_deviation": pstdev(each),
            "fewest_primes": least,
            "most_primes": most,
        }
        return Report(
            tool=self._tool,
            operations=len(every),
            items=len(every),
            elapsed_ns=elapsed_ns,
            latencies=[(ns, 1) for ns in every],
            facts=facts,
        )

    def close(self) -> None:
        pass


class Memory:
    """The port `memory-access`: the triad and the chase."""

    def __init__(self, engine: Kernel) -> None:
        self._tool = engine.version()

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        from dyno import _native

        if pattern == TRIAD:
            length = max(size_bytes // TRIAD_BYTES, 1)
            elapsed_ns, passes, wrong = _native.triad(threads, length, limit_ns)
            done = sum(passes)
            moved: int | None = done * length * TRIAD_BYTES
        elif pattern == CHASE:
            elapsed_ns, hops, wrong = _native.chase(threads, max(size_bytes // LINE_BYTES, 1), limit_ns, seed)
            done, moved = sum(hops), None
        else:
            raise Absent(f"has no {pattern}: that is sysbench's")
        facts: dict[str, Fact] = {"wrong": wrong}
        return Report(self._tool, operations=done, items=done, elapsed_ns=elapsed_ns, bytes=moved, facts=facts)

    def close(self) -> None:
        pass


def missing(options: Mapping[str, Value]) -> str | None:
    """Whether the extension was built."""
    if find_spec("dyno._native") is not None:
        return None
    return "needs Dyno's native extension: install a Rust toolchain (cargo), and Dyno again"


ENGINE = EngineSpec(
    name="native_kernel",
    title="Dyno's own kernels for processor and memory",
    opener=Kernel,
    ports={"primes": PortSpec(Primes), "memory-access": PortSpec(Memory)},
    tiers={},
    needs=missing,
    clients="threads",
)
