"""Guards where a sweep reports that an engine ends: at the least value from which on it has no figure, with the
reason, and nowhere else.
"""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells
from rich.console import Console

from dyno.contracts.cell import Cell
from dyno.report.charts import lines as chart
from dyno.report.tables import sections, sweeps
from dyno.report.tables.sweeps import describe_end, find_ends
from dyno.results import Run


def sized(engine: str, size: int) -> Cell:
    return replace(a_cell(engine, tier=None), params={"size": size, "clients": 1, "rate": "max"})


@pytest.fixture
def run() -> Run:
    """A run with three sizes. One engine has all of them; one is killed at the largest; one is void at the second and
    valid at the third; one never works; and one was not tried at the largest yet.
    """
    cells, attempts = [], []

    def tried(engine: str, size: int, outcome: str | None = "ok", **sample: object) -> None:
        cells.append(sized(engine, size))
        if outcome is not None:
            samples = [a_sample("read", 100.0, **sample)] if outcome == "ok" else []
            attempts.append(an_attempt(0, *samples, outcome=outcome, cell=len(cells) - 1))

    for size in (10, 100, 1000):
        tried("whole", size)
        tried("gone", size, "out-of-memory" if size == 1000 else "ok")
        tried("lapse", size, void="wrong" if size == 100 else None)
        tried("never", size, "timeout")
        tried("later", size, None if size == 1000 else "ok")
    made = of_cells(*cells, attempts=tuple(attempts), samples=1)
    return replace(made, recorded={**made.recorded, "plan": {**made.recorded["plan"], "phases": ["read"]}})


def test_line_ends_where_all_further_figures_are_missing(run: Run) -> None:
    assert [(end.cell.engine, end.last, end.at) for end in find_ends(run)] == [
        ("never", None, 10),
        ("gone", 100, 1000),
    ]
    told = {end.cell.engine: describe_end(end) for end in find_ends(run)}
    assert told["gone"].startswith("gone stops at size = 100: at 1,000 out-of-memory in read: why it ended")
    assert told["never"].startswith("never has no figure from size = 10 on: timeout in read")


def test_table_and_chart_show_where_a_line_ends(run: Run) -> None:
    out = io.StringIO()
    sections.render(sweeps.sections(run), Console(file=out, width=200), aligned=False)
    assert "gone stops at size = 100" in out.getvalue()
    found = chart.sweep(run, "size")
    crossed = [(record["engine"], record["x"]) for record in found.records(run) if "ends" in record]
    assert crossed == [("gone", 100)]
    (layer,) = (
        layer for layer in found.spec(["whole", "gone"], "op")["layer"] if "isValid(datum.ends)" in str(layer)
    )
    assert layer["mark"]["type"] == "point"
    assert any("gone stops at" in said["text"] and said["engines"] == ["gone"] for said in found.says(run))


def test_chart_of_complete_lines_has_no_end_marker(run: Run) -> None:
    whole = [at for at, cell in enumerate(run.cells) if cell.engine == "whole"]
    cells = tuple(run.cells[at] for at in whole)
    attempts = tuple(replace(a, cell=whole.index(a.cell)) for a in run.attempts if a.cell in whole)
    sound = replace(run, cells=cells, attempts=attempts)
    assert find_ends(sound) == ()
    assert "datum.ends" not in str(chart.sweep(sound, "size").spec(["whole"], "op"))
