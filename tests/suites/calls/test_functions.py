"""Runs the checks of the port `call` on the engines of the suite calls, and on broken ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Wrong
from dyno.suites.calls.workload import CHECKS

pytestmark = pytest.mark.usefixtures("processes")

PORT = "call"
SPECS = [spec for spec in registry.engines() if PORT in spec.ports]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_engine_passes_the_check(spec: EngineSpec, check: str, tmp_path: Path) -> None:
    @contextmanager
    def opened(name: str, directory: Path) -> Iterator[Any]:
        with (
            closing(spec.opener(tmp_path, None, spec.resolve({}))) as engine,
            closing(spec.ports[PORT].open(engine, directory)) as port,
        ):
            yield port

    CHECKS[check](opened, None)


@pytest.mark.parametrize("function", [lambda concurrent: 7, lambda concurrent: lambda: None], ids=["no", "another"])
def test_the_check_fails_a_broken_port(function: Callable[[bool], Any]) -> None:
    class Port:
        def function(self, concurrent: bool) -> Any:
            return function(concurrent)

    @contextmanager
    def opened(name: str, directory: Path) -> Iterator[Any]:
        yield Port()

    with pytest.raises(Wrong, match="expected the same function twice"):
        CHECKS["function"](opened, None)
