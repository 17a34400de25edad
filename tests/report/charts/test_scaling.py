"""Guards the report on scaling with clients: throughput relative to one client, and the position of the knee."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest
from madeup import a_cell, of_rates
from rich.console import Console

from dyno.report.charts import lines
from dyno.report.tables import sections, sweeps
from dyno.results import Run
from dyno.stats.sweep import scalings


def run(rates: Mapping[int, float], **host: object) -> Run:
    """A run of one engine, with a rate for each number of clients."""
    rows = [(a_cell("lmdb", clients=clients), {"read": [rate] * 3}) for clients, rate in rates.items()]
    return of_rates(*rows, phases=["read"], host=host)


@pytest.mark.claim("The knee is reported only if something was measured beyond it")
@pytest.mark.parametrize(
    ("rates", "knee", "flat"),
    [
        ({1: 100, 2: 200, 3: 200, 4: 201}, 2, True),
        ({1: 100, 2: 190, 4: 370}, 4, False),
        ({1: 100, 2: 100, 4: 90}, 1, True),
        ({1: 100, 2: 180, 4: 189, 8: 150}, 2, True),
    ],
)
def test_knee_is_fewest_clients_near_the_highest_rate(rates: dict[int, float], knee: int, flat: bool) -> None:
    (found,) = scalings(run(rates))
    assert (found.knee, found.flat) == (knee, flat)
    assert [(n, round(times, 2)) for n, times in found.points] == [(n, rate / 100) for n, rate in rates.items()]


@pytest.mark.parametrize("rates", [{1: 100}, {2: 100, 4: 200}])
def test_scaling_needs_one_client_and_a_larger_number(rates: dict[int, float]) -> None:
    out, found = io.StringIO(), run(rates)
    sections.render(sweeps.scaling_sections(found), Console(file=out, width=200))
    assert list(scalings(found)) == [] and out.getvalue() == ""


def test_scaling_report_states_available_cores() -> None:
    out = io.StringIO()
    grown = run({1: 100, 2: 190, 4: 200}, cpu={"available_cores": 2})
    sections.render(sweeps.scaling_sections(grown), Console(file=out, width=200))
    assert "on 2 cores" in out.getvalue()
    assert "lmdb: 2 do × 1.90 (95% each), 4 do × 2.00 (50% each); knee at 2" in out.getvalue()


@pytest.mark.parametrize(
    ("cpu", "marked"),
    [
        ({"available_cores": 2}, 2),
        ({"available_cores": 8, "quota_cores": 1.5}, 1.5),
        ({"available_cores": 64}, None),
        ({}, None),
    ],
)
def test_chart_of_clients_marks_the_available_cores(cpu: dict[str, float], marked: float | None) -> None:
    found = lines.sweep(run({1: 100, 4: 200}, cpu=cpu), "clients")
    layers = found.spec(["lmdb"], "op")["layer"]
    rules = [layer["encoding"]["x"]["datum"] for layer in layers if "datum" in layer["encoding"].get("x", {})]
    assert rules == ([] if marked is None else [marked, marked]), "the line and its name"
