"""Runs a port's conformance checks before it is measured. The checks themselves stand with their ports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from dyno.contracts.model import Wrong


def brief(checks: Mapping[str, Callable[..., None]], *arguments: Any, gaps: Collection[str] = ()) -> None:
    """Each check but those that the engine is known not to pass. Raises Wrong, with the check's name."""
    for name, check in checks.items():
        if name not in gaps:
            try:
                check(*arguments)
            except Wrong as wrong:
                raise Wrong(f"conformance, {name}: {wrong}") from None
