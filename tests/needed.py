"""Requirements of tests on the machine. If one is missing the test is skipped, or fails under CI=true."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import dyno
from dyno import registry
from dyno.contracts.engine import EngineSpec


def unavailable(why: str) -> None:
    """Skips the test; under CI=true, where everything must be installed, fails it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{why}, and CI must test it")
    pytest.skip(why)


def require(spec: EngineSpec) -> None:
    """Skips the test (or fails it in CI) if the engine can't run here. An untested engine is skipped everywhere."""
    if spec.listing.untested:
        pytest.skip(f"engine {spec.name}: {spec.listing.untested}")
    if lacking := spec.explain_unavailability():
        unavailable(f"engine {spec.name} {lacking}")


def available(port: str, engines: Iterable[str]) -> list[str]:
    """The engines, each with at most one option, that can run here with this port."""
    return [engine for engine in engines if is_available(port, engine)]


def is_available(port: str, engine: str) -> bool:
    name, _, option = engine.partition(":")
    spec = registry.engine(name).reduce_to_port(port)
    given = dict([option.split("=")] if option else [])
    return not spec.listing.untested and spec.explain_unavailability(spec.resolve(given)) is None


def used(suite: str, words: Sequence[object], params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a run accepts: those at their default, and those used by the phases after '--phases' in
    `words` (by default all phases).
    """
    declared = registry.suite(suite)
    named = str(words[words.index("--phases") + 1]) if "--phases" in words else "all"
    phases = {phase.name for phase in declared.phases} if named == "all" else set(named.split(","))
    unused = {each.name: each.default for each in declared.params if each.phases and not phases & {*each.phases}}
    return {name: value for name, value in params.items() if name not in unused or value == unused[name]}


def with_this_dyno() -> dict[str, str]:
    """Returns the environment for a test's script in an engine's Python, whose Dyno may be another checkout's."""
    return {**os.environ, "PYTHONPATH": str(Path(dyno.__file__).parents[1])}
