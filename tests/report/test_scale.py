"""Guards the cost of reports on large runs per row, by counting calls rather than by the clock. Also guards that fast
replacements of library functions give the same results, and that reports name what they omit of a large run.
"""

from __future__ import annotations

import gc
import io
import random
import sys
import weakref
from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, of_rates
from rich.console import Console
from rich.table import Table

from dyno.contracts.model import Tier
from dyno.report import charts, export
from dyno.report.charts import bars, latency, plot
from dyno.report.page import build
from dyno.report.site.data import Collection, entry
from dyno.report.tables import comparison, display, sections, sweeps, text, wording
from dyno.report.tables.text import as_markdown
from dyno.results import Run
from dyno.stats import compare, sweep, two_runs
from dyno.stats.cache import cache_by_run

MARGIN = 0.05
PHASES = ("read",)


def a_sweep(engines: int = 3, values: int = 4, tiers: tuple[Tier, ...] = (Tier.PROCESS,)) -> Run:
    """Engines with three trials each. Each engine is about a tenth slower than the one before it, and the gap depends
    on the value.
    """
    rows = []
    for tier, value, batch, at in product(tiers, range(values), (1, 2), range(engines)):
        cell = a_cell(f"engine-{at}", tier, records=1_000 * (value + 1), batch=batch)
        speed = 1e6 / (1 + at / 10) / (1 + value * (engines - at) / 50)
        rows.append(
            (cell, {"read": [speed * (1 + (at * 7 + value * 3 + block * 5) % 11 / 1_000) for block in range(3)]})
        )
    return of_rates(*rows, phases=PHASES)


def calls(work: Callable[[], object]) -> int:
    """Number of calls of Python and C functions during the work."""
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
    text.render(run, Console(file=out, width=200), whole=True)
    return out.getvalue()


def in_a_site(run: Run) -> object:
    collection = Collection()
    collection.add(run, entry(run, "run"))
    return collection.compare(), collection.history()


def drawn(run: Run) -> object:
    return [each.records(run) for each in charts.list_charts(run)]


def checked(run: Run) -> object:
    after = Run(Path("after.json"), run.recorded, run.cells, run.attempts)
    found = two_runs.compare_runs(run, after)
    return comparison.gate_data(found, MARGIN, two_runs.gate(found, MARGIN), passed=True)


