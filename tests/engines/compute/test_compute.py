"""Runs the checks of the port `compute` on every engine: each passes them with both types, except for its gaps, and
uses the requested number of threads. Spark is half a gigabyte to download and slow to start, so it needs `-m soak`
and `dyno install spark`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from needed import require, with_this_dyno

from dyno import registry
from dyno.suites.compute import FIRST
from dyno.suites.compute.workload import CHECKS, SIZES

pytestmark = pytest.mark.usefixtures("processes")

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
"""Engines with slow operations: tested at two sizes, and only in long runs."""
CASES = [
    pytest.param(name, given, marks=[pytest.mark.soak] if name in SLOW else [], id=f"{name}-{dict(given)}")
    for name, given in GIVEN
]


def run_checks(engine: str, given: Mapping[str, Any], home: Path) -> dict[str, Any]:
    sizes: Sequence[int] = SIZES
    if engine in SLOW:
        sizes = (7, 5_000)
    elif given:
        # With options, only the size that is split among threads: JAX and Numba compile for each size.
        sizes = SIZES[-1:]
    request = {"engine": engine, "options": dict(given), "home": str(home), "sizes": sizes}
    python = registry.engine(engine).interpreter() or sys.executable
    ended = subprocess.run(
        [str(python), str(CHECKER)],
        input=json.dumps(request) + "\n",
        env=with_this_dyno(),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr
    results: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return results


@pytest.mark.parametrize(("engine", "given"), CASES)
def test_an_engine_passes_the_checks(engine: str, given: Mapping[str, Any], tmp_path: Path) -> None:
    spec = registry.engine(engine).reduce_to_port(PORT)
    require(spec)
    results = run_checks(engine, given, tmp_path)
    # The first result is a phase and no check.
    gaps = {gap.check for gap in spec.gaps} - {FIRST}
    assert gaps <= set(CHECKS)
    assert {name: results[name] for name in CHECKS if name not in gaps and results[name] is not None} == {}
    for name in gaps:
        assert results[name] is not None, f"gap {name} of engine {engine} works now: unmark it"
    if "threads" in given:
        assert results["threads"] == given["threads"]
    if "workers" in given:
        assert results["threads"] == given["workers"]


def test_there_are_engines_to_test() -> None:
    assert {"python", "numpy", "pandas", "sqlite", "dask", "spark", "cupy", "dask_cupy", "cudf"} <= set(NAMES)
    assert {"polars", "duckdb", "pyarrow", "numba", "numexpr", "jax", "torch"} <= set(NAMES)
