"""Child processes that may die with an engine: one commits until it is killed, the other judges stores.

`python -m dyno.crash.child commit JOB ANSWERS`: JOB is a JSON file (see `processes.write_job`). Writes to the file
ANSWERS the lines `opened VERSION` and `settings JSON`; for each transaction `begun N NS` and `done N NS` (nanoseconds
of CLOCK_MONOTONIC), `seldom N` after maintenance; at the end `ended`, or `failed WHY`. Marks in the system calls
surround each commit, for recorders.

`python -m dyno.crash.child judge ANSWERS`: reads a target as a line of JSON from standard input, then a line for each
store: its home, and how many transactions were acknowledged and begun. Answers each with a judgement as a line of
JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dyno.contracts import declarations
from dyno.contracts.declarations import exception_text
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import History
from dyno.crash.store import CORRUPT, REFUSED, TORN, CrashTarget, Judgement, judge
from dyno.host.process import die_with_parent
from dyno.selftest.trace import BEGIN, END, mark

MOST_LINE_BYTES = 4_000


def commit(job: Mapping[str, Any], tell: Callable[[str], object]) -> None:
    """Commits the transactions from `start` on: `commits` of them, or without end if that is None.

    `often`: factor by which maintenance is more frequent than declared. `stop`: shut the server down in order.
    """
    target, home = CrashTarget(**job["target"]), Path(job["home"])
    history, maintenance = target.history(home), target.spec.seldom
    start, commits = job["start"], job["commits"]
    # Compute the transactions ahead, so that only the engine works between two commits.
    history.state(start + (commits or 0))
    with target.open(home, job["stop"]) as (engine, _), history.open(engine) as port:
        tell(f"opened {declarations.checked_text(engine.version(), 'version')}")
        settings = declarations.checked_values(engine.settings(), "settings")
        tier_settings = target.spec.tiers[Tier(target.tier)]
        tell(f"settings {json.dumps({name: value for name, value in settings.items() if name in tier_settings})}")
        number = start
        while commits is None or number < start + commits:
            tell(f"begun {number} {time.monotonic_ns()}")
            # Marks count from 1, since the recorder needs the number of commits.
            mark(number + 1, BEGIN)
            history.commit(port, number)
            mark(number + 1, END)
            tell(f"done {number} {time.monotonic_ns()}")
            number += 1
            if maintenance is None or maintenance.do is None:
                continue
            if number % max(1, maintenance.every // job["often"]) == 0:
                maintenance.do(engine)
                tell(f"seldom {number}")
        tell("ended")


def look(target: CrashTarget, history: History, store: Mapping[str, Any]) -> Judgement:
    """Opens a store, judges its contents, commits one more transaction and reads it back."""
    home, outcome = Path(store["home"]), REFUSED
    try:
        with target.open(home) as (engine, server), history.open(engine) as port:
            outcome = CORRUPT
            judgement = judge(history, history.found(port), store["acknowledged"], store["begun"])
            if target.spec.intact is not None and (wrong := target.spec.intact(engine)):
                return Judgement(CORRUPT, f"its own check finds: {wrong}"[:300])
            if judgement.held is None:
                return judgement
            history.commit(port, judgement.held)
            contents = None if server is None else history.found(port)
            outcome = REFUSED
        if contents is None:
            # Damage to the end of a log may show only at the next recovery.
            with target.open(home) as (engine, _), history.open(engine) as port:
                contents = history.found(port)
    except Exception as error:
        if outcome == CORRUPT and isinstance(error, Wrong):
            outcome = TORN
        return Judgement(outcome, _one_line(error)[:300])
    if history.state(judgement.held + 1) == contents:
        return judgement
    return Judgement(TORN, "one more commit was acknowledged after the crash, but the store does not hold it")


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(exception_text(error).split())}"


def main(command: str, *arguments: str) -> None:
    die_with_parent(os.getppid())
    answers = os.open(arguments[-1], os.O_WRONLY | os.O_APPEND)
    if command == "judge":
        target = CrashTarget(**json.loads(sys.stdin.readline()))
        history = target.history()
        for line in sys.stdin:
            judgement = look(target, history, json.loads(line))
            os.write(answers, json.dumps(asdict(judgement)).encode() + b"\n")
        return
    path = Path(arguments[0])
    # The engine's own output must not reach the terminal.
    log = os.open(path.with_name("committer.log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)

    def tell(line: str) -> None:
        os.write(answers, line.encode(errors="replace")[:MOST_LINE_BYTES] + b"\n")

    try:
        commit(json.loads(path.read_text()), tell)
    except Exception as error:
        tell(f"failed {_one_line(error)}")
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
