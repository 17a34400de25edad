"""Dyno's own kernels that measure processor and memory, in its native extension (rust/measure/src/kernels.rs)."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import dyno
from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Absent, Fact, Tier, Value
from dyno.contracts.suite import Report
from dyno.suites.memory import CHASE, LINE_BYTES, TRIAD, TRIAD_BYTES

TOOL = "Dyno's own kernel"


class Kernel(Engine):
    """The kernels as an engine, which is also its ports."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        pass

    def version(self) -> str:
        return f"{TOOL} {dyno.__version__}"

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        """The port `primes`: the same divisions as sysbench's test. It also counts the primes."""
        from statistics import mean, pstdev

        from dyno import _native

        elapsed_ns, threads_ns, fewest, most = _native.primes(threads, limit, limit_ns, events)
        latencies = sorted(ns for thread in threads_ns for ns in thread)
        counts, done = [len(thread) for thread in threads_ns], len(latencies)
        facts: dict[str, Fact] = {
            "latency_min_ns": latencies[0],
            "latency_avg_ns": round(mean(latencies)),
            "latency_p95_ns": latencies[min(round(done * 0.95), done - 1)],
            "latency_max_ns": latencies[-1],
            "events_per_thread": mean(counts),
            "events_deviation": pstdev(counts),
            "fewest_primes": fewest,
            "most_primes": most,
        }
        histogram = [(ns, 1) for ns in latencies]
        return Report(self.version(), done, done, elapsed_ns, latencies=histogram, facts=facts)

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        """The port `memory-access`: the kernels triad and chase."""
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
        return Report(self.version(), done, done, elapsed_ns, bytes=moved, facts={"wrong": wrong})


def needs(options: Mapping[str, Value]) -> str | None:
    if find_spec("dyno._native") is not None:
        return None
    return "needs Dyno's native extension: install a Rust toolchain (cargo) and install Dyno again"


ENGINE = EngineSpec(
    name="native_kernel",
    title="Dyno's own kernels for processor and memory",
    opener=Kernel,
    ports={name: PortSpec(lambda engine: engine) for name in ("primes", "memory-access")},
    tiers={},
    installation=Installation(needs=needs),
    clients="threads",
)
