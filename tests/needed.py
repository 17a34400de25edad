"""What the tests need of the machine: without it they are skipped, and fail under CI=true, where it must be there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dyno import registry
from dyno.contracts.engine import EngineSpec


def unavailable(why: str) -> None:
    """Skips the test; under CI=true, where everything must be installed, fails it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{why}, and CI must test it")
    pytest.skip(why)


def require(spec: EngineSpec) -> None:
    """Where the engine can't run here. One that is untested is skipped everywhere: nobody has it."""
    if spec.untested:
        pytest.skip(f"engine {spec.name}: {spec.untested}")
    if lacking := spec.lacking():
        unavailable(f"engine {spec.name} {lacking}")


def used(suite: str, words: Sequence[object], params: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the parameters that the phases in `words` (after '--phases'; all if it is missing) use, and those at
    their default: a run refuses the others."""
    declared = registry.suite(suite)
    named = str(words[words.index("--phases") + 1]) if "--phases" in words else "all"
    phases = {phase.name for phase in declared.phases} if named == "all" else set(named.split(","))
    unused = {each.name: each.default for each in declared.params if each.phases and not phases & {*each.phases}}
    return {name: value for name, value in params.items() if name not in unused or value == unused[name]}
