"""`dyno.run`: what the command does, without its display."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec

from dyno.library.result import Result
from dyno.options import RunRequest
from dyno.runner import parent, plan, work_directory
from dyno.runner.parent import ProgressListener
from dyno.runner.strategy import StopRule
from dyno.stats.summary import unsure_floors, widest

P = ParamSpec("P")


@dataclass(frozen=True)
class Arguments(RunRequest):
    """The arguments of `dyno.run`: the run options, and these of its own."""

    _: KW_ONLY
    path: str | Path | None = None
    overwrite: bool = False
    resume: bool = False
    blocks: int | None = None
    work_dir: str | Path | None = None
    observer: ProgressListener | None = None


def _taking(arguments: Callable[P, Arguments]) -> Callable[[Callable[[Arguments], Result]], Callable[P, Result]]:
    """Gives a function of one `Arguments` the parameters of that class."""

    def decorate(function: Callable[[Arguments], Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            return function(arguments(*args, **kwargs))

        call.__signature__ = signature(arguments).replace(return_annotation=Result)  # type: ignore[attr-defined]
        return call

    return decorate


@_taking(Arguments)
def run(given: Arguments) -> Result:
    """Measures engines doing the work of a suite, each trial in a fresh process.

    Arguments are the flags of `dyno run`, with its defaults: times in seconds, sizes in bytes, `until` a share (0.05)
    or a text ('5%'). `engines` are written as on the command line ('sqlite:journal_mode=wal'), or as a mapping of
    `name` and options. `path`: the run file; None: one in the current directory, named after the suite and the time.
    `work_dir`: where the engines' data live. Raises UsageError before anything is started, and OSError if the results
    can't be stored.
    """
    made = plan.make(given)
    file = Path(given.path) if given.path is not None else Path(f"{made.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    root = Path(given.work_dir) if given.work_dir is not None else work_directory.default_root()
    judge = StopRule(widest, unsure_floors)
    run = parent.execute(made, file, root, given.observer, given.resume, given.overwrite, judge, given.blocks)
    return Result(run)
