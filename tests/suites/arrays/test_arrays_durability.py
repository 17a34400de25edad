"""Tests the tiers of the engines of the port `arrays`: a process killed by SIGKILL loses no acknowledged rows, and at
tier `power` each kind of commit flushes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arrayswriter
import pytest
from held import is_own
from needed import require, unavailable, with_this_dyno
from shell import DISK

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier
from dyno.selftest.flushes import COMMITS, DECLARED, PROVEN, claims, proofs
from dyno.servers import leftover_processes
from dyno.suites.arrays.port import PORT

pytestmark = pytest.mark.usefixtures("processes")

KILLED_AFTER = (1, 17)
"""Number of acknowledgements after which each of two processes is killed. Each process continues on the store of
the previous one.
"""
ALONE = [
    spec.reduce_to_port(PORT)
    for spec in registry.engines()
    if set(spec.ports) - {"ndarrays"} == {PORT} and not spec.floor and is_own(spec)
]
"""Engines whose durability no other suite tests."""


@dataclass(frozen=True)
class Case:
    spec: EngineSpec
    tier: Tier
    given: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, [self.spec.name, self.tier.value, self.given]))

    @property
    def options(self) -> dict[str, str]:
        return dict(pair.split("=") for pair in self.given.split("+") if pair)


def cases() -> Iterator[Case]:
    for spec in ALONE:
        yield from (Case(spec, tier) for tier in spec.tiers if tier is not Tier.VOLATILE)
    wendelin = registry.engine("wendelin").reduce_to_port(PORT)
    yield Case(wendelin, Tier.POWER, "storage=zeo+blocks=ZBlk1")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory on a disk, accessible to a server that runs as another user."""
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o711)
        yield Path(place)


class Writer:
    """The job for the writing and the checking process, and the number of acknowledged transactions."""

    def __init__(self, case: Case, home: Path) -> None:
        self.home, self.done = home, 0
        self.python = str(case.spec.interpreter() or sys.executable)
        self._job = {
            "engine": case.spec.name,
            "tier": case.tier.value,
            "options": case.options,
            "home": str(home),
            "updates": not any(gap.check == "updates" for gap in case.spec.gaps),
        }

    def job(self, **more: Any) -> str:
        return json.dumps({**self._job, **more}) + "\n"

    def write_and_kill(self, acks: int) -> None:
        """Kills a writing process when it has acknowledged that many transactions."""
        words = [self.python, arrayswriter.__file__, "write"]
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=with_this_dyno(), text=True
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(self.job(start=self.done))
        process.stdin.close()
        wanted = self.done + acks
        try:
            for line in process.stdout:
                # Engines may print other lines, too.
                if not line.strip().isdigit():
                    continue
                assert int(line) == self.done
                self.done += 1
                if self.done == wanted:
                    # Kills the server's processes, if the engine has a server.
                    leftover_processes.clear(self.home)
                    process.kill()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            leftover_processes.clear(self.home)
        assert self.done >= wanted, f"it ended by itself with status {process.returncode}"

    def check(self) -> list[str]:
        """Opens the store again and returns its errors."""
        words = [self.python, arrayswriter.__file__, "check"]
        ended = subprocess.run(
            words, input=self.job(done=self.done), env=with_this_dyno(), capture_output=True, text=True, timeout=200
        )
        assert ended.returncode == 0, ended.stderr
        result = json.loads(ended.stdout.splitlines()[-1])
        self.done = result["done"]
        wrong: list[str] = result["wrong"]
        return wrong


@pytest.mark.parametrize("case", [*cases()], ids=str)
def test_a_killed_process_loses_no_acknowledged_rows(case: Case, disk: Path) -> None:
    require(case.spec)
    writer = Writer(case, disk)
    for acks in KILLED_AFTER:
        writer.write_and_kill(acks)
        assert writer.check() == []


def test_a_store_that_lost_acknowledged_rows_is_caught(disk: Path) -> None:
    memmap = registry.engine("numpy_memmap").reduce_to_port(PORT)
    require(memmap)
    writer = Writer(Case(memmap, Tier.PROCESS), disk)
    writer.write_and_kill(12)
    (disk / "store" / "quantity.dat").write_bytes(bytes((disk / "store" / "quantity.dat").stat().st_size))
    assert writer.check() == ["quantity"]
    (disk / "store" / "rows").write_text("40")
    assert writer.check() != ["quantity"]


# -- flushes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "tier", "verdict", "commits"),
    [
        ("numpy_memmap", Tier.POWER, PROVEN, 2 * COMMITS),
        # Stores into a mapping are no system calls, so the tests above cover them.
        ("numpy_memmap", Tier.PROCESS, DECLARED, 2 * COMMITS),
        ("parquet", Tier.POWER, PROVEN, COMMITS),
        ("parquet", Tier.PROCESS, PROVEN, COMMITS),
        ("wendelin", Tier.POWER, PROVEN, 2 * COMMITS),
        ("wendelin:storage=zeo", Tier.POWER, PROVEN, 2 * COMMITS),
    ],
)
def test_appends_and_updates_flush_as_the_tier_promises(
    engine: str, tier: Tier, verdict: str, commits: int, disk: Path
) -> None:
    require(registry.engine(engine.partition(":")[0]))
    (found,) = proofs(claims([engine], tier.value), disk)
    if found.seen is None:
        unavailable(f"engine {engine}: {found.why}")
    assert found.seen is not None
    assert found.verdict == verdict, found.why
    # Appends, and updates if the engine has them.
    assert len(found.seen.commits) == commits
    assert found.seen.flushed == (commits if tier is Tier.POWER else 0)
