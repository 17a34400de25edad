"""Flame graphs on the page, in a browser without network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, of_rates, written
from profiles import with_profiles
from shell import Shell

pytestmark = pytest.mark.usefixtures("processes")

HOSTILE = "f<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_400, 390])
def test_page_draws_flame_graphs(
    width: int, scheme: str, shell: Shell, tmp_path: Path, visit: Callable[..., Any]
) -> None:
    rows = (a_cell("lmdb"), {"read": [1000.0, 1010.0, 990.0]}), (a_cell("sqlite"), {"read": [500.0, 505.0, 495.0]})
    fast = {"lib`main;lib`get": 60, f"lib`main;lib`{HOSTILE}": 40}
    slow = {"lib`main;lib`get": 20, "lib`main;[kernel]`read": 80}
    run = with_profiles(of_rates(*rows, phases=["read"]), "read", [fast, slow])
    file = written(run, tmp_path / "r.json")
    assert shell.dyno("report", file, "-o", tmp_path / "r.html").status == 0
    page = visit(tmp_path / "r.html", width=width, color_scheme=scheme)
    for name, engines in (("flame", ["lmdb", "sqlite"]), ("flame-difference", ["sqlite"])):
        figure = page.locator(f"#chart-{name}")
        figure.scroll_into_view_if_needed()
        page.wait_for_selector(f"#chart-{name} .live svg")
        texts = figure.locator(".live svg text").all_text_contents()
        assert {"main", "get", *engines} <= set(texts), texts
        spoken = figure.locator(".live svg [aria-label]").evaluate_all(
            "all => all.map(one => one.getAttribute('aria-label'))"
        )
        assert any(text and text.startswith("sqlite, read, 80.0%") for text in spoken), spoken
        right = figure.locator(".live svg").evaluate("svg => svg.getBoundingClientRect().right")
        assert right <= width
    figure.get_by_role("button", name="Table").click()
    assert "80 % [kernel]" in figure.locator(".data").inner_text()


def test_page_without_profiles_has_no_flame_graph(shell: Shell, tmp_path: Path, visit: Callable[..., Any]) -> None:
    run = of_rates((a_cell("lmdb"), {"read": [1000.0, 1010.0, 990.0]}), phases=["read"])
    assert shell.dyno("report", written(run, tmp_path / "r.json"), "-o", tmp_path / "r.html").status == 0
    page = visit(tmp_path / "r.html")
    assert page.locator("#chart-flame").is_hidden()


@pytest.fixture
def zoomable(shell: Shell, tmp_path: Path, visit: Callable[..., Any]) -> tuple[Any, Any]:
    """A page with a flame graph of two rows, and its figure."""
    rows = (a_cell("lmdb"), {"read": [1000.0, 1010.0, 990.0]}), (a_cell("sqlite"), {"read": [500.0, 505.0, 495.0]})
    fast = {"lib`main;a`get": 60, "lib`main;lib`put;z`inner": 20, "lib`main;lib`put;lib`rest": 20}
    run = with_profiles(of_rates(*rows, phases=["read"]), "read", [fast, {"lib`main;lib`get": 100}])
    file = written(run, tmp_path / "r.json")
    assert shell.dyno("report", file, "-o", tmp_path / "r.html").status == 0
    page = visit(tmp_path / "r.html")
    figure = page.locator("#chart-flame")
    figure.scroll_into_view_if_needed()
    page.wait_for_selector("#chart-flame .live svg")
    return page, figure


def drawn_functions(figure: Any) -> list[str]:
    """Names of the functions that have a box, with their rows."""
    spoken = figure.locator(".live svg path[aria-label]").evaluate_all(
        "all => all.map(one => one.getAttribute('aria-label'))"
    )
    return sorted(", ".join(text.split(", ")[:2]) for text in spoken)


def fills(figure: Any) -> dict[str, str]:
    """Colour of each box by its text."""
    pairs = figure.locator(".live svg path[aria-label]").evaluate_all(
        "all => all.map(one => [one.getAttribute('aria-label'), one.getAttribute('fill')])"
    )
    return dict(pairs)


def wait_for_zoom(page: Any, zoomed: bool = True) -> None:
    button = "document.querySelector('#chart-flame [data-zoom]')"
    page.wait_for_function(f"() => {button}.hidden === {str(not zoomed).lower()}")


ALL = [f"lmdb, {name}" for name in ("get", "inner", "main", "put", "rest")] + ["sqlite, get", "sqlite, main"]
WITHIN_PUT = [f"lmdb, {name}" for name in ("inner", "main", "put", "rest")]


def test_click_zooms_into_a_function_and_out(zoomable: tuple[Any, Any]) -> None:
    page, figure = zoomable
    box = figure.locator(".live svg path[aria-label^='lmdb, put']")
    assert drawn_functions(figure) == ALL
    narrow = box.bounding_box()["width"]
    colours = fills(figure)
    zoom_out = figure.get_by_role("button", name="Zoom out")
    assert zoom_out.is_hidden()
    box.click()
    wait_for_zoom(page)
    assert drawn_functions(figure) == WITHIN_PUT
    assert box.bounding_box()["width"] > 2 * narrow
    assert fills(figure).items() <= colours.items()
    # The share stays that of the whole row, and the axis says which part is shown.
    assert figure.locator(".zoomed").inner_text().startswith("lmdb, put, 40.0%")
    assert {"60%", "100%"} <= set(figure.locator(".live svg text").all_text_contents())
    box.hover()
    assert "40.0%" in page.locator("#vg-tooltip-element").inner_text()
    zoom_out.click()
    wait_for_zoom(page, zoomed=False)
    assert drawn_functions(figure) == ALL


def test_keyboard_zooms_into_a_function_and_out(zoomable: tuple[Any, Any]) -> None:
    page, figure = zoomable
    status = figure.locator(".zoomed")
    figure.locator(".canvas").focus()
    chosen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
        chosen.append(status.inner_text().split(", ")[:3])
    names = [["main", "100.0%"], ["get", "60.0%"], ["put", "40.0%"], ["rest", "20.0%"], ["put", "40.0%"]]
    assert chosen == [["lmdb", *name] for name in names]
    assert "put" in figure.locator(".live svg .current").get_attribute("aria-label")
    page.keyboard.press("Enter")
    wait_for_zoom(page)
    assert drawn_functions(figure) == WITHIN_PUT
    # A second step, to a function within it.
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("() => !document.querySelector(\"#chart-flame .live [aria-label^='lmdb, inner']\")")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector(\"#chart-flame .live [aria-label^='lmdb, inner']\")")
    assert drawn_functions(figure) == WITHIN_PUT
    page.keyboard.press("Escape")
    wait_for_zoom(page, zoomed=False)
    assert drawn_functions(figure) == ALL
    assert page.evaluate("document.activeElement.className") == "canvas"


def test_zoomed_page_has_no_axe_violations(zoomable: tuple[Any, Any]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page, figure = zoomable
    figure.locator(".live svg path[aria-label^='lmdb, put']").click()
    wait_for_zoom(page)
    found = Axe().run(page).response
    assert [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found["violations"]] == []


def test_flame_graph_without_javascript_is_a_picture(
    zoomable: tuple[Any, Any], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    page = visit(tmp_path / "r.html", java_script_enabled=False)
    figure = page.locator("#chart-flame")
    assert "put" in figure.locator(".still svg text").all_text_contents()
    assert figure.get_by_text("A click on a function").is_hidden()
    assert figure.get_by_role("button").count() == 0


def test_page_of_two_runs_draws_their_difference(shell: Shell, tmp_path: Path, visit: Callable[..., Any]) -> None:
    run = of_rates((a_cell("lmdb"), {"read": [1000.0, 1010.0, 990.0]}), phases=["read"])
    before = written(with_profiles(run, "read", [{"lib`main;lib`get": 100}]), tmp_path / "a.json")
    after = written(with_profiles(run, "read", [{"lib`main;lib`get": 25, "lib`main": 75}]), tmp_path / "b.json")
    assert shell.dyno("report", before, after, "-o", tmp_path / "r.html").status == 0
    page = visit(tmp_path / "r.html")
    assert page.locator("#chart-flame-first-run").is_hidden(), "the first run has nothing before it"
    page.goto(f"{(tmp_path / 'r.html').resolve().as_uri()}#run=1")
    figure = page.locator("#chart-flame-first-run")
    figure.scroll_into_view_if_needed()
    page.wait_for_selector("#chart-flame-first-run .live svg")
    figure.locator(".live svg path[aria-label^='lmdb, get']").hover()
    assert "75.0%" in page.locator("#vg-tooltip-element").inner_text()