REPORTS: dict[str, Callable[[Run], object]] = {
    "show": shown,
    "show --json": export.as_json,
    "show --csv": lambda run: export.as_csv(export.cells(run)),
    "show --markdown": as_markdown,
    "compare": lambda run: comparison.compare_within(run, compare.tables(run), None, MARGIN),
    "compare --json": lambda run: comparison.within_data(run, compare.tables(run), "engine-1", MARGIN),
    "answers": wording.answers,
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
def test_report_cost_grows_linearly_with_cells(
    name: str, larger: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Up to this limit, each engine is compared with every other, which would not be linear.
    monkeypatch.setattr(display, "RATIOS", 0)
    small: dict[str, Any] = {"engines": 3, "values": 4} if "engines" not in larger else {"engines": 6, "values": 2}
    # Fills the caches first: their cost belongs to neither count.
    REPORTS[name](a_sweep(**small))
    before, after = a_sweep(**small), a_sweep(**larger)
    counts = [calls(partial(REPORTS[name], run)) for run in (before, after)]
    grown = len(after.cells) / len(before.cells)
    assert counts[1] <= counts[0] * grown * 1.3, counts


def test_cached_result_is_kept_while_the_run_exists() -> None:
    asked = []

    @cache_by_run
    def cells(run: Run, more: int = 0) -> int:
        asked.append(more)
        return len(run.cells) + more

    run = a_sweep()
    assert [cells(run), cells(run), cells(run, 1), cells(run, more=1)] == [24, 24, 25, 25]
    assert asked == [0, 1, 1]
    summarized, gone = compare.tables(run), weakref.ref(run)
    del run
    gc.collect()
    assert summarized and gone() is None


@pytest.mark.parametrize("folding", [[3], [0, 1, 2, 3]], ids=["remarks fold", "all fold"])
def test_table_layout_matches_rich_on_wide_terminal(folding: list[int]) -> None:
    width = 200
    draw, said = random.Random(width), ["few-trials", "ops", "1,234", "a longer remark", "µs – ≥", "数据"]
    for _ in range(30):
        rows = [
            [" ".join(draw.choices(said, k=draw.randint(0, 1 + 7 * (at == 3)))) for at in range(4)] for _ in range(5)
        ]
        columns = [
            sections.Column(head, left=at in (0, 3), folds=at in folding, least=0 if at in folding else 15)
            for at, head in enumerate(["engine", "rate", "p99", "remarks"])
        ]
        ours, theirs = (Console(file=io.StringIO(), width=width, highlight=False) for _ in range(2))
        sections.print_table(columns, rows, ours)
        table = Table(box=None, pad_edge=False, padding=(0, sections.GAP, 0, 0))
        for column in columns:
            justify: Any = "left" if column.left else "right"
            table.add_column(column.head, justify=justify, min_width=column.least, no_wrap=not column.folds)
        for row in rows:
            table.add_row(*row)
        theirs.print(table)
        assert lines(ours) == lines(theirs)


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_crossings_found_equal_those_of_all_pairs() -> None:
    rows = []
    for value in range(6):
        for at in range(5):
            rate = 1e6 * (1 + 0.3 * ((at * 3 + value * (at + 1)) % 7))
            rows.append((a_cell(f"engine-{at}", records=10 + value), {"read": [rate, rate * 1.01, rate * 0.99]}))
    (found,) = sweep.sweeps(of_rates(*rows, phases=PHASES), "records")
    cells = {row.cell.asked: row.cell for _, table in found.points for row, _ in table.rows}
    every = [
        crossing
        for one, other in combinations(cells.values(), 2)
        for crossing in sweep._find_crossings(found, one, other, False, MARGIN)
    ]
    assert every
    assert sweep.crossings(found, log=False) == every


def test_crossings_of_many_engines_consider_the_fastest() -> None:
    (found, *_) = sweeps.all_sweeps(a_sweep(engines=60, values=2))
    leaders = [cell.asked for cell in sweep.leaders(found)]
    assert len(leaders) == sweep.MOST_CROSSED
    fastest = [row.cell.asked for row, _ in found.points[0][1].rows]
    assert set(fastest[: sweep.MOST_CROSSED // 2]) <= set(leaders)


def test_chart_states_omitted_engines_and_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "ROWS", 4)
    monkeypatch.setattr(display, "FEW_PANELS", 2)
    drawn = a_picture(a_sweep(engines=6, values=1))
    assert "The best 4 of up to 6 engines in a panel: -e chooses others." in drawn
    assert "engine-3" in drawn and "engine-4" not in drawn
    run = a_sweep(engines=3, values=2)
    monkeypatch.setattr(display, "MARKS", 12)
    assert "panels" not in a_picture(run)
    monkeypatch.setattr(display, "MARKS", 11)
    shown = "The first 2 of 4 panels: --phase, --tier and -p choose others."
    assert shown in a_picture(run)
    monkeypatch.setattr(display, "MARKS", 12)
    monkeypatch.setattr(display, "PANELS", 3)
    assert shown in a_picture(run)


def a_picture(run: Run) -> str:
    drawn = plot.draw_chart(run, plot.chart(run, "throughput"), plot.Choice()).svg()
    return drawn.replace("&gt;", ">")


@pytest.mark.usefixtures("without_static_charts")
def test_page_states_omitted_engines_rows_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_sweep(engines=60, values=2)
    run = Run(tmp_path / "run.json", run.recorded, run.cells, run.attempts)
    run.path.write_text("{}\n")
    whole = build.build([run])
    assert f"The best {display.VIEWS} of 60 engines" in whole
    assert "rows: the CSV among the downloads has all" not in whole
    monkeypatch.setattr(display, "FEWEST_RESULTS", 10)
    monkeypatch.setattr(display, "RESULTS", 10)
    monkeypatch.setattr(display, "ANSWERS", 1)
    cut = build.build([run])
    assert f"The first 10 of {len(run.cells)} rows: the CSV among the downloads has all." in cut
    assert "3 further answers" in cut


def test_ratio_chart_over_limit_keeps_those_against_best(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_sweep(engines=4, values=2)
    every = bars.ratios(run)
    monkeypatch.setattr(display, "RATIOS", len(every) - 1)
    few = bars.ratios(run)
    best = {table.rows[0][0].cell.asked for table in compare.tables(run)}
    assert len(few) == len(every) // 4
    assert all(record in every and record["baseline"] in best for record in few)


def test_latency_curves_without_histograms_have_no_points() -> None:
    """Without histograms, neither curve has points."""
    assert latency.brief(a_sweep()) == latency.LATENCY.records(a_sweep()) == []
