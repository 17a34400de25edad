"""`dyno.run`: measures like the command, without its display."""

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
from dyno.runner.parent import ProgressListener, StopRule
from dyno.stats.summary import unsure_floors, widest

P = ParamSpec("P")


@dataclass(frozen=True)
class Arguments(RunRequest):
    """The arguments of `dyno.run`: the run options, and arguments that only this function has."""

    _: KW_ONLY
    path: str | Path | None = None
    overwrite: bool = False
    resume: bool = False
    blocks: int | None = None
    work_dir: str | Path | None = None
    observer: ProgressListener | None = None


def _taking(kind: Callable[P, Arguments]) -> Callable[[Callable[[Arguments], Result]], Callable[P, Result]]:
    """Decorator that makes the function take the parameters of `Arguments` rather than an instance."""

    def decorate(function: Callable[[Arguments], Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            return function(kind(*args, **kwargs))

        call.__signature__ = signature(kind).replace(return_annotation=Result)  # type: ignore[attr-defined]
        return call

    return decorate


@_taking(Arguments)
def run(arguments: Arguments) -> Result:
    """Measures engines with a suite, each trial in a fresh process.

    The arguments are the flags of `dyno run`, with the same defaults. Times are in seconds, sizes in bytes, and
    `until` is a share (0.05) or a text ('5%'). An engine is a text as on the command line
    ('sqlite:journal_mode=wal'), or a mapping of `name` and options. `path` is the run file; if it is None, the file
    is SUITE-DATE-TIME.json in the current directory. `work_dir` is the directory for the engines' data. Raises
    UsageError before any trial, and OSError if the results can't be saved.
    """
    path = None if arguments.path is None else Path(arguments.path)
    chosen = plan.resumed(arguments, path) if arguments.resume and path is not None else plan.make(arguments)
    file = path or Path(f"{chosen.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    root = Path(arguments.work_dir) if arguments.work_dir is not None else work_directory.default_root()
    observer, most = arguments.observer, arguments.blocks
    stop_rule = StopRule(widest, unsure_floors)
    return Result(
        parent.execute(chosen, file, root, observer, arguments.resume, arguments.overwrite, stop_rule, most)
    )
