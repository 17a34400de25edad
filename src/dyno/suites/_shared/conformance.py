"""Runs a port's conformance checks before it is measured. The checks themselves are beside their ports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from dyno.contracts.equality import difference, same
from dyno.contracts.model import Wrong


class PlannedFailure(Exception):
    """Raised by a check inside a transaction that must then leave no trace."""


def expect(got: Any, wanted: Any, what: str) -> None:
    """Raises Wrong unless both are the same."""
    if not same(got, wanted):
        raise Wrong(f"{what}: {difference(got, wanted)}")


def brief(checks: Mapping[str, Callable[..., None]], *arguments: Any, gaps: Collection[str] = ()) -> None:
    """Runs the checks, except those that the engine is known to fail. Raises Wrong with the check's name."""
    for name, check in checks.items():
        if name not in gaps:
            try:
                check(*arguments)
            except Wrong as wrong:
                raise Wrong(f"conformance, {name}: {wrong}") from None
