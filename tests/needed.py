"""What the tests need of the machine: without it they are skipped, and fail under CI=true, where it must be there."""

from __future__ import annotations

import os

import pytest

from dyno.engine import EngineSpec


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
