"""The process that crashes: it commits transaction after transaction to one store, and says of each that it was
acknowledged.

Started as `python -m dyno.crash.committer JOB ANSWERS`. JOB is a file of JSON: a target, the store's home, the first
transaction and how many there are. To the file ANSWERS it writes lines `opened VERSION` and `settings JSON`, then
`begun N NS` and `done N NS` for each transaction (nanoseconds of CLOCK_MONOTONIC), `seldom N` when it has done what
the engine does seldom; at the end `ended`. What keeps it from that is a line `failed WHY`. Before and after each
commit there is a mark in its system calls, for who records them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts import declarations
from dyno.contracts.model import Tier
from dyno.crash.record import BEGIN, END, mark
from dyno.crash.store import Target
from dyno.host.process import die_with_parent


def commit(job: Mapping[str, Any], tell: Callable[[str], object]) -> None:
    """Does a job: `target`, `home`, `start` and `commits`, None for as many as it lives for; `often`: how
    many times as often it does what it does seldom; `stop`: whether a server is
    stopped at the end as its administrator would."""
    target, home = Target(**job["target"]), Path(job["home"])
    history, seldom = target.history(home), target.spec.seldom
    start, commits = job["start"], job["commits"]
    # Worked out before: between two commits there should be nothing but the engine's own work.
    history.state(start + (commits or 0))
    with target.open(home, job["stop"]) as (engine, _), history.open(engine) as port:
        tell(f"opened {declarations.checked_text(engine.version(), 'version')}")
        told = declarations.checked_values(engine.settings(), "settings")
        giving = target.spec.tiers[Tier(target.tier)]
        tell(f"settings {json.dumps({name: value for name, value in told.items() if name in giving})}")
        number = start
        while commits is None or number < start + commits:
            tell(f"begun {number} {time.monotonic_ns()}")
            # Counted from 1: what the recorder knows of is the number of commits.
            mark(number + 1, BEGIN)
            history.commit(port, number)
            mark(number + 1, END)
            tell(f"done {number} {time.monotonic_ns()}")
            number += 1
            if seldom is not None and seldom.do is not None and number % max(1, seldom.every // job["often"]) == 0:
                seldom.do(engine)
                tell(f"seldom {number}")
        tell("ended")


def main() -> None:
    die_with_parent(os.getppid())
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    # What an engine says, beside what is told here: on nobody's screen.
    said = os.open(path.with_name("committer.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    tell = teller(os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND))
    try:
        commit(job, tell)
    except Exception as error:
        tell(failed(error))
        sys.exit(1)


def teller(descriptor: int) -> Callable[[str], object]:
    """What writes a line at once, and whole."""
    return lambda line: os.write(descriptor, line.encode(errors="replace")[:4_000] + b"\n")


def failed(error: BaseException) -> str:
    return f"failed {type(error).__name__}: {' '.join(declarations.exception_text(error).split())}"


if __name__ == "__main__":
    main()
