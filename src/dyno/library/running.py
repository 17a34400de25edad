"""Measuring from Python: what `dyno run` does, without its display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dyno.library.result import Result
from dyno.runner import parent, plan, work_directory
from dyno.runner.parent import NoProgress, ProgressListener
from dyno.runner.plan import RunRequest
from dyno.runner.strategy import StopRule
from dyno.stats.stop_rule import unsure, wanting

Values = Any | Sequence[Any]
"""One value, or several."""


def run(
    suite: str,
    engines: str | Sequence[str | Mapping[str, Any]] = (),
    *,
    params: Mapping[str, Values] | None = None,
    phases: str | Sequence[str] = (),
    preset: str | None = None,
    samples: int | None = None,
    until: str | float | None = None,
    within: float | None = None,
    tier: str | None = None,
    clients: Values = (),
    rate: Values = (),
    seed: int | None = None,
    budget: float | None = None,
    duration: float | None = None,
    warmup: float | None = None,
    arrivals: str | None = None,
    loop: str | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    confine: int | None = None,
    retries: int | None = None,
    awake: bool | None = None,
    path: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    blocks: int | None = None,
    work_dir: str | Path | None = None,
    observer: ProgressListener | None = None,
) -> Result:
    """Measures engines doing the work of a suite, each trial in a fresh process, and returns what was found.

    Arguments are the flags of `dyno run`, with its defaults: times in seconds, sizes in bytes, `until` a share (0.05)
    or a text ('5%'). `engines` are written as on the command line ('sqlite:journal_mode=wal'), or as a mapping of
    `name` and options. `path`: the run file; None: one in the current directory, named after the suite and the time.
    `work_dir`: where the engines' data live. Raises UsageError before anything is started, and OSError where what was
    measured can't be stored.
    """
    asked = RunRequest(
        suite=suite,
        engines=[engines] if isinstance(engines, str) else list(engines),
        params={name: _several(value) for name, value in (params or {}).items()},
        phases=[phases] if isinstance(phases, str) else list(phases),
        clients=_several(clients),
        rate=_several(rate),
        preset=preset,
        samples=samples,
        until=until,
        within=within,
        tier=tier,
        seed=seed,
        budget=budget,
        duration=duration,
        warmup=warmup,
        arrivals=arrivals,
        loop=loop,
        timeout=timeout,
        memory=memory,
        confine=confine,
        retries=retries,
        awake=awake,
    )
    made = plan.make(asked)
    file = Path(path) if path is not None else Path(f"{made.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    root = Path(work_dir) if work_dir is not None else work_directory.default_root()
    judge = StopRule(wanting, unsure)
    return Result(parent.execute(made, file, root, observer or NoProgress(), resume, overwrite, judge, blocks))


def _several(value: Values) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, range, set, frozenset)) else [value]
