"""Baselines of the pytest plug-in: run files of the suite `calls` with a row for each measurement, and the files that
earlier versions of the plug-in wrote."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from dyno import __version__, results
from dyno.contracts.cell import Cell
from dyno.contracts.model import Phase, UsageError
from dyno.contracts.pace import PATIENCE
from dyno.contracts.presentation import Column, Layout
from dyno.contracts.safe_read import text
from dyno.fields import plain
from dyno.host import commit, facts
from dyno.library.function import PHASE, Measured, cpu_ns, time_ns
from dyno.options import PlanOptions

SUITE, ENGINE, FUNCTION, MACHINE = "calls", "call", "function", "machine"
EARLIER = 1
"""Schema of the files of earlier versions."""
MOST_BYTES = 64 << 20
"""Maximum size of such a file."""


@dataclass
class Measurement:
    """One call of the fixture, as plain data: a worker of pytest-xdist sends it to the controller as JSON."""

    name: str
    line: str
    """Line for this measurement in the summary."""
    started: str
    samples: list[dict[str, Any]]
    """The samples as a run file has them."""
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The test's own figures by name, each with `value` and `unit`."""

    @staticmethod
    def of(name: str, line: str, result: Measured) -> Measurement:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return Measurement(name, line, now, [plain(each) for each in result.samples])


class Test(NamedTuple):
    """What a baseline has of one test."""

    time_ns: Sequence[float]
    cpu_ns: Sequence[float]
    figures: Mapping[str, Any]

    def values(self, metric: str) -> Sequence[float]:
        return self.time_ns if metric == "time" else self.cpu_ns


class Baseline(NamedTuple):
    path: Path
    tests: Mapping[str, Test]
    origin: Mapping[str, str | None]
    """Values like those of `origin`. A value is None if an older file lacks it."""


def origin() -> dict[str, str | None]:
    return {MACHINE: platform.node(), "python": platform.python_version(), "dyno": __version__}


def save(path: Path, measurements: Sequence[Measurement], seconds: float) -> None:
    """Writes a run file with a cell for each measurement and an attempt for each sample. The file is replaced when
    the new one is complete. Raises UsageError and OSError."""
    new = path.with_name(f".{path.name}.part")
    new.unlink(missing_ok=True)
    try:
        results.create(new, _header(measurements, seconds), [_cell(each.name) for each in measurements])
        for block in range(max(len(each.samples) for each in measurements)):
            for number, each in enumerate(measurements):
                if block < len(each.samples):
                    results.append(new, _attempt(number, block, each))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _header(measurements: Sequence[Measurement], seconds: float) -> dict[str, Any]:
    most = max(len(each.samples) for each in measurements)
    options = PlanOptions(samples=most, budget=seconds, duration=seconds, timeout=PATIENCE * seconds)
    plan = {name: value for name, value in asdict(options).items() if name not in ("limit", "confirm", "least")}
    phase = Phase(PHASE, "call the function with each argument in turn", PHASE, False, temperature="hot")
    units = {name: figure["unit"] for each in measurements for name, figure in each.figures.items()}
    columns = tuple(
        Column(f"{name} ({unit})" if unit else name, "fact", name, "text") for name, unit in units.items()
    )
    return {
        "dyno": __version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit.current(),
        "plan": {"suite": SUITE, "phases": [PHASE], **plan},
        "preset": None,
        "phases": [phase.to_json()],
        "layout": asdict(Layout(columns, title="figures of the tests' own", beside=True)) if columns else None,
        "charts": [],
        "native": [],
        "crashed": [],
        "host": facts.facts(Path.cwd()),
    }


def _cell(name: str) -> Cell:
    return Cell(SUITE, ENGINE, {FUNCTION: name}, None, {"clients": 1, "rate": "max"}, name=name)


def _attempt(cell: int, block: int, measurement: Measurement) -> results.Attempt:
    figures = {name: figure["value"] for name, figure in measurement.figures.items()}
    sample = replace(results.sample(measurement.samples[block]), facts=figures)
    return results.Attempt(
        cell=cell,
        block=block,
        attempt=0,
        outcome="ok",
        why=None,
        phase=None,
        samples=(sample,),
        started=measurement.started,
        duration_ns=sample.wall_ns or sample.elapsed_ns,
        version=f"Python {platform.python_version()}",
        settings={},
        caveats=(),
        resources={},
        output=None,
        facts={MACHINE: platform.node()},
    )


def read(path: Path) -> Baseline:
    """Reads a run file, or a file of an earlier version. Raises UsageError, and ValueError for another file."""
    try:
        ours = results.is_run_file(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return _run(path) if ours else _earlier(path)


def _run(path: Path) -> Baseline:
    run = results.load(path)
    if run.plan["suite"] != SUITE:
        raise ValueError(f"it is a run of the suite {run.plan['suite']}")
    samples: dict[str, list[Any]] = {}
    for attempt in run.final():
        good = [each for each in attempt.samples if not each.void and each.elapsed_ns]
        samples.setdefault(run.cells[attempt.cell].label, []).extend(good)
    machine = next((attempt.facts.get(MACHINE) for attempt in run.attempts), None)
    known = {MACHINE: machine, "python": (run.header["host"].get("python") or {}).get("version")}
    return Baseline(
        path,
        {
            name: Test(list(map(time_ns, of)), list(map(cpu_ns, of)), of[0].facts)
            for name, of in samples.items()
            if of
        },
        {
            **{name: None if value is None else str(value) for name, value in known.items()},
            "dyno": run.header["dyno"],
        },
    )


def _earlier(path: Path) -> Baseline:
    data = json.loads(text(path, MOST_BYTES))
    if data["schema"] != EARLIER:
        raise ValueError(f"it is of schema {data['schema']}, and this Dyno reads {EARLIER} and run files")
    tests = {name: Test(test["time_ns"], test["cpu_ns"], {}) for name, test in data["tests"].items()}
    for times in (each for test in tests.values() for each in (test.time_ns, test.cpu_ns)):
        if not isinstance(times, list) or not times or not all(0 < value < math.inf for value in times):
            raise ValueError("expected times above 0")
    return Baseline(path, tests, {name: data.get(name) for name in origin()})
