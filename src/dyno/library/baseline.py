"""Baselines of the pytest plug-in: run files of the suite `calls` with a row for each measurement, and the files that
earlier versions of the plug-in wrote."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dyno import __version__, results
from dyno.contracts.cell import Cell
from dyno.contracts.model import Phase, UsageError
from dyno.contracts.pace import PATIENCE
from dyno.contracts.presentation import Column, Layout
from dyno.contracts.safe_read import text
from dyno.fields import Sample, plain
from dyno.host import commit, facts
from dyno.library.function import METRICS, PHASE, Measured, values_by_block
from dyno.options import PlanOptions
from dyno.results import Run
from dyno.stats.agreement import judged_attempts
from dyno.stats.two_runs import block_starts

if TYPE_CHECKING:
    from dyno.contracts.model import Fact

SUITE = "calls"
ENGINE = "call"
FUNCTION = "function"
MACHINE = "machine"
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
    samples: list[dict[str, object]]
    """The samples as a run file has them."""
    figures: dict[str, dict[str, Fact]] = field(default_factory=dict)
    """The test's own figures by name, each with `value` and `unit`."""

    @staticmethod
    def from_result(name: str, line: str, result: Measured) -> Measurement:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        return Measurement(name, line, now, [plain(each) for each in result.samples])


class Test(NamedTuple):
    """A test in a baseline."""

    by_metric: Mapping[str, Mapping[int, float]]
    """Values by metric and block, without blocks in which the metric was not measured."""
    figures: Mapping[str, Fact]

    def values(self, metric: str) -> Mapping[int, float]:
        return self.by_metric.get(metric, {})


class Baseline(NamedTuple):
    path: Path
    tests: Mapping[str, Test]
    origin: Mapping[str, str | None]
    """Values like those of `origin`. A value is None if an older file lacks it."""
    starts: Mapping[int, datetime]
    """Start of each block; empty for an older file."""
    run: Run | None
    """None for an older file."""


def origin() -> dict[str, str | None]:
    return {MACHINE: platform.node(), "python": platform.python_version(), "dyno": __version__}


def save(path: Path, measurements: Sequence[Measurement], seconds: float, turns: int, earlier: Run | None) -> None:
    """Writes a run file with a cell for each measurement and an attempt for each sample. With `turns`, the planned
    number of sessions, the samples are a block after those of the `earlier` run, if there is one. The file is
    replaced when the new one is complete. Raises UsageError and OSError."""
    new = path.with_name(f".{path.name}.part")
    new.unlink(missing_ok=True)
    cells = []
    if earlier is not None:
        cells = [str(cell.name) for cell in earlier.cells]
    cells += [each.name for each in measurements if each.name not in cells]
    attempts = () if earlier is None else earlier.attempts
    first = next_turn(attempts)
    most = max(turns, first + max(len(each.samples) for each in measurements))
    try:
        results.create(new, _header(measurements, seconds, most), list(map(_cell, cells)))
        for attempt in attempts:
            results.append(new, attempt)
        for block in range(most - first):
            for each in measurements:
                if block < len(each.samples):
                    results.append(new, _attempt(cells.index(each.name), first + block, each.samples[block], each))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def next_turn(attempts: Collection[results.Attempt]) -> int:
    """Returns the number of the block after those of the attempts."""
    return max((attempt.block + 1 for attempt in attempts), default=0)


def _header(measurements: Sequence[Measurement], seconds: float, samples: int) -> dict[str, object]:
    options = PlanOptions(samples=samples, seed=1, budget=seconds, duration=seconds, timeout=PATIENCE * seconds)
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


def _attempt(cell: int, block: int, data: dict[str, object], measurement: Measurement) -> results.Attempt:
    figures = {name: figure["value"] for name, figure in measurement.figures.items()}
    sample = replace(results.sample(data), facts=figures)
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
    if ours:
        return _run(path)
    return _load_earlier_schema(path)


def _run(path: Path) -> Baseline:
    run = results.load(path)
    if run.plan.suite != SUITE:
        raise ValueError(f"it is a run of the suite {run.plan.suite}")
    samples: dict[str, dict[int, Sample]] = {}
    for attempt in {(each.cell, each.block): each for each in judged_attempts(run)}.values():
        for sample in attempt.samples:
            if not sample.void and sample.elapsed_ns:
                samples.setdefault(run.cells[attempt.cell].label, {})[attempt.block] = sample
    machine = next((attempt.facts.get(MACHINE) for attempt in run.attempts), None)
    known = {MACHINE: machine, "python": run.header.host.python.version}
    origin = {name: None if value is None else str(value) for name, value in known.items()}
    tests = {name: _test(of) for name, of in samples.items()}
    return Baseline(path, tests, {**origin, "dyno": run.header.dyno}, block_starts(run), run)


def _test(samples: Mapping[int, Sample]) -> Test:
    by_metric = {metric: values_by_block(samples, metric) for metric in METRICS}
    return Test(by_metric, next(iter(samples.values())).facts)


def _load_earlier_schema(path: Path) -> Baseline:
    data = json.loads(text(path, MOST_BYTES))
    if data["schema"] != EARLIER:
        raise ValueError(f"it is of schema {data['schema']}, and this Dyno reads {EARLIER} and run files")
    known = data["tests"].items()
    for times in (test[key] for _, test in known for key in ("time_ns", "cpu_ns")):
        if not isinstance(times, list) or not times or not all(0 < value < math.inf for value in times):
            raise ValueError("expected times above 0")
    tests = {
        name: Test({"time": dict(enumerate(test["time_ns"])), "cpu": dict(enumerate(test["cpu_ns"]))}, {})
        for name, test in known
    }
    return Baseline(path, tests, {name: data.get(name) for name in origin()}, {}, None)
