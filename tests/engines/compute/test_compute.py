"""Guards the engines of the suite compute: each passes the conformance suite of its port, of both types, or says
which operations it does not offer; and computes with as many threads as it was asked to. Spark, which is half a
gigabyte to fetch and as slow to start as Java, is left out unless `-m soak` asks for it: `dyno install spark` gets
it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.suites.compute.conformance import CHECKS, SIZES

CHECKER = Path(__file__).parent / "computechecks.py"
PORT = "compute"
NAMES = [spec.name for spec in registry.engines() if PORT in spec.ports and not spec.floor]
GIVEN: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((name, {}) for name in NAMES),
    *((name, {"threads": 1}) for name in ("dask", "duckdb", "jax", "numexpr", "polars", "spark")),
    ("numba", {"threads": 2}),
    ("dask", {"workers": 2}),
)
SLOW = ("spark",)
"""Each of whose operations takes so long that two sizes are enough; in runs that take long."""
CASES = [
    pytest.param(name, given, marks=[pytest.mark.soak] if name in SLOW else [], id=f"{name}-{dict(given)}")
    for name, given in GIVEN
]


def held(engine: str, given: Mapping[str, Any], home: Path) -> dict[str, Any]:
    sizes = (7, 5_000) if engine in SLOW else SIZES
    asked = {"engine": engine, "options": dict(given), "home": str(home), "sizes": sizes}
    python = registry.engine(engine).interpreter() or sys.executable
    ended = subprocess.run(
        [str(python), str(CHECKER)], input=json.dumps(asked) + "\n", capture_output=True, text=True, timeout=280
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(("engine", "given"), CASES)
def test_an_engine_passes_the_checks(engine: str, given: Mapping[str, Any], tmp_path: Path) -> None:
    spec = registry.engine(engine).through(PORT)
    require(spec)
    told = held(engine, given, tmp_path)
    gaps = {gap.check for gap in spec.gaps}
    assert gaps <= set(CHECKS)
    assert {name: told[name] for name in CHECKS if name not in gaps and told[name] is not None} == {}
    for name in gaps:
        assert told[name] is not None, f"gap {name} of engine {engine} works now: unmark it"
    if "threads" in given:
        assert told["threads"] == given["threads"]
    if "workers" in given:
        assert told["threads"] == given["workers"]


def test_there_are_engines_to_test() -> None:
    assert {"python", "numpy", "pandas", "sqlite", "dask", "spark", "cupy", "dask_cupy", "cudf"} <= set(NAMES)
    assert {"polars", "duckdb", "pyarrow", "numba", "numexpr", "jax", "torch"} <= set(NAMES)
