"""Caches results computed from a run as long as the run exists: a report needs rows, tables and answers many times,
and a site has hundreds of runs, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from dyno.results import Run

P = ParamSpec("P")
T = TypeVar("T")


def cached(make: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """Calls `make` once for each run and further arguments. The result must not refer to the run, nor be changed."""
    known: WeakKeyDictionary[Run, dict[object, T]] = WeakKeyDictionary()

    @wraps(make)
    def once(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        of_run = known.setdefault(run, {})
        key = args, *sorted(kwargs.items())
        if key not in of_run:
            of_run[key] = make(run, *args, **kwargs)
        return of_run[key]

    return once
