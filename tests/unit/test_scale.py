"""Guards that reports of large runs take no more than so much for each row: by counting calls, never by the clock. And
that what a large run is not shown of is said."""

from __future__ import annotations

import gc
import io
import sys
import weakref
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from madeup import a_cell, of_rates, recorded
from rich.console import Console
from rich.table import Table

from dyno.model import Tier
from dyno.report import charts, compared, data, grid, jsontext, limits, plot, text, words
from dyno.report.charts import ratios
from dyno.report.page import build
from dyno.report.site.catalogue import entry
from dyno.report.site.data import Collection
from dyno.results import Run
from dyno.stats import between, compare, gate, sweep
from dyno.stats.summary import summarize

MARGIN = 0.05
PHASES = ("read",)


def a_sweep(engines: int = 3, values: int = 4, tiers: tuple[Tier, ...] = (Tier.PROCESS,)) -> Run:
    """Engines, each slower than the one before by a tenth and more so at higher values, with three trials each."""
    rows = []
    for tier, value, batch, at in product(tiers, range(values), (1, 2), range(engines)):
        cell = a_cell(f"engine-{at}", tier, records=1_000 * (value + 1), batch=batch)
        speed = 1e6 / (1 + at / 10) / (1 + value * (engines - at) / 50)
        rows.append((cell, {"read": [speed * (1 + (at * 7 + value * 3 + block * 5) % 11 / 1_000) for block in range(3)]}))
    return of_rates(*rows, phases=PHASES)


def calls(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, are called meanwhile."""
    count = 0

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def shown(run: Run) -> str:
    out = io.StringIO()
    text.render(run, Console(file=out, width=200))
    return out.getvalue()


def in_a_site(run: Run) -> object:
    collection = Collection()
    collection.add(run, entry(run, "run"))
    return collection.data()


def drawn(run: Run) -> object:
    return [each.records(run) for each in charts.of(run)]


def checked(run: Run) -> object:
    after = Run(Path("after.json"), run.header, run.cells, run.attempts)
    found = between.between(run, after)
    return compared.between_data(run, after, found, MARGIN, gate.gate(found, MARGIN))


REPORTS: dict[str, Callable[[Run], object]] = {
    "show": shown,
    "show --json": lambda run: list(data.as_json(run)),
    "show --csv": data.as_csv,
    "show --markdown": data.as_markdown,
    "compare": lambda run: compared.within(run, compare.tables(run), None, MARGIN),
    "compare --json": lambda run: compared.within_data(run, compare.tables(run), "engine-1", MARGIN),
    "answers": words.answers,
    "check": checked,
    "charts": drawn,
    "site": in_a_site,
}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize(
    "larger",
    [{"values": 40}, {"engines": 60, "values": 2}],
    ids=["values of a parameter", "engines in a table"],
)
def test_a_run_of_ten_times_as_many_cells_takes_ten_times_as_many_calls(name: str, larger: dict[str, int]) -> None:
    small = {"engines": 3, "values": 4} if "engines" not in larger else {"engines": 6, "values": 2}
    # What is kept of one run, or once for all, is of neither.
    REPORTS[name](a_sweep(**small))
    before, after = a_sweep(**small), a_sweep(**larger)
    counts = [calls(lambda run=run: REPORTS[name](run)) for run in (before, after)]
    grown = len(after.cells) / len(before.cells)
    assert counts[1] <= counts[0] * grown * 1.3, counts
