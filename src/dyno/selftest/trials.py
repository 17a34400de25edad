"""Runs real trials of the self-test suite: plan, parent, worker, run file, as `dyno run` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno.options import RunRequest
from dyno.results import Run
from dyno.runner import parent, plan

PHASE = "work"


def trials(work: Path, name: str, engines: Sequence[str], **asked: Any) -> Run:
    """A run of these engines, without a floor. Raises RuntimeError if a trial did not end well."""
    made = plan.make(RunRequest("selftest", engines=engines, **asked))
    made = replace(made, cells=tuple(cell for cell in made.cells if not cell.floor))
    run = parent.execute(made, work / f"{name}.json", work, overwrite=True)
    for attempt in run.final():
        if attempt.outcome != "ok":
            raise RuntimeError(f"a trial ended in {attempt.outcome}: {attempt.why}")
    return run
