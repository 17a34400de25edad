"""SIGKILL at random moments, on one store: the process that commits, or its server, is killed, the store is judged,
and the next process goes on with what there is.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dyno.crash.judgement import LOST, OK, Judgement
from dyno.crash.processes import CrashProcess, StoreChecker, job, numbers
from dyno.crash.store import Target

MOST_COMMITS = 12
"""Acknowledged by one process before it is killed."""
OFTEN = 3
"""How many times as often as in a record the engine does what it does seldom: there are fewer commits."""
START_SECONDS = 300.0
FIRST_GUESS = 0.1
"""Seconds that a process takes to open its store, until it is known."""


@dataclass(frozen=True)
class Kill:
    """One of them, and what it left."""

    judgement: Judgement
    acknowledged: int
    begun: int
    seldom: int
    """How often the engine did what it does seldom, in that process."""
    words: str
    told: Sequence[str]
    """Its lines."""


class Failed(Exception):
    """The workload could not be done at all: what it said."""


def kills(target: Target, home: Path, count: int, seed: int, keep: Callable[[Kill], object]) -> Iterator[Kill]:
    """Kills so often, one after the other. `keep` is called with each that broke something, before the store is gone
    on with. Raises Failed."""
    rng = random.Random(f"kills {seed}")
    pace, start = Pace(), 0
    home.mkdir(parents=True, exist_ok=True)
    with closing(StoreChecker(target, home)) as judge:
        for _ in range(count):
            told = _killed(target, home, start, rng, pace)
            acknowledged = start + len(numbers(told, "done"))
            begun = max([acknowledged, *(number + 1 for number in numbers(told, "begun"))])
            judgement = judge.look(acknowledged, begun)
            words = f"killed after {acknowledged - start} of its commits" + (
                ", within one" if begun > acknowledged else ""
            )
            found = Kill(judgement, acknowledged, begun, len(numbers(told, "seldom")), words, told)
            if not judgement.sound:
                keep(found)
            if judgement.outcome in (OK, LOST) and judgement.held is not None:
                start = judgement.held + 1
            else:
                # Nothing can be said of what comes after.
                judge.close()
                shutil.rmtree(home)
                home.mkdir()
                start = 0
            yield found


@dataclass
class Pace:
    """How long things take, as far as was seen: so that a moment is drawn in which something happens."""

    opening: float = FIRST_GUESS
    commit: float = FIRST_GUESS / 20


def _killed(target: Target, home: Path, start: int, rng: random.Random, pace: Pace) -> list[str]:
    """What a process told until it was killed: at a moment of its opening, or some time after one of its commits."""
    wanted, share = rng.randrange(MOST_COMMITS), rng.random()
    told: list[str] = []
    begun = opened = time.monotonic()
    child = CrashProcess(target, "committer", home, job(target, home, start, None, often=OFTEN))
    try:
        if not wanted:
            time.sleep(share * pace.opening * 1.5)
        while len(numbers(told, "done")) < wanted:
            line = child.line(START_SECONDS)
            if line is None or line.startswith("failed "):
                raise Failed(line.removeprefix("failed ") if line else child.ended())
            told.append(line)
            if line.startswith("opened"):
                opened = time.monotonic()
                pace.opening = opened - begun
        if wanted:
            pace.commit = (time.monotonic() - opened) / wanted
            time.sleep(share * pace.commit * 2)
        child.kill()
        told += child.rest()
    except TimeoutError:
        raise Failed(f"it did nothing for {START_SECONDS:g} s") from None
    finally:
        child.close()
    return told
