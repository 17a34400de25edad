"""Flame graphs agree with the samples, and can be drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from madeup import a_cell, of_rates
from profiles import Counts, with_profiles

from dyno.report.charts import flame, plot
from dyno.report.charts.chart import Chart
from dyno.report.charts.plot import Choice
from dyno.results import Run

FAST: Counts = {"lib`main;lib`get": 60, "lib`main;lib`get;[kernel]`read": 20, "lib`other": 20}
SLOW: Counts = {"lib`main;lib`get": 30, "lib`main;lib`wait": 69, "lib`other": 1}


@pytest.fixture
def run() -> Run:
    rates = {"read": [1000.0, 1010.0, 990.0]}, {"read": [500.0, 505.0, 495.0]}
    made = of_rates((a_cell("lmdb"), rates[0]), (a_cell("sqlite"), rates[1]), phases=["read"])
    return with_profiles(made, "read", [FAST, SLOW])


def boxes(record: dict[str, list[object]]) -> list[tuple[object, ...]]:
    return list(zip(*(record[name] for name in ("function", "library", "level", "begin", "share")), strict=True))


def test_flame_graph_has_each_function_below_its_caller(run: Run) -> None:
    first, _ = flame.records(run)
    assert (first["engine"], first["samples"]) == ("lmdb", 100)
    assert boxes(first) == [
        ("main", "lib", 1, 0.0, 0.8),
        ("other", "lib", 1, 0.8, 0.2),
        ("get", "lib", 2, 0.0, 0.8),
        ("read", "[kernel]", 3, 0.0, 0.2),
    ]


def test_difference_is_to_the_same_stack_of_the_best_row(run: Run) -> None:
    (record,) = flame.differences(run)
    assert (record["engine"], record["against"]) == ("sqlite", "lmdb")
    changes = dict(zip(record["function"], record["change"], strict=True))
    assert changes == {
        "main": pytest.approx(0.19),
        "other": pytest.approx(-0.19),
        "get": pytest.approx(-0.5),
        "wait": pytest.approx(0.69),
    }


def test_invisible_functions_have_no_box_and_keep_their_place(run: Run) -> None:
    wide = with_profiles(run, "read", [{"lib`a": 1, "lib`b": 9998, "lib`c;lib`d": 1}])
    (record,) = flame.records(wide)
    assert boxes(record) == [("b", "lib", 1, 0.0001, 0.9998)]


def test_client_and_server_are_apart(run: Run) -> None:
    served = with_profiles(run, "read", [{"lib`send": 25}], server={"db`work": 75})
    (record,) = flame.records(served)
    assert {(name, depth) for name, _, depth, *_ in boxes(record)} == {
        ("client", 1),
        ("server", 1),
        ("send", 2),
        ("work", 2),
    }


def test_waits_of_the_server_are_below_the_chart(run: Run) -> None:
    waits = {"IO DataFileRead": 5, "running": 15}
    waiting = with_profiles(run, "read", [FAST], server={"db`work": 75}, waits=waits)
    (sentence,) = flame.FLAME.says(waiting)
    assert sentence["engines"] == ["lmdb"]
    assert sentence["text"] == "lmdb: waits of the server: 75 % running, 25 % IO DataFileRead (seen 20 times)"
    assert flame.FLAME.says(run) == []


@pytest.mark.parametrize("chart", [flame.FLAME, flame.DIFFERENCE], ids=lambda chart: chart.name)
@pytest.mark.parametrize("dark", [False, True])
def test_flame_graph_is_drawn_with_names(run: Run, chart: Chart, dark: bool) -> None:
    drawn = plot.draw_chart(run, chart, Choice()).svg(dark)
    texts = {text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")}
    assert {"main", "get", "sqlite"} <= texts
