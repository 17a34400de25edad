"""Results that are computed once for each run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from dyno.results import Run

P = ParamSpec("P")
T = TypeVar("T")


def cache_by_run(compute: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """Caches the result of a function of a run and further arguments for as long as the run exists: a report needs
    rows, tables and answers many times. The result must not refer to the run, and must not be changed."""
    results: WeakKeyDictionary[Run, dict[object, T]] = WeakKeyDictionary()

    @wraps(compute)
    def lookup(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        of_run = results.setdefault(run, {})
        key = args, *sorted(kwargs.items())
        if key not in of_run:
            of_run[key] = compute(run, *args, **kwargs)
        return of_run[key]

    return lookup
