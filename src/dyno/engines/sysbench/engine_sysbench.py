"""sysbench: an external tool that measures processor and memory and reports its own figures."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Absent, Tier, Value
from dyno.contracts.suite import Report
from dyno.engines.sysbench import program
from dyno.suites.memory import BLOCKS

ENDLESS = "1000T"
"""More bytes than any test transfers before its time is up."""


class Sysbench(Engine):
    """sysbench as an engine, which is also its ports. Every phase runs the program."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._version = program.version()

    def version(self) -> str:
        return self._version

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        """The port `primes`: sysbench's test `cpu`."""
        words = [*program.words(threads, limit_ns, events * threads), "cpu", f"--cpu-max-prime={limit}", "run"]
        return program.report(self._version, program.run(words))

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        """The port `memory-access`: sysbench's test `memory`, with a block for each thread."""
        if pattern not in BLOCKS:
            raise Absent(f"has no {pattern}: that is Dyno's own kernel's")
        mode, _, operation = pattern.partition("-")
        words = [*program.words(threads, limit_ns, histogram=False), f"--rand-seed={seed}", "memory"]
        words += [f"--memory-block-size={size_bytes}", "--memory-scope=local", f"--memory-total-size={ENDLESS}"]
        words += [f"--memory-access-mode={'rnd' if mode == 'random' else 'seq'}", f"--memory-oper={operation}", "run"]
        report = program.report(self._version, program.run(words))
        return replace(report, bytes=report.items * size_bytes)


ENGINE = EngineSpec(
    name="sysbench",
    title="sysbench, an outside tool for processor and memory",
    opener=Sysbench,
    ports={name: PortSpec(lambda engine: engine) for name in ("primes", "memory-access")},
    tiers={},
    packages=("sysbench",),
    needs=lambda options: program.missing(),
    clients="threads",
)
