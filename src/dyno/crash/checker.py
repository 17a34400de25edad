"""The process that opens a store after a crash, and says what it finds. It may die of that, or never come back.

Started as `python -m dyno.crash.checker ANSWERS`, with a target as a line of JSON on standard input, and then a line
for each store: its home, how many transactions were acknowledged and how many begun. It answers to the file ANSWERS
with a line of JSON, a judgement.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dyno.contracts.declarations import exception_text
from dyno.contracts.model import Wrong
from dyno.contracts.suite import History
from dyno.crash.judgement import CORRUPT, REFUSED, TORN, Judgement, judge
from dyno.crash.store import Target
from dyno.host.process import die_with_parent


class _Opened(Exception):
    """Something went wrong once the store had been opened."""

    def __init__(self, outcome: str, error: BaseException) -> None:
        super().__init__(outcome)
        self.outcome, self.error = outcome, error


def look(target: Target, history: History, asked: Mapping[str, Any]) -> Judgement:
    """Opens the store, holds what is there against the history, commits the next transaction and reads it back."""
    home = Path(asked["home"])
    try:
        with target.open(home) as (engine, server), history.open(engine) as port:
            try:
                judgement = judge(history, history.found(port), asked["acknowledged"], asked["begun"])
                if target.spec.intact is not None and (wrong := target.spec.intact(engine)):
                    return Judgement(CORRUPT, f"its own check finds: {wrong}"[:300])
                if judgement.held is None or not asked["more"]:
                    return judgement
                history.commit(port, judgement.held)
                if server is not None:
                    return _again(judgement, history, history.found(port))
            except Exception as error:
                raise _Opened(TORN if isinstance(error, Wrong) else CORRUPT, error) from error
        # What a commit was appended to may be there to be seen at the next recovery only.
        with target.open(home) as (engine, _), history.open(engine) as port:
            return _again(judgement, history, history.found(port))
    except _Opened as opened:
        return Judgement(opened.outcome, _told(opened.error))
    except Exception as error:
        return Judgement(REFUSED, _told(error))


def _again(judgement: Judgement, history: History, there: Mapping[str, Any]) -> Judgement:
    """By what is there after one more commit."""
    assert judgement.held is not None
    if history.state(judgement.held + 1) == there:
        return judgement
    return Judgement(TORN, "one more commit was acknowledged after the crash, and is not what is there", None)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(exception_text(error).split())}"[:300]


def main() -> None:
    die_with_parent(os.getppid())
    answers = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    target = Target(**json.loads(sys.stdin.readline()))
    history = target.history()
    for line in sys.stdin:
        judgement = look(target, history, json.loads(line))
        os.write(answers, json.dumps(asdict(judgement)).encode() + b"\n")


if __name__ == "__main__":
    main()
