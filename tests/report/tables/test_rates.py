"""Guards the first report on a run at a rate: which engines held it, which did not, and their response times."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from madeup import a_cell, a_sample, an_attempt, of_cells, recorded, repeated
from rich.console import Console

from dyno.fields import Sample
from dyno.report.tables import notes, overview, sections, sweeps
from dyno.report.tables.table import groups
from dyno.results import Run

RATE, MS = 1_000, 1_000_000


def opened(operations: int, response_ms: float, **changed: object) -> Sample:
    """A sample of one second of an open loop."""
    whole = a_sample(per_second=operations, response=recorded(*[int(response_ms * MS)] * 100))
    return replace(whole, due=RATE, **changed)  # type: ignore[arg-type]


def run(**samples: Sample) -> Run:
    attempts = [an_attempt(b, each, cell=at) for at, each in enumerate(samples.values()) for b in range(3)]
    return of_cells(*(a_cell(name, rate=RATE) for name in samples), attempts=tuple(attempts))


def lines(made: Run) -> list[str]:
    return notes.rates(made, groups(made), {"read": "get"})


def test_engines_holding_rate_are_listed_with_response_p99() -> None:
    (line,) = lines(run(lmdb=opened(RATE, 2), sqlite=opened(RATE, 5)))
    assert line.startswith("At 1,000 op/s in get, tier process: held by ")
    assert "lmdb (response p99 2.00 ms)" in line and "sqlite (response p99 5.00 ms)" in line
    assert "not held" not in line


def test_engines_missing_rate_are_listed_with_operations_done() -> None:
    (line,) = lines(run(lmdb=opened(RATE, 2), sqlite=opened(700, 900)))
    assert (
        "held by lmdb (response p99 2.00 ms); not held by sqlite (response p99 900 ms: 700 of 1,000 operations"
        in line
    )


def test_few_operations_are_listed_with_response_p50() -> None:
    brief = replace(opened(RATE, 2), response=repeated(2 * MS, 100))
    (line,) = lines(run(lmdb=brief))
    assert line.endswith("held by lmdb (response p50 2.00 ms).")


def test_closed_loop_and_bulk_have_no_rate_line() -> None:
    assert lines(run(lmdb=a_sample())) == []
    assert lines(run(lmdb=a_sample(bulk=True))) == []


def test_every_table_and_sentence_has_the_same_p99() -> None:
    """The trials' p99 differ: their median is 2 ms, and the p99 of all operations together is 9 ms."""
    trials = [opened(RATE, ms) for ms in (1, 2, 9)]
    cells = [a_cell("lmdb", rate=rate) for rate in (RATE, 2 * RATE)]
    attempts = [an_attempt(b, each, cell=at) for at in range(2) for b, each in enumerate(trials)]
    made = of_cells(*cells, attempts=tuple(attempts))
    out = io.StringIO()
    for part in (overview, sweeps):
        sections.render(part.sections(made), Console(file=out, width=160), aligned=False)
    shown = out.getvalue()
    assert "p99 of the response time by rate" in shown
    figures = [*re.findall(r"^lmdb .*", shown, re.M), *lines(made)]
    assert len(figures) == 5 and all("9.00 ms" in line and "2.00 ms" not in line for line in figures)
