"""Made-up runs, as if read from a run file, for the tests of the statistics. Not a test itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import VERSION, Caveat, Tier
from dyno.contracts.rank import needed_values
from dyno.fields import Sample
from dyno.results import Attempt, Run
from dyno.stats.doubts import doubts
from dyno.stats.summary import CellSummary, summarize

PHASES = ("fill", "read")
SECOND = 10**9


def repeated(span_ns: int, count: int) -> bytes | None:
    """An encoded histogram of one span."""
    recorder = Recorder()
    recorder.add_many(span_ns, count)
    return recorder.encode()


@cache
def recorded(*spans_ns: int) -> bytes | None:
    """An encoded histogram in which these spans are equally often, often enough for a p99.9."""
    recorder = Recorder()
    for span_ns in spans_ns:
        recorder.add_many(span_ns, -(-needed_values(99.9) // len(spans_ns)))
    return recorder.encode()


def a_sample(phase: str = "read", per_second: float = 1_000.0, **changed: Any) -> Sample:
    """A sound sample of one second."""
    items = int(per_second)
    values: dict[str, Any] = {
        "phase": phase,
        "unit": "op",
        "operations": items,
        "items": items,
        "elapsed_ns": SECOND,
        "busy_ns": SECOND,
        "errors": 0,
        "ended_by": "count",
        "checked": items,
        "histogram": recorded(1_000_000),
        "bytes_on_disk": 4_096,
    }
    return Sample(**{**values, **changed})


def an_attempt(block: int = 0, *samples: Sample, outcome: str = "ok", **changed: Any) -> Attempt:
    values: dict[str, Any] = {
        "cell": 0,
        "attempt": 0,
        "why": None if outcome == "ok" else f"why it ended by {outcome}",
        "phase": None if outcome == "ok" else "read",
        "started": "2026-01-01T00:00:00+00:00",
        "duration_ns": SECOND,
        "version": "1.0",
        "settings": {"sync": True},
        "caveats": (Caveat("columns", "has columns"),),
        "resources": {},
        "output": None,
    }
    return Attempt(block=block, outcome=outcome, samples=samples, **{**values, **changed})


def a_cell(engine: str = "sqlite", tier: Tier | None = Tier.PROCESS, floor: bool = False, **params: Any) -> Cell:
    return Cell("records", engine, {}, tier, {"clients": 1, "rate": "max", **params}, floor)


def a_first_line(plan: Mapping[str, Any], **header: Any) -> dict[str, Any]:
    """The first line of a run file without its cells."""
    usual = {"suite": "records", "phases": list(PHASES), "samples": 1, "seed": 1, "budget": 5.0, "timeout": 60.0}
    return {"schema": 3, "plan": {**usual, **plan}, "host": {}, **header}


def a_run(
    *attempts: Attempt,
    samples: int = 3,
    tier: Tier = Tier.PROCESS,
    floor: bool = False,
    host: Any = None,
    plan: Mapping[str, Any] | None = None,
    **params: Any,
) -> Run:
    """A run with one cell."""
    recorded = a_first_line({"samples": samples, **(plan or {})}, host=host or {})
    return Run(Path("run.json"), recorded, (a_cell(tier=tier, floor=floor, **params),), attempts)


def of_cells(*cells: Cell, attempts: tuple[Attempt, ...] = (), samples: int = 3) -> Run:
    """A run with several cells."""
    return Run(Path("run.json"), a_first_line({"samples": samples}), cells, attempts)


Rates = Sequence[float | None]
"""Items per second of each block; None if the trial has no sample of the phase."""


def of_rates(*rows: tuple[Cell, Mapping[str, Rates]], phases: Sequence[str] = PHASES, **header: Any) -> Run:
    """A run of these cells, each with the rates of its phases."""
    attempts = tuple(
        an_attempt(block, *_samples(rates, block), cell=at)
        for at, (_, rates) in enumerate(rows)
        for block in range(max(map(len, rates.values()), default=0))
    )
    samples = max((attempt.block + 1 for attempt in attempts), default=1)
    recorded = a_first_line({"phases": list(phases), "samples": samples}, **header)
    return Run(Path("run.json"), recorded, tuple(cell for cell, _ in rows), attempts)


def versions(
    rates: Mapping[str, Rates], engine: str = "lmdb", **options: str
) -> list[tuple[Cell, Mapping[str, Rates]]]:
    """Rows of versions of an engine, with these rates in the phase `read`."""
    return [
        (replace(a_cell(engine), options={VERSION: version, **options}), {"read": of})
        for version, of in rates.items()
    ]


def _samples(rates: Mapping[str, Rates], block: int) -> list[Sample]:
    at = {phase: values[block] for phase, values in rates.items() if block < len(values)}
    # Omit the histogram: decoding takes time.
    return [a_sample(phase, rate, histogram=None) for phase, rate in at.items() if rate is not None]


def reads(**rates: Rates) -> Run:
    """A run with the phase `read` only, by engine name."""
    return of_rates(*((a_cell(engine), {"read": values}) for engine, values in rates.items()), phases=["read"])


def declared(run: Run, phase: str = "read", **about: Any) -> Run:
    """The run with these declarations of the suite about the phase."""
    return replace(run, recorded={**run.recorded, "phases": [{"name": phase, **about}]})


Change = Callable[[str, Sample], Sample]


def changed(run: Run, change: Change) -> Run:
    """The run with `change` applied to every sample and its engine's name."""

    def attempt(found: Attempt) -> Attempt:
        name = run.cells[found.cell].engine
        return replace(found, samples=tuple(change(name, sample) for sample in found.samples))

    return replace(run, attempts=tuple(attempt(found) for found in run.attempts))


def heated(run: Run, **temperatures: str) -> Run:
    """The run whose phases, by name, were requested at these temperatures and reached them."""
    return changed(
        run, lambda _, sample: replace(sample, temperature=temperatures.get(sample.phase, sample.temperature))
    )


def written(run: Run, path: Path) -> Path:
    """Writes the run to a file."""
    results.create(path, run.recorded, list(run.cells))
    for attempt in run.attempts:
        results.append(path, attempt)
    for profiled in run.profiled:
        results.append_profile(path, profiled)
    return path


def sound(count: int = 3, **changed: Any) -> list[Attempt]:
    """`count` trials, each with a sound sample that has these changes."""
    return [an_attempt(block, a_sample(**{"per_second": 1_000 + block, **changed})) for block in range(count)]


def worst(**changed: Any) -> list[Attempt]:
    """Three trials, of which only the last has these changes."""
    return [*sound(2), an_attempt(2, a_sample(**changed))]


def read_row(run: Run) -> CellSummary:
    return next(row for row in summarize(run) if row.phase == "read")


def codes(run: Run) -> set[str]:
    return {doubt.code for doubt in doubts(read_row(run), run)}


def said(run: Run, code: str) -> tuple[str, str]:
    """Short and long text of a doubt."""
    return next((doubt.short, doubt.text) for doubt in doubts(read_row(run), run) if doubt.code == code)
