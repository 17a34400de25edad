"""Kills one store again and again: SIGKILL hits the committing process (or its server) at a random moment, the store
is judged, and the next process continues with what is left.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dyno.crash.processes import COMMIT, CrashProcess, StoreChecker, numbers, write_job
from dyno.crash.store import LOST, OK, CrashTarget, Judgement

MOST_COMMITS = 12
"""Acknowledged commits before a process is killed, at most."""
OFTEN = 3
"""Maintenance is this many times as frequent as in a recording: there are fewer commits."""
START_SECONDS = 300.0
FIRST_OPENING_SECONDS = 0.1
"""Assumed time for opening a store until one has been measured."""


@dataclass(frozen=True)
class Kill:
    """A kill, and the store that it left."""

    judgement: Judgement
    acknowledged: int
    begun: int
    seldom: int
    """How often the process had done the engine's maintenance."""
    words: str
    lines: Sequence[str]
    """Output of the process."""


class WorkloadFailed(Exception):
    """The workload could not run at all; says why."""


@dataclass
class MeasuredTimes:
    """Measured times in seconds, so that kills hit moments at which something happens."""

    opening: float = FIRST_OPENING_SECONDS
    commit: float = FIRST_OPENING_SECONDS / 20


def kills(target: CrashTarget, home: Path, count: int, seed: int, keep: Callable[[Kill], object]) -> Iterator[Kill]:
    """Kills so many times. Calls `keep` for each broken store, before it is used again. Raises WorkloadFailed."""
    rng = random.Random(f"kills {seed}")
    pace, start = MeasuredTimes(), 0
    home.mkdir(parents=True, exist_ok=True)
    with closing(StoreChecker(target, home)) as checker:
        for _ in range(count):
            lines = _killed(target, home, start, rng, pace)
            acknowledged = start + len(numbers(lines, "done"))
            begun = max([acknowledged, *(number + 1 for number in numbers(lines, "begun"))])
            judgement = checker.look(acknowledged, begun)
            words = f"killed after {acknowledged - start} of its commits"
            words += ", within one" if begun > acknowledged else ""
            kill = Kill(judgement, acknowledged, begun, len(numbers(lines, "seldom")), words, lines)
            if not judgement.sound:
                keep(kill)
            if judgement.outcome in (OK, LOST) and judgement.held is not None:
                start = judgement.held + 1
            else:
                # A damaged store proves nothing about the next kill: start a new one.
                checker.close()
                shutil.rmtree(home)
                home.mkdir()
                start = 0
            yield kill


def _killed(target: CrashTarget, home: Path, start: int, rng: random.Random, pace: MeasuredTimes) -> list[str]:
    """Runs and kills a process, while it opens the store or some time after one of its commits. Returns its lines."""
    wanted, share = rng.randrange(MOST_COMMITS), rng.random()
    lines: list[str] = []
    begun = opened = time.monotonic()
    child = CrashProcess(target, COMMIT, home, write_job(target, home, start, None, often=OFTEN))
    try:
        if not wanted:
            time.sleep(share * pace.opening * 1.5)
        while len(numbers(lines, "done")) < wanted:
            line = child.line(START_SECONDS)
            if line is None or line.startswith("failed "):
                raise WorkloadFailed(line.removeprefix("failed ") if line else child.ended())
            lines.append(line)
            if line.startswith("opened"):
                opened = time.monotonic()
                pace.opening = opened - begun
        if wanted:
            pace.commit = (time.monotonic() - opened) / wanted
            time.sleep(share * pace.commit * 2)
        child.kill()
        lines += child.rest()
    except TimeoutError:
        raise WorkloadFailed(f"it did nothing for {START_SECONDS:g} s") from None
    finally:
        child.close()
    return lines
