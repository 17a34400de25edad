"""Keeps what is computed of a run for as long as the run itself, and no longer: a report asks for rows, tables and
answers many times over, and a site has hundreds of runs, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from dyno.results import Run

P = ParamSpec("P")
T = TypeVar("T")


def cached(make: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """Calls it once for each run and further arguments. What it returns may hold no reference to the run, and nobody
    may change it."""
    known: WeakKeyDictionary[Run, dict[object, T]] = WeakKeyDictionary()

    @wraps(make)
    def once(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> T:
        mine = known.setdefault(run, {})
        key = args, *sorted(kwargs.items())
        if key not in mine:
            mine[key] = make(run, *args, **kwargs)
        return mine[key]

    return once
