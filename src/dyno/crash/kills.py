"""Kills of one store, again and again: SIGKILL hits the committing process or its server at a random moment, Dyno
judges the store, and the next process continues with it.
"""

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
"""Maximum number of acknowledged commits before a process is killed."""
OFTEN = 3
"""Factor by which maintenance is more frequent than in a recording, since there are fewer commits."""
START_SECONDS = 300.0
FIRST_OPENING_SECONDS = 0.1
"""Assumed time for opening a store, until a real one has been measured."""


@dataclass(frozen=True)
class Kill:
    """A kill, and the judgement of the store after it."""

    judgement: Judgement
    acknowledged: int
    begun: int
    words: str
    lines: Sequence[str]
    """Output of the committing process."""


class WorkloadFailed(Exception):
    """The workload could not run at all. The message says why."""


@dataclass
class MeasuredTimes:
    """Durations in seconds, by which the moments of kills are chosen."""

    opening: float = FIRST_OPENING_SECONDS
    commit: float = FIRST_OPENING_SECONDS / 20


def kills(target: CrashTarget, home: Path, count: int, seed: int, keep: Callable[[Kill], object]) -> Iterator[Kill]:
    """Kills `count` times. Calls `keep` for each broken store before it is used again. Raises WorkloadFailed."""
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
            kill = Kill(judgement, acknowledged, begun, words, lines)
            if not judgement.sound:
                keep(kill)
            if judgement.outcome in (OK, LOST) and judgement.held is not None:
                start = judgement.held + 1
            else:
                # A damaged store would spoil the next judgement, so start a new store.
                checker.close()
                shutil.rmtree(home)
                home.mkdir()
                start = 0
            yield kill


def _killed(target: CrashTarget, home: Path, start: int, rng: random.Random, pace: MeasuredTimes) -> list[str]:
    """Runs a process and kills it, either while it opens the store or shortly after one of its commits. Returns its
    lines.
    """
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
